from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora.gateway.config import Upstream as Served
from agora.wrapping.plan import (
    Upstream,
    around_proxies,
    json_of,
    mirrored,
    proxy_for,
    read_json,
    read_variables,
    upstream_for,
)

GATEWAY = "http://127.0.0.1:5"
paths = st.sampled_from(["", "/v1", "/api/v1", "/custom", "/v1beta", "/openai/v1", "/api/paas/v4"])


@given(paths, st.sampled_from(["/chat/completions", "/messages", "/models/g:generateContent?a=b"]))
def test_a_path_comes_out_behind_the_gateway_as_it_would_without(base: str, path: str) -> None:
    direct = f"https://api.test{base}"

    asked = mirrored(GATEWAY, direct) + path

    served = Served(name="u", base_url=direct, formats=("openai",))
    assert served.url(asked.removeprefix(GATEWAY)) == direct + path


def test_an_address_that_the_user_named_takes_every_key_and_a_providers_own_only_its_own() -> None:
    own, given_one = upstream_for("openai"), upstream_for("openai", "", "https://mine.test/v1/")

    assert "credentials" not in own.table(0, {})
    assert given_one == Upstream("openai", "https://mine.test/v1", chosen=True)
    assert "anthropic" in given_one.table(0, {})["credentials"]


@pytest.mark.parametrize(
    ("url", "environment", "proxy"),
    [
        ("https://a.test/v1", {}, ""),
        ("https://a.test/v1", {"https_proxy": "http://p:1", "HTTPS_PROXY": "http://q:1"}, "p"),
        ("https://a.test/v1", {"ALL_PROXY": "http://p:1"}, "p"),
        ("https://a.test/v1", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".test"}, ""),
        ("http://a.test/v1", {"HTTPS_PROXY": "http://p:1"}, ""),
    ],
)
def test_the_users_proxy_is_the_gateways(url: str, environment: dict[str, str], proxy: str) -> None:
    found = proxy_for(url, environment)

    assert found == (f"http://{proxy}:1" if proxy else "")
    assert Upstream("openai", url).table(0, environment).get("proxy", "") == found


def test_an_agent_behind_a_proxy_reaches_the_gateway_without_it() -> None:
    told = around_proxies({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "corp.test"})

    assert told["NO_PROXY"] == told["no_proxy"] == "corp.test,127.0.0.1,localhost"
    assert around_proxies({}) == {}
    assert around_proxies({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}) == {}


def test_of_a_file_with_keys_only_what_is_asked_for_is_kept(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("KEY=secret\nexport URL='https://a.test'\nURL=second\n# no\n")

    found = read_variables([tmp_path / "missing", path], ("URL",))

    assert found == {"URL": "https://a.test"}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": }', "[" * 100_000])
def test_a_file_that_cannot_be_read_says_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)

    assert json_of(text) == read_json(tmp_path / "a.json") == {}
    assert read_json(tmp_path / "missing.json") == {}

from pathlib import Path

import pytest

pytest.importorskip("msgspec", reason="the extra wrap is not installed")

from agora.wrapping.plan import around_proxies, json_of, read_json, read_variables


def test_an_agent_behind_a_proxy_reaches_ours_without_it() -> None:
    variables = around_proxies({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "corp.test"})

    assert variables["NO_PROXY"] == variables["no_proxy"] == "corp.test,127.0.0.1,localhost"
    assert around_proxies({}) == {}
    assert around_proxies({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}) == {}


def test_of_a_file_with_keys_only_what_is_asked_for_is_kept(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("KEY=secret\nexport URL='https://a.test'\nURL=second\n# no\n")

    variables = read_variables([tmp_path / "missing", path], ("URL",))

    assert variables == {"URL": "https://a.test"}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": }', "[" * 100_000])
def test_a_file_that_cannot_be_read_says_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)

    assert json_of(text) == read_json(tmp_path / "a.json") == {}
    assert read_json(tmp_path / "missing.json") == {}

import contextlib
import dataclasses
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agora.core.prices import sheet_for
from agora.core.schedule import MIN_TOKENS
from agora.core.tokens import EstimatedTokens
from agora.gateway.config import (
    Client,
    Compression,
    Config,
    ConfigError,
    Journal,
    Limits,
    Log,
    Telemetry,
    Tenants,
    Upstream,
    load_config,
    parse_config,
)
from agora.gateway.config.table import Table
from agora.gateway.editing.workers import settings_for

FEW = settings(deadline=None, max_examples=60)
THREE_LINES = """
[[upstreams]]
base_url = "https://api.openai.com/v1"
formats = ["openai"]
"""
TWO = """
[[upstreams]]
name = "mine"
base_url = "http://127.0.0.1:8080/v1/"
formats = "openai"
models = ["qwen*", "smol?"]
prices = "self-hosted"

[[upstreams]]
base_url = "https://api.openai.com/v1"
formats = ["openai"]

[[upstreams]]
base_url = "https://api.anthropic.com"
formats = ["anthropic"]
"""


def problems(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, file="g.toml")
    return str(caught.value)


def test_three_lines_are_enough() -> None:
    config = parse_config(THREE_LINES)

    assert config.upstreams == (
        Upstream(name="api.openai.com", base_url="https://api.openai.com/v1", formats=("openai",)),
    )
    assert (config.listen_host, config.listen_port) == ("127.0.0.1", 8484)
    assert config.limits == Limits()
    assert config.compression.enabled
    assert not config.recall
    assert config.notes() == ()


def test_the_example_is_a_configuration_that_works() -> None:
    config = load_config(Path(__file__).parents[2] / "examples" / "gateway.toml")

    assert {format for upstream in config.upstreams for format in upstream.formats} == {
        "openai",
        "anthropic",
    }
    assert config.notes() == ()


def test_what_the_example_leaves_out_in_comments_is_what_is_taken_anyway() -> None:
    text = (Path(__file__).parents[2] / "examples" / "gateway.toml").read_text(encoding="utf-8")
    said = []
    for line in text.splitlines():
        setting = line.removeprefix("# ")
        said.append(setting if " = " in setting or setting.startswith("[") else "")

    plain = parse_config(text)
    spoken = parse_config("\n".join(said))

    for part in ("listen_port", "limits", "compression", "recall", "log"):
        assert getattr(spoken, part) == getattr(plain, part), part


def test_the_first_upstream_that_serves_the_model_is_taken() -> None:
    config = parse_config(TWO)

    def name(*asked: str) -> str | None:
        found = config.upstream_for(*asked)  # type: ignore[arg-type]
        return found.name if found else None

    assert name("openai", "qwen2.5-coder") == "mine"
    assert name("openai", "smol2") == "mine"
    assert name("openai", "gpt-5") == "api.openai.com"
    assert name("openai") == "api.openai.com"  # the one that serves every model
    assert name("anthropic", "qwen2.5-coder") == "api.anthropic.com"
    assert parse_config(THREE_LINES).upstream_for("anthropic", "claude-opus-5") is None


@pytest.mark.parametrize(
    ("url", "model", "found"),
    [
        ("https://openrouter.ai/api/v1", "deepseek/deepseek-v4-pro", ("deepseek-v4-pro", 600)),
        ("https://ours.services.ai.azure.com", "DeepSeek-V3.2", ("azure/deepseek-v3.2", 300)),
        ("https://aiplatform.googleapis.com", "gemini-4-argon", ("vertex/gemini-4-argon", 86400)),
        ("https://api.deepseek.com", "deepseek-v4-pro", ("deepseek-v4-pro", 7200)),
    ],
)
def test_a_platforms_host_is_enough_for_its_own_rules(
    url: str, model: str, found: tuple[str, float]
) -> None:
    upstream = Upstream(name="u", base_url=url, formats=("openai",))
    sheet = Config(upstreams=(upstream,)).sheet_for(upstream, model)

    assert (sheet.name, sheet.ttl_seconds) == found


def test_prices_are_those_of_the_upstream_before_those_of_the_model() -> None:
    config = parse_config(
        TWO + '[prices."house-model"]\nlike = "gpt-5"\ninput = 7.5\n'
        'note = "a \\"quoted\\" \\\\ note"\n'
    )
    mine, openai, _ = config.upstreams

    assert config.sheet_for(mine, "gpt-5").name == "self-hosted"
    assert config.sheet_for(openai, "gpt-4o-2024-08-06").name == "gpt-4o"
    assert config.sheet_for(openai, "house-model").input == 7.5
    assert config.sheet_for(openai, "house-model").note == 'a "quoted" \\ note'
    assert config.sheet_for(openai, None).name == "unknown"


def test_every_problem_is_told_at_once_with_its_key_and_what_would_be_right() -> None:
    said = problems(
        """
        [listen]
        port = 99_999
        hosts = ["http://x", "a.test:80"]
        [[upstreams]]
        base_url = "ftp://x"
        formats = ["opnai"]
        modls = ["x"]
        prices = "gpt-44o"
        [limits]
        depth = true
        [compression]
        scorer = "featurs"
        keep_ratio = 2
        schedule = "never"
        observations = "tool"
        enabled = "no"
        [tenants]
        header = "x agora"
        [log]
        level = "loud"
        headers = ["Authorization", "a b"]
        [telemetry]
        endpoint = "collector:4318"
        [prices.mine]
        input = 3
        """
    ).splitlines()

    assert all(line.startswith("g.toml: ") for line in said)
    for needle in (
        "listen.port is 99999; it must be a whole number from 0 to 65,535",
        "listen.hosts has 'http://x'",
        "listen.hosts has 'a.test:80'",
        "upstreams[0].base_url is 'ftp://x', which is not an http or https address",
        "upstreams[0].formats has 'opnai'; the formats are openai, anthropic",
        "upstreams[0].modls is not a setting (did you mean models?)",
        "upstreams[0].prices is 'gpt-44o'",
        "limits.depth is True; it must be a whole number",
        "compression.scorer is 'featurs'; it must be one of",
        "compression.keep_ratio is 2; it must be a number from 0 to 1",
        "compression.schedule is 'never'; it must be one of by_price, every_call",
        "compression.observations is 'tool'",
        "compression.enabled is 'no'; it must be true or false",
        "tenants.header is 'x agora', which is not a valid header name",
        "log.level is 'loud'",
        "log.headers has 'authorization', which carries a secret",
        "log.headers has 'a b', which is not a valid header name",
        "telemetry.endpoint is 'collector:4318'",
        "prices: price sheet 'mine' lacks read",
    ):
        assert any(needle in line for line in said), needle
    assert len(said) == 19


@pytest.mark.parametrize(
    ("text", "needle"),
    [
        ("", "upstreams is missing"),
        ("upstreams = 3", "upstreams is 3; it must be a list of tables"),
        ("upstreams = [1]", "upstreams is [1]; it must be a list of tables"),
        ("[[upstreams]]", "upstreams[0].base_url is missing"),
        ("[[upstreams]]", "upstreams[0].formats is missing"),
        ("listen = 3", "listen is 3; it must be a table: write [listen]"),
        ("prices = 3", "prices is 3; it must be a table: write [prices.NAME]"),
        ("[listen", "is not TOML"),
        ('[[upstreams]]\nbase_url = ""', "upstreams[0].base_url is ''"),
        (
            "[[upstreams]]\nformats = [1]",
            "upstreams[0].formats is [1]; it must be a list of strings",
        ),
        ("[limits]\nbody = 1", "limits.body is not a setting"),
        ("[listen]\nport = 1e400", "listen.port is inf"),
        ("[compression]\nkeep_ratio = nan", "compression.keep_ratio is nan"),
        ("[compression]\nscorer = 3", "compression.scorer is 3; it must be a non-empty string"),
        (THREE_LINES + 'name = "a"\n' + THREE_LINES + 'name = "a"', "upstreams[1].name is 'a'"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, needle: str) -> None:
    assert needle in problems(text)


@pytest.mark.parametrize(
    "url",
    [
        "https://user:key@host.test/v1",
        "https://key@host.test",
        "file:///etc/passwd",
        "gopher://host.test",
        "//host.test/v1",
        "host.test/v1",
        "https://",
        "https:///v1",
        "https://host.test:99999/v1",
        "https://host.test:x/v1",
        "https://host.test/v1?key=1",
        "https://host.test/v1#a",
        "https://host.test/v1?",
        "https://[::1/v1",
        "https://host.test\\\\@evil.test",
        "https://host test/v1",
    ],
)
def test_an_upstream_that_is_no_plain_address_is_refused(url: str) -> None:
    assert "upstreams[0].base_url" in problems(
        f'[[upstreams]]\nbase_url = "{url}"\nformats = ["openai"]'
    )


def test_a_password_in_an_address_is_not_repeated_in_the_error() -> None:
    said = problems('[[upstreams]]\nbase_url = "https://me:hunter2@h.test"\nformats = ["openai"]')

    assert "hunter2" not in said


@FEW
@given(st.text(max_size=60))
def test_whatever_a_client_asks_for_the_address_stays_that_of_the_upstream(target: str) -> None:
    for base in ("https://up.test", "https://up.test/v1", "https://up.test:8443/a/v1"):
        upstream = Upstream(name="u", base_url=base, formats=("openai",))
        if target.startswith("/"):
            rest = upstream.url(target).removeprefix(base)
            assert rest != upstream.url(target)
            assert rest == "" or rest[0] in "/?"
        else:
            with pytest.raises(ValueError, match="not a path"):
                upstream.url(target)


def test_two_upstreams_on_one_host_get_names_of_their_own() -> None:
    config = parse_config(THREE_LINES + THREE_LINES)

    assert [upstream.name for upstream in config.upstreams] == [
        "api.openai.com",
        "api.openai.com-2",
    ]


def test_only_hosts_that_are_named_are_taken() -> None:
    loopback = parse_config(THREE_LINES)
    everywhere = parse_config('[listen]\nhost = "0.0.0.0"\n' + THREE_LINES)
    named = parse_config('[listen]\nhosts = ["*.Corp.test", "gw.test"]\n' + THREE_LINES)
    inside = parse_config('[listen]\nhost = "gw.internal"\n' + THREE_LINES)

    assert all(map(loopback.takes_host, ("localhost", "LOCALHOST:8484", "127.0.0.1:1", "[::1]:8")))
    assert not any(map(loopback.takes_host, ("evil.test", "10.0.0.3", "", "localhost.evil.test")))
    assert all(map(everywhere.takes_host, ("10.0.0.3:8484", "[fe80::1]:8484", "localhost")))
    assert not any(map(everywhere.takes_host, ("evil.test", "10.0.0.3.evil.test", "")))
    assert all(map(named.takes_host, ("a.corp.test", "a.b.corp.test:80", "gw.test")))
    assert not any(map(named.takes_host, ("corp.test", ".corp.test", "xcorp.test", "localhost")))
    assert inside.takes_host("gw.internal:8484")
    assert Config(upstreams=(), hosts=("*",)).takes_host("anything")


def test_what_is_allowed_but_risky_is_noted() -> None:
    config = parse_config(
        """
        [listen]
        hosts = ["*"]
        [[upstreams]]
        base_url = "http://vllm.test/v1"
        formats = ["openai"]
        [compression]
        enabled = false
        schedule = "every_call"
        scorer = "./no-such-bundle"
        """
    )
    notes = " | ".join(config.notes())

    for needle in (
        "plain http",
        "rebinding",
        "every_call",
        "forwarded unchanged",
        "no-such-bundle",
    ):
        assert needle in notes


@pytest.mark.parametrize(
    ("table", "old", "new"),
    [
        ("compression", "least_tokens", "min_tokens"),
        ("tenants", "most", "max_named"),
        ("journal", "most_mb", "max_mb"),
    ],
)
def test_a_setting_is_read_under_its_old_name_and_the_new_one_asked_for(
    table: str, old: str, new: str
) -> None:
    before = parse_config(f"{THREE_LINES}\n[{table}]\n{old} = 200\n")
    now = parse_config(f"{THREE_LINES}\n[{table}]\n{new} = 200\n")

    assert getattr(before, table) == getattr(now, table)
    assert getattr(getattr(now, table), new) == 200
    assert f"{table}.{old} is now called {new}; please rename it" in before.notes()
    assert now.notes() == ()
    both = problems(f"{THREE_LINES}\n[{table}]\n{old} = 200\n{new} = 300\n")
    assert f"{table}.{old} is the old name of {new}; keep only {new}" in both
    wrong = problems(f"{THREE_LINES}\n[{table}]\n{old} = -1\n")
    assert f"{table}.{old} is -1; it must be a whole number from" in wrong


def test_the_threshold_is_the_librarys_where_the_file_says_nothing() -> None:
    assert parse_config(THREE_LINES).compression.min_tokens == MIN_TOKENS


def test_tools_are_named_in_lists_and_each_in_one() -> None:
    lists = 'keep_tools = ["policy"]\nchanging_tools = ["ship"]\nreading_tools = "peek"\n'
    settings = settings_for(parse_config(f"{THREE_LINES}\n[compression]\n{lists}"))
    made = settings.compressor(settings.scorer, sheet_for("gpt-5"), EstimatedTokens())

    assert (made.keep_tools, made.changing_tools) == (("policy",), ("ship",))
    assert made.reading_tools == ("peek",)
    both = problems(f"{THREE_LINES}\n[compression]\n{lists.replace('peek', 'ship')}")
    assert "compression.changing_tools has 'ship', which reading_tools has too" in both


def test_the_ceiling_may_be_none_at_all() -> None:
    config = parse_config(f"{THREE_LINES}\n[compression]\nceiling = inf\n")

    assert config.compression.ceiling == float("inf")


@pytest.mark.parametrize(
    "kind", [Client, Compression, Journal, Limits, Log, Telemetry, Tenants, Upstream]
)
def test_every_setting_is_of_a_type_that_a_file_can_hold(kind: type) -> None:
    required = {"name": "a", "base_url": "b", "formats": (), "sha256": "c"}
    known = {field.name for field in dataclasses.fields(kind)}
    own = {key: value for key, value in required.items() if key in known}

    assert Table({}, "", [], []).section(kind, **own) == kind(**own)


def test_a_schedule_may_be_written_with_a_hyphen() -> None:
    config = parse_config(f'{THREE_LINES}\n[compression]\nschedule = "every-call"\n')

    assert config.compression.schedule == "every_call"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load_config(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "bad.toml")


def test_an_error_reads_the_same_after_pickling() -> None:
    error = ConfigError("g.toml", ["a is 1", "b is 2"])

    assert str(pickle.loads(pickle.dumps(error))) == str(error) == "g.toml: a is 1\ng.toml: b is 2"


@FEW
@given(st.text(max_size=200))
def test_any_text_is_a_configuration_or_an_error_of_ours(text: str) -> None:
    with contextlib.suppress(ConfigError):
        parse_config(text)


def test_a_server_of_ones_own_with_a_prefix_cache_has_a_sheet_that_others_can_be_like() -> None:
    config = parse_config(
        """
        [[upstreams]]
        base_url = "http://127.0.0.1:8080"
        formats = ["openai"]
        prices = "house"
        [prices.house]
        like = "self-hosted-cached"
        window = 32768
        """
    )
    sheet = config.sheet_for(config.upstreams[0], "qwen")

    assert (sheet.read, sheet.write, sheet.window) == (0.02, 1.0, 32_768)
    assert list(config.sheets) == ["house"]
    assert not config.notes()


def test_prices_without_a_cache_get_a_note_and_those_with_one_do_not() -> None:
    for prices, noted in (("self-hosted", True), ("self-hosted-cached", False), ("gpt-5", False)):
        config = parse_config(
            f'[[upstreams]]\nbase_url = "http://127.0.0.1:1"\nformats = ["openai"]\n'
            f'prices = "{prices}"'
        )
        assert any("self-hosted-cached" in note for note in config.notes()) == noted

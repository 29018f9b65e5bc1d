import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("msgspec", reason="the extra wrap is not installed")

# Private: what each agent would be told, without its program.
from agora.proxy.upstreams import numbered
from agora.wrapping.agents import AGENTS, CHATGPT, agent_for
from agora.wrapping.plan import Plan, Seen
from harness.agents.session import contents

PROXY = "http://127.0.0.1:5"
MINE = "https://mine.test/v1"


def planned(
    name: str,
    home: Path,
    environment: Mapping[str, str] | None = None,
    *arguments: str,
    upstreams: Mapping[str, str] | None = None,
) -> Plan:
    folder = home / "project"
    folder.mkdir(exist_ok=True)
    seen = Seen(environment or {}, home, folder, PROXY, home / "tmp", arguments, upstreams or {})
    before = contents(home)
    plan = agent_for(name).plan(seen)
    assert contents(home) == before, "a plan only reads"
    for number, url in enumerate(plan.upstreams):
        assert f"{PROXY}/{number}" in everything(plan)
        assert numbered(plan.upstreams, f"/{number}/models?a=b") == f"{url}/models?a=b"
    return plan


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def everything(plan: Plan) -> str:
    return " ".join((*plan.environment.values(), *plan.arguments, *plan.files.values()))


@pytest.mark.parametrize("name", [*AGENTS, "aider", "some-command"])
def test_each_agent_is_told_of_the_proxy_and_its_requests_go_to_its_provider(
    name: str, tmp_path: Path
) -> None:
    plan = planned(name, tmp_path, {"ANTHROPIC_API_KEY": "sk-ant-madeup"})

    assert plan.upstreams
    assert "sk-ant-madeup" not in everything(plan)
    assert all(url.startswith("https://") for url in plan.upstreams)


@pytest.mark.parametrize("name", [*AGENTS, "some-command"])
def test_settings_stand_for_a_providers_own_address(name: str, tmp_path: Path) -> None:
    ours = {"openai": "https://ours.test", "anthropic": "https://ours.test/a"}
    ours["gemini"] = "https://ours.test/g"

    plan = planned(name, tmp_path, {"ANTHROPIC_API_KEY": "made-up"}, upstreams=ours)

    assert all(url.startswith("https://ours.test") for url in plan.upstreams)


@pytest.mark.parametrize(
    ("name", "end"),
    [("claude", ""), ("codex", "/v1"), ("opencode", "/v1"), ("gemini", ""), ("qwen", "/v1")],
)
def test_a_providers_own_address_ends_as_the_agent_expects(
    name: str, end: str, tmp_path: Path
) -> None:
    plan = planned(name, tmp_path, {"ANTHROPIC_API_KEY": "made-up"})

    assert plan.upstreams[0].partition("://")[2].partition("/")[2] == end.removeprefix("/")


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("claude", "ANTHROPIC_BASE_URL"),
        ("gemini", "GOOGLE_GEMINI_BASE_URL"),
        ("qwen", "OPENAI_BASE_URL"),
        ("codex", "OPENAI_BASE_URL"),
        ("mini", "OPENAI_API_BASE"),
        ("aider", "OPENAI_API_BASE"),
        ("openhands", "LLM_BASE_URL"),
        ("some-command", "AZURE_OPENAI_ENDPOINT"),
    ],
)
def test_an_address_in_the_environment_becomes_the_upstream(
    name: str, variable: str, tmp_path: Path
) -> None:
    plan = planned(name, tmp_path, {variable: MINE})

    assert MINE in plan.upstreams
    assert MINE not in everything(plan)


FILES: list[tuple[str, str, Any]] = [
    ("claude", ".claude/settings.json", {"env": {"ANTHROPIC_BASE_URL": MINE}}),
    ("codex", ".codex/config.toml", f'openai_base_url = "{MINE}"'),
    (
        "codex",
        ".codex/config.toml",
        f'model_provider = "mine"\n[model_providers.mine]\nbase_url = "{MINE}"',
    ),
    (
        "opencode",
        ".config/opencode/opencode.json",
        {"provider": {"m": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": MINE}}}},
    ),
    (
        "pi",
        ".pi/agent/models.json",
        {"providers": {"m": {"api": "openai-responses", "baseUrl": MINE, "models": []}}},
    ),
    ("gemini", ".gemini/.env", f"GOOGLE_GEMINI_BASE_URL={MINE}\n"),
    ("qwen", ".qwen/settings.json", {"security": {"auth": {"baseUrl": MINE}}}),
    ("mini", ".config/mini-swe-agent/.env", f"OPENAI_BASE_URL={MINE}\n"),
]


@pytest.mark.parametrize(("name", "file", "value"), FILES)
def test_an_address_in_the_agents_own_file_becomes_the_upstream(
    name: str, file: str, value: object, tmp_path: Path
) -> None:
    write(tmp_path / file, value)

    plan = planned(name, tmp_path)

    assert MINE in plan.upstreams


def test_codex_with_a_chatgpt_login_asks_where_it_would_ask(tmp_path: Path) -> None:
    write(tmp_path / ".codex/auth.json", {"auth_mode": "chatgpt", "tokens": {"a": "secret"}})

    plan = planned("codex", tmp_path)

    assert plan.upstreams == (CHATGPT,)
    assert plan.arguments == ("-c", f'openai_base_url="{PROXY}/0"')
    assert "secret" not in everything(plan)


def test_opencode_is_given_no_provider_that_the_user_does_not_have(tmp_path: Path) -> None:
    without = planned("opencode", tmp_path)
    write(tmp_path / ".local/share/opencode/auth.json", {"anthropic": {"key": "secret"}})
    with_login = planned("opencode", tmp_path)

    assert without.upstreams == ()
    told = json.loads(with_login.environment["OPENCODE_CONFIG_CONTENT"])
    assert told == {"provider": {"anthropic": {"options": {"baseURL": f"{PROXY}/0"}}}}


def test_opencodes_own_inline_configuration_is_kept(tmp_path: Path) -> None:
    inline = '{"model": "m", "provider": {"openai": {"models": {"a": {}}}}}'

    plan = planned("opencode", tmp_path, {"OPENCODE_CONFIG_CONTENT": inline})

    told = json.loads(plan.environment["OPENCODE_CONFIG_CONTENT"])
    assert told["model"] == "m"
    assert set(told["provider"]["openai"]) == {"models", "options"}


def test_several_servers_of_one_format_are_told_apart(tmp_path: Path) -> None:
    providers = {
        name: {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"https://{name}.test/v1"},
        }
        for name in ("one", "two")
    }
    write(tmp_path / ".config/opencode/opencode.json", {"provider": providers})

    plan = planned("opencode", tmp_path, {"OPENAI_API_KEY": "made-up"})

    hosts = ("one.test", "two.test", "api.openai.com")
    assert plan.upstreams == tuple(f"https://{host}/v1" for host in hosts)
    told = json.loads(plan.environment["OPENCODE_CONFIG_CONTENT"])["provider"]
    assert told["two"] == {"options": {"baseURL": f"{PROXY}/1"}}


def test_a_provider_whose_requests_are_signed_for_its_host_is_left_alone(tmp_path: Path) -> None:
    bedrock = {"npm": "@ai-sdk/amazon-bedrock", "options": {"baseURL": "https://aws.test"}}
    write(tmp_path / ".config/opencode/opencode.json", {"provider": {"aws": bedrock}})

    assert planned("opencode", tmp_path).upstreams == ()


@pytest.mark.parametrize(
    ("name", "file", "value", "environment"),
    [
        ("claude", "x", "", {"CLAUDE_CODE_USE_BEDROCK": "1"}),
        ("codex", ".codex/config.toml", 'model_provider = "mine"', {}),
        ("gemini", ".gemini/settings.json", {"selectedAuthType": "oauth-personal"}, {}),
        ("qwen", ".qwen/settings.json", {"security": {"auth": {"selectedType": "qwen-oauth"}}}, {}),
    ],
)
def test_what_cannot_go_through_the_proxy_says_why(
    name: str, file: str, value: object, environment: dict[str, str], tmp_path: Path
) -> None:
    write(tmp_path / file, value)

    plan = planned(name, tmp_path, environment)

    assert plan.upstreams == ()
    assert plan.environment == {}
    assert plan.arguments == ()
    assert plan.notes


def test_claude_codes_settings_are_left_alone_where_the_user_passes_others(tmp_path: Path) -> None:
    write(tmp_path / ".claude/settings.json", {"env": {"ANTHROPIC_BASE_URL": MINE}})

    plan = planned("claude", tmp_path, {}, "--settings", "{}")

    assert plan.arguments == ()
    assert plan.notes


def test_tool_search_stays_as_it_is_before_anthropics_own_address(tmp_path: Path) -> None:
    own = planned("claude", tmp_path)
    set_already = planned("claude", tmp_path, {"ENABLE_TOOL_SEARCH": "false"})
    elsewhere = planned("claude", tmp_path, {"ANTHROPIC_BASE_URL": MINE})

    assert own.environment["ENABLE_TOOL_SEARCH"] == "true"
    assert "ENABLE_TOOL_SEARCH" not in set_already.environment
    assert "ENABLE_TOOL_SEARCH" not in elsewhere.environment


def test_a_file_that_is_broken_changes_nothing(tmp_path: Path) -> None:
    for file in (".codex/config.toml", ".claude/settings.json"):
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xff\xfe not this")

    for name in ("codex", "claude"):
        assert planned(name, tmp_path).upstreams

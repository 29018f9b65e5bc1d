"""The agents that `agora wrap` knows, and how each finds its provider.

To add one, add a row to `AGENTS` and its cases to `tests/wrap/test_agents.py`. An agent that reads
the usual variables needs no more than the row, with `by_variables` as its plan.
"""

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agora.wrapping.plan import (
    Plan,
    Seen,
    at,
    json_of,
    read_json,
    read_text,
    read_variables,
    text_at,
)

CHATGPT = "https://chatgpt.com/backend-api/codex"
"""Codex's address for a login with a ChatGPT account."""
_OPENAI = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
_ANTHROPIC = ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE")
_GEMINI = ("GOOGLE_GEMINI_BASE_URL",)
_AZURE = ("AZURE_OPENAI_ENDPOINT", "AZURE_API_BASE")
_VERSIONS = {"openai": "/v1", "anthropic": "", "gemini": ""}
_VARIABLES = {"openai": _OPENAI, "anthropic": _ANTHROPIC, "gemini": _GEMINI, "azure": _AZURE}
"""Variables from which SDKs and agents read a provider's address."""


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent, and how it is pointed at the proxy."""

    name: str
    title: str
    programs: tuple[str, ...]
    """Names of its program; the first that exists is run."""
    plan: Callable[[Seen], Plan]
    install: str = ""
    """The command that installs it."""


def agent_for(name: str) -> Agent:
    """Return the agent with a name or program; for any other command, one by variables."""
    program = Path(name).name
    for agent in AGENTS.values():
        if program in (agent.name, *agent.programs):
            return agent
    return Agent(program, program, (name,), by_variables)


def by_variables(seen: Seen, files: Mapping[str, str] | None = None, without: str = "") -> Plan:
    """Plan for a command that reads the usual variables, as the providers' SDKs do.

    Args:
        seen: The environment and files before the start.
        files: Variables from the agent's own files.
        without: A family whose address it cannot read.
    """
    known = {**(files or {}), **seen.environment}
    environment: dict[str, str] = {}
    upstreams: list[str] = []
    for family, names in _VARIABLES.items():
        chosen = [value for name in names if (value := known.get(name, ""))]
        # Azure has no default address.
        if family == without or (family not in _VERSIONS and not chosen):
            continue
        environment |= dict.fromkeys(names, seen.address(len(upstreams)))
        upstreams.append(seen.upstream(family, *chosen, version=_VERSIONS.get(family, "")))
    return Plan(environment=environment, upstreams=tuple(upstreams))


def _by_litellm(seen: Seen, files: Mapping[str, str] | None = None) -> Plan:
    """Plan for an agent on LiteLLM, which has no variable for Gemini's address."""
    note = "models other than OpenAI's and Anthropic's bypass the proxy"
    return replace(by_variables(seen, files, without="gemini"), notes=(note,))


_CLAUDE_ELSEWHERE = {
    "CLAUDE_CODE_USE_BEDROCK": "Amazon Bedrock",
    "CLAUDE_CODE_USE_VERTEX": "Vertex AI",
    "CLAUDE_CODE_USE_FOUNDRY": "Microsoft Foundry",
}

_TOOL_SEARCH = (
    "with ENABLE_TOOL_SEARCH Claude Code's requests are as small as without AGORA; at an address "
    "that it does not know it sends every tool with every request"
)


def _claude(seen: Seen) -> Plan:
    files = (
        seen.folder / ".claude" / "settings.local.json",
        seen.folder / ".claude" / "settings.json",
        seen.under("CLAUDE_CONFIG_DIR", ".claude") / "settings.json",
    )
    settings: dict[str, str] = {}
    for path in files:
        variables = at(read_json(path), "env")
        settings = {**(variables if isinstance(variables, dict) else {}), **settings}
    known = {**seen.environment, **settings}
    for name, title in _CLAUDE_ELSEWHERE.items():
        if str(known.get(name, "")).lower() not in ("", "0", "false"):
            return Plan(notes=(f"{name} is set: Claude Code asks {title} directly",))
    chosen = str(known.get("ANTHROPIC_BASE_URL", ""))
    environment = {"ANTHROPIC_BASE_URL": seen.address(0)}
    notes: tuple[str, ...] = ()
    if not chosen and not known.get("ENABLE_TOOL_SEARCH"):
        environment["ENABLE_TOOL_SEARCH"] = "true"
        notes = (_TOOL_SEARCH,)
    arguments: tuple[str, ...] = ()
    if "ANTHROPIC_BASE_URL" in settings:
        # Its settings win over the environment, and the command line over its settings.
        if any(argument.startswith("--settings") for argument in seen.arguments):
            notes = ("its settings name ANTHROPIC_BASE_URL, and you passed --settings: no proxy",)
        else:
            arguments = ("--settings", json.dumps({"env": environment}))
    return Plan(environment, arguments, {}, (seen.upstream("anthropic", chosen),), notes)


def _codex(seen: Seen) -> Plan:
    folder = seen.under("CODEX_HOME", ".codex")
    settings = _read_toml(folder / "config.toml")
    profile = text_at(settings, "profiles", text_at(settings, "profile"), "model_provider")
    provider = profile or text_at(settings, "model_provider") or "openai"
    if provider != "openai":
        upstream = text_at(settings, "model_providers", provider, "base_url").rstrip("/")
        if not upstream:
            return Plan(notes=(f"its model provider {provider!r} has no base_url to replace",))
        key = f"model_providers.{provider}.base_url"
    else:
        login = text_at(read_json(folder / "auth.json"), "auth_mode").lower() == "chatgpt"
        chosen = text_at(settings, "openai_base_url") or seen.variable("OPENAI_BASE_URL")
        upstream = seen.upstream("openai", chosen, CHATGPT if login else "", version="/v1")
        key = "openai_base_url"
    arguments = ("-c", f"{key}={json.dumps(seen.address(0))}")
    return Plan(arguments=arguments, upstreams=(upstream,))


_OPENCODE_SDKS = (
    "@ai-sdk/openai",
    "@ai-sdk/openai-compatible",
    "@ai-sdk/anthropic",
    "@ai-sdk/google",
)
_GOOGLE_KEYS = ("GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")
_OPENCODE: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "anthropic": ("anthropic", "/v1", ("ANTHROPIC_API_KEY",)),
    "openai": ("openai", "/v1", ("OPENAI_API_KEY",)),
    "google": ("gemini", "/v1beta", _GOOGLE_KEYS),
}
"""opencode's own providers: family, the end of their address, and the variables of their keys."""


def _opencode(seen: Seen) -> Plan:
    folder = seen.under("XDG_CONFIG_HOME", ".config") / "opencode"
    inline = json_of(seen.environment.get("OPENCODE_CONFIG_CONTENT", ""))
    named = seen.environment.get("OPENCODE_CONFIG", "")
    files = [folder / name for name in ("config.json", "opencode.json", "opencode.jsonc")]
    files += [Path(named)] if named else []
    files += [seen.folder / name for name in ("opencode.json", "opencode.jsonc")]
    configured: dict[str, Any] = {}
    for settings in (*map(read_json, files), inline):
        for name, table in (at(settings, "provider") or {}).items():
            table = table if isinstance(table, dict) else {}
            configured[name] = {**configured.get(name, {}), **table}
    logins = read_json(seen.under("XDG_DATA_HOME", ".local", "share") / "opencode" / "auth.json")
    providers: dict[str, Any] = {}
    upstreams: list[str] = []
    for name in dict.fromkeys((*configured, *_OPENCODE)):
        family, version, keys = _OPENCODE.get(name, ("", "", ()))
        # A named provider appears in the agent's list, so name only those that the user has.
        if name not in configured and name not in logins and not seen.variable(*keys):
            continue
        module = text_at(configured.get(name), "npm")
        url = text_at(configured.get(name), "options", "baseURL")
        if (module and module not in _OPENCODE_SDKS) or not (family or (module and url)):
            continue
        providers[name] = {"options": {"baseURL": seen.address(len(upstreams))}}
        upstreams.append(seen.upstream(family, url, version=version))
    if not providers:
        return Plan(notes=("no key or login for OpenAI, Anthropic or Google was found",))
    content = json.dumps(_merged(inline, {"provider": providers}))
    notes = ("providers other than " + ", ".join(providers) + " bypass the proxy",)
    return Plan({"OPENCODE_CONFIG_CONTENT": content}, (), {}, tuple(upstreams), notes)


_PI_APIS = (
    "openai-responses",
    "openai-completions",
    "anthropic-messages",
    "google-generative-ai",
)
_PI: Mapping[str, tuple[str, str]] = {
    "anthropic": ("anthropic", ""),
    "openai": ("openai", "/v1"),
    "google": ("gemini", "/v1beta"),
}
_PI_EXTENSION = """// Written by agora wrap for one session: ask the proxy, not the provider.
export default function (pi) {{
{calls}
}}
"""


def _pi(seen: Seen) -> Plan:
    folder = seen.under("PI_CODING_AGENT_DIR", ".pi", "agent")
    configured = at(read_json(folder / "models.json"), "providers") or {}
    upstreams: list[str] = []
    calls = []
    names = [
        name
        for name in dict.fromkeys((*configured, *_PI))
        if name in _PI
        or (text_at(configured[name], "api") in _PI_APIS and text_at(configured[name], "baseUrl"))
    ]
    for name in names:
        family, version = _PI.get(name, ("", ""))
        base = json.dumps({"baseUrl": seen.address(len(upstreams))})
        calls.append(f"  pi.registerProvider({json.dumps(name)}, {base});")
        url = text_at(configured.get(name), "baseUrl")
        upstreams.append(seen.upstream(family, url, version=version))
    return Plan(
        arguments=("-e", str(seen.temporary / "agora-pi.js")),
        files={"agora-pi.js": _PI_EXTENSION.format(calls="\n".join(calls))},
        upstreams=tuple(upstreams),
        notes=("providers other than " + ", ".join(names) + " bypass the proxy",),
    )


def _gemini(seen: Seen) -> Plan:
    settings = read_json(seen.home / ".gemini" / "settings.json")
    files = (seen.folder / ".gemini" / ".env", seen.folder / ".env", seen.home / ".gemini" / ".env")
    login = text_at(settings, "security", "auth", "selectedType")
    login = login or text_at(settings, "selectedAuthType")
    if login.startswith(("oauth", "login")) and not seen.variable("GEMINI_API_KEY"):
        return Plan(notes=("it is logged in with a Google account, which cannot be redirected",))
    chosen = seen.variable(*_GEMINI) or read_variables(files, _GEMINI).get(_GEMINI[0], "")
    environment = dict.fromkeys(_GEMINI, seen.address(0))
    return Plan(environment=environment, upstreams=(seen.upstream("gemini", chosen),))


def _qwen(seen: Seen) -> Plan:
    folder = seen.home / ".qwen"
    files = (seen.folder / ".qwen" / ".env", seen.folder / ".env", folder / ".env")
    settings = read_json(folder / "settings.json")
    if text_at(settings, "security", "auth", "selectedType").startswith("qwen"):
        return Plan(notes=("it is logged in with a Qwen account, which cannot be redirected",))
    upstream = seen.upstream(
        "openai",
        seen.variable(*_OPENAI),
        read_variables(files, _OPENAI).get(_OPENAI[0], ""),
        text_at(settings, "security", "auth", "baseUrl"),
        version="/v1",
    )
    arguments = ("--openai-base-url", seen.address(0))
    return Plan({_OPENAI[0]: seen.address(0)}, arguments, {}, (upstream,))


def _openhands(seen: Seen) -> Plan:
    chosen = seen.environment.get("LLM_BASE_URL", "")
    if not chosen:
        return _by_litellm(seen)
    return Plan({"LLM_BASE_URL": seen.address(0)}, upstreams=(chosen.rstrip("/"),))


def _mini(seen: Seen) -> Plan:
    path = seen.under("MSWEA_GLOBAL_CONFIG_DIR", ".config", "mini-swe-agent") / ".env"
    return _by_litellm(seen, read_variables([path], (*_OPENAI, *_ANTHROPIC)))


def _merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Merge two objects; values of the second win."""
    merged = dict(first)
    for key, value in second.items():
        before = merged.get(key)
        both = isinstance(before, dict) and isinstance(value, dict)
        merged[key] = _merged(before, value) if both else value  # type: ignore[arg-type]
    return merged


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError:
        return {}


_NPM = "npm install -g "
AGENTS: Mapping[str, Agent] = {
    agent.name: agent
    for agent in (
        Agent("claude", "Claude Code", ("claude",), _claude, _NPM + "@anthropic-ai/claude-code"),
        Agent("codex", "Codex", ("codex",), _codex, _NPM + "@openai/codex"),
        Agent("opencode", "opencode", ("opencode",), _opencode, _NPM + "opencode-ai"),
        Agent("pi", "pi", ("pi",), _pi, _NPM + "@mariozechner/pi-coding-agent"),
        Agent("gemini", "Gemini CLI", ("gemini",), _gemini, _NPM + "@google/gemini-cli"),
        Agent("qwen", "Qwen Code", ("qwen",), _qwen, _NPM + "@qwen-code/qwen-code"),
        Agent("openhands", "OpenHands", ("openhands",), _openhands, "pip install openhands"),
        Agent("mini-swe-agent", "mini-swe-agent", ("mini",), _mini, "pip install mini-swe-agent"),
    )
}

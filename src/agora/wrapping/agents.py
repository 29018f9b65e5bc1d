"""The agents that `agora wrap` knows: what each reads to find its provider."""

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agora.gateway.config import Format
from agora.wrapping.plan import (
    PROVIDERS,
    Plan,
    Seen,
    Upstream,
    at,
    json_of,
    mirrored,
    read_json,
    read_variables,
    text_at,
    upstream_for,
)

CHATGPT = "https://chatgpt.com/backend-api/codex"
"""Where Codex asks when it is logged in with a ChatGPT account."""
_ELSEWHERE = {
    "CLAUDE_CODE_USE_BEDROCK": "Amazon Bedrock",
    "CLAUDE_CODE_USE_VERTEX": "Vertex AI",
    "CLAUDE_CODE_USE_FOUNDRY": "Microsoft Foundry",
}
_OPENAI = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
_ANTHROPIC = ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE")
_GEMINI = ("GOOGLE_GEMINI_BASE_URL",)
_AZURE = ("AZURE_OPENAI_ENDPOINT", "AZURE_API_BASE")
VARIABLES: Mapping[Format, tuple[str, ...]] = {
    "openai": _OPENAI,
    "anthropic": _ANTHROPIC,
    "gemini": _GEMINI,
    "azure": _AZURE,
}
"""Variables from which SDKs and agents read a provider's address."""


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent, and how it is pointed at the gateway."""

    name: str
    title: str
    programs: tuple[str, ...]
    """What its program may be called; the first that is found is run."""
    plan: Callable[[Seen], Plan]
    install: str = ""
    """What installs it."""


def agent_for(name: str) -> Agent:
    """Return the agent of a name or program; any other command is told by the usual variables."""
    bare = Path(name).name
    for agent in AGENTS.values():
        if bare in (agent.name, *agent.programs):
            return agent
    return Agent(bare, bare, (name,), by_variables)


def by_variables(seen: Seen) -> Plan:
    """Plan for a command that reads the usual variables, as the providers' SDKs do."""
    return _variables(seen, {})


def _variables(seen: Seen, said: Mapping[str, str]) -> Plan:
    """Plan by variables; `said` has those that the agent would read from a file."""
    known = {**said, **seen.environment}
    environment: dict[str, str] = {}
    upstreams = []
    for format, names in VARIABLES.items():
        own = [value for name in names if (value := known.get(name, ""))]
        if not own and format not in PROVIDERS:
            continue
        upstream = upstream_for(format, *own)
        upstreams.append(upstream)
        environment.update(dict.fromkeys(names, mirrored(seen.base, upstream.url)))
    return Plan(environment=environment, upstreams=tuple(upstreams))


def _claude(seen: Seen) -> Plan:
    folder = seen.under("CLAUDE_CONFIG_DIR", ".claude")
    files = (
        seen.folder / ".claude" / "settings.local.json",
        seen.folder / ".claude" / "settings.json",
        folder / "settings.json",
    )
    settings: dict[str, str] = {}
    for path in files:
        found = at(read_json(path), "env")
        settings = {**(found if isinstance(found, dict) else {}), **settings}
    known = {**seen.environment, **settings}
    for name, title in _ELSEWHERE.items():
        if str(known.get(name, "")).lower() not in ("", "0", "false"):
            return Plan(notes=(f"{name} is set: Claude Code asks {title} directly",))
    upstream = upstream_for("anthropic", str(known.get("ANTHROPIC_BASE_URL", "")))
    environment = {"ANTHROPIC_BASE_URL": mirrored(seen.base, upstream.url)}
    if not upstream.chosen and not known.get("ENABLE_TOOL_SEARCH"):
        # Before an address that it does not know, Claude Code sends every tool with every call.
        environment["ENABLE_TOOL_SEARCH"] = "true"
    arguments: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    if "ANTHROPIC_BASE_URL" in settings:
        # Its settings win over the environment, and the command line over its settings.
        if any(one.startswith("--settings") for one in seen.arguments):
            notes = ("Claude Code's settings name ANTHROPIC_BASE_URL, and you passed --settings",)
        else:
            arguments = ("--settings", json.dumps({"env": environment}))
    return Plan(
        environment=environment,
        arguments=arguments,
        upstreams=(upstream,),
        other_paths="anthropic",
        notes=notes,
    )


def _codex(seen: Seen) -> Plan:
    folder = seen.under("CODEX_HOME", ".codex")
    settings = _read_toml(folder / "config.toml")
    profile = text_at(settings, "profiles", text_at(settings, "profile"), "model_provider")
    provider = profile or text_at(settings, "model_provider") or "openai"
    if provider != "openai":
        own = text_at(settings, "model_providers", provider, "base_url")
        if not own:
            return Plan(notes=(f"its model provider {provider!r} has no base_url to replace",))
        upstream = upstream_for("openai", own)
        key = f"model_providers.{provider}.base_url"
    else:
        login = text_at(read_json(folder / "auth.json"), "auth_mode").lower() == "chatgpt"
        said = text_at(settings, "openai_base_url") or seen.variable("OPENAI_BASE_URL")
        upstream = upstream_for("openai", said or (CHATGPT if login else ""))
        key = "openai_base_url"
    base = mirrored(seen.base, upstream.url)
    return Plan(
        arguments=("-c", f"{key}={json.dumps(base)}"),
        upstreams=(upstream,),
        other_paths="openai",
    )


_SDKS: Mapping[str, Format] = {
    "@ai-sdk/openai": "openai",
    "@ai-sdk/openai-compatible": "openai",
    "@ai-sdk/anthropic": "anthropic",
    "@ai-sdk/google": "gemini",
}
_OPENCODE: Mapping[str, tuple[Format, str, tuple[str, ...]]] = {
    "anthropic": ("anthropic", "https://api.anthropic.com/v1", ("ANTHROPIC_API_KEY",)),
    "openai": ("openai", "https://api.openai.com/v1", ("OPENAI_API_KEY",)),
    "google": (
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta",
        ("GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
}
"""opencode's own providers: format, address, and the variables with their keys."""


def _opencode(seen: Seen) -> Plan:
    folder = seen.under("XDG_CONFIG_HOME", ".config") / "opencode"
    inline = json_of(seen.environment.get("OPENCODE_CONFIG_CONTENT", ""))
    named = seen.environment.get("OPENCODE_CONFIG", "")
    files = [folder / name for name in ("config.json", "opencode.json", "opencode.jsonc")]
    files += [Path(named)] if named else []
    files += [seen.folder / name for name in ("opencode.json", "opencode.jsonc")]
    own: dict[str, Any] = {}
    for found in (*map(read_json, files), inline):
        for name, provider in (at(found, "provider") or {}).items():
            own[name] = {**own.get(name, {}), **(provider if isinstance(provider, dict) else {})}
    logins = read_json(
        seen.under("XDG_DATA_HOME", ".local", "share") / "opencode" / "auth.json"
    ).keys()
    providers: dict[str, Any] = {}
    upstreams: list[Upstream] = []
    for name in dict.fromkeys((*own, *_OPENCODE)):
        format, url, keys = _OPENCODE.get(name, (None, "", ()))
        # A provider that is named becomes one to choose from: only those that the user has.
        if name not in own and name not in logins and not seen.variable(*keys):
            continue
        format = _SDKS.get(text_at(own.get(name), "npm"), format)
        url = text_at(own.get(name), "options", "baseURL") or url
        if format is None or not url:
            continue
        models = at(own.get(name), "models") if name not in _OPENCODE else None
        chosen = url.rstrip("/") != _OPENCODE.get(name, (None, "", ()))[1]
        upstreams.append(Upstream(format, url.rstrip("/"), tuple(models or ("*",)), chosen))
        providers[name] = {"options": {"baseURL": mirrored(seen.base, url)}}
    if not providers:
        return Plan(notes=("no key or login for OpenAI, Anthropic or Google was found",))
    content = _merged(inline, {"provider": providers})
    return Plan(
        environment={"OPENCODE_CONFIG_CONTENT": json.dumps(content)},
        upstreams=_narrow_first(upstreams),
        notes=("providers other than " + ", ".join(providers) + " bypass the gateway",),
    )


_PI_APIS: Mapping[str, Format] = {
    "openai-responses": "openai",
    "openai-completions": "openai",
    "anthropic-messages": "anthropic",
    "google-generative-ai": "gemini",
}
_PI: Mapping[str, tuple[Format, str]] = {
    "anthropic": ("anthropic", "https://api.anthropic.com"),
    "openai": ("openai", "https://api.openai.com/v1"),
    "google": ("gemini", "https://generativelanguage.googleapis.com/v1beta"),
}
_PI_EXTENSION = """// Written by agora wrap for one session: ask the gateway, not the provider.
export default function (pi) {{
{calls}
}}
"""


def _pi(seen: Seen) -> Plan:
    folder = seen.under("PI_CODING_AGENT_DIR", ".pi", "agent")
    own = at(read_json(folder / "models.json"), "providers") or {}
    upstreams: list[Upstream] = []
    calls = []
    for name in dict.fromkeys((*own, *_PI)):
        format, url = _PI.get(name, (None, ""))
        format = _PI_APIS.get(text_at(own.get(name), "api"), format)
        url = text_at(own.get(name), "baseUrl") or url
        if format is None or not url:
            continue
        listed = at(own.get(name), "models") if name not in _PI else None
        models = tuple(filter(None, (text_at(one, "id") for one in listed or ()))) or ("*",)
        chosen = url.rstrip("/") != _PI.get(name, (None, ""))[1]
        upstreams.append(Upstream(format, url.rstrip("/"), models, chosen))
        said = json.dumps({"baseUrl": mirrored(seen.base, url)})
        calls.append(f"  pi.registerProvider({json.dumps(name)}, {said});")
    return Plan(
        arguments=("-e", str(seen.temporary / "agora-pi.js")),
        files={"agora-pi.js": _PI_EXTENSION.format(calls="\n".join(calls))},
        upstreams=_narrow_first(upstreams),
        notes=("providers other than " + ", ".join((*own, *_PI)) + " bypass the gateway",),
    )


def _gemini(seen: Seen) -> Plan:
    settings = read_json(seen.home / ".gemini" / "settings.json")
    files = (seen.folder / ".gemini" / ".env", seen.folder / ".env", seen.home / ".gemini" / ".env")
    said = read_variables(files, _GEMINI)
    login = text_at(settings, "security", "auth", "selectedType")
    login = login or text_at(settings, "selectedAuthType")
    if login.startswith(("oauth", "login")) and not seen.variable("GEMINI_API_KEY"):
        return Plan(notes=("it is logged in with a Google account, which cannot be redirected",))
    upstream = upstream_for("gemini", seen.variable(*_GEMINI), said.get(_GEMINI[0], ""))
    return Plan(
        environment={_GEMINI[0]: mirrored(seen.base, upstream.url)},
        upstreams=(upstream,),
        other_paths="gemini",
    )


def _qwen(seen: Seen) -> Plan:
    folder = seen.home / ".qwen"
    files = (seen.folder / ".qwen" / ".env", seen.folder / ".env", folder / ".env")
    said = read_variables(files, _OPENAI)
    settings = read_json(folder / "settings.json")
    if text_at(settings, "security", "auth", "selectedType").startswith("qwen"):
        return Plan(notes=("it is logged in with a Qwen account, which cannot be redirected",))
    own = text_at(settings, "security", "auth", "baseUrl")
    upstream = upstream_for("openai", seen.variable(*_OPENAI), said.get(_OPENAI[0], ""), own)
    base = mirrored(seen.base, upstream.url)
    return Plan(
        environment={_OPENAI[0]: base},
        arguments=("--openai-base-url", base),
        upstreams=(upstream,),
        other_paths="openai",
    )


def _openhands(seen: Seen) -> Plan:
    own = seen.environment.get("LLM_BASE_URL", "")
    if not own:
        return _litellm(seen)
    provider = seen.environment.get("LLM_MODEL", "").partition("/")[0]
    formats: Mapping[str, Format] = {"anthropic": "anthropic", "gemini": "gemini"}
    upstream = upstream_for(formats.get(provider, "openai"), own)
    return Plan(
        environment={"LLM_BASE_URL": mirrored(seen.base, upstream.url)}, upstreams=(upstream,)
    )


def _litellm(seen: Seen) -> Plan:
    """Plan for an agent that asks through LiteLLM, which reads the usual variables."""
    return _without_gemini(_variables(seen, {}))


def _mini(seen: Seen) -> Plan:
    folder = seen.under("MSWEA_GLOBAL_CONFIG_DIR", ".config", "mini-swe-agent")
    return _without_gemini(
        _variables(seen, read_variables([folder / ".env"], (*_OPENAI, *_ANTHROPIC)))
    )


def _aider(seen: Seen) -> Plan:
    said: dict[str, str] = {}
    for path in (seen.folder / ".aider.conf.yml", seen.home / ".aider.conf.yml"):
        for line in _lines(path):
            name, _, value = line.partition(":")
            if name.strip() == "openai-api-base" and value.strip():
                said.setdefault("OPENAI_API_BASE", value.strip().strip("'\""))
    files = (seen.folder / ".env", seen.home / ".env")
    said = {**read_variables(files, (*_OPENAI, *_ANTHROPIC)), **said}
    own = seen.environment.get("AIDER_OPENAI_API_BASE", "")
    if own:
        said["OPENAI_API_BASE"] = own
    plan = _without_gemini(_variables(seen, said))
    # This one wins over its own files, which win over the others.
    base = plan.environment["OPENAI_API_BASE"]
    return Plan(
        environment={**plan.environment, "AIDER_OPENAI_API_BASE": base},
        upstreams=plan.upstreams,
        notes=(*plan.notes, "aider sends whole files and no steps: there is nothing to elide"),
    )


def _without_gemini(plan: Plan) -> Plan:
    """LiteLLM has no variable for Gemini's address."""
    return Plan(
        environment={n: value for n, value in plan.environment.items() if n not in _GEMINI},
        upstreams=tuple(one for one in plan.upstreams if one.format != "gemini"),
        notes=("models other than OpenAI's and Anthropic's bypass the gateway",),
    )


def _narrow_first(upstreams: list[Upstream]) -> tuple[Upstream, ...]:
    """Return upstreams in the order in which the gateway is to try them, each model once."""
    return tuple(sorted(dict.fromkeys(upstreams), key=lambda one: one.models == ("*",)))


def _merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return an object with everything of both; the second decides."""
    merged = dict(one)
    for key, value in other.items():
        before = merged.get(key)
        both = isinstance(before, dict) and isinstance(value, dict)
        merged[key] = _merged(before, value) if both else value  # type: ignore[arg-type]
    return merged


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


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
        Agent("aider", "aider", ("aider",), _aider, "pip install aider-chat"),
    )
}

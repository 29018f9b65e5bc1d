"""What a report of a problem needs and nothing of the user's: no prompt, key, address or name.

Only what is known to be ours gets in: names and words of settings, numbers, versions, and the
doctor's own sentences. Every other text is left out, so what a key looks like does not matter.
"""

import dataclasses
import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from typing import Any, Literal, get_args, get_origin, get_type_hints

import agora
from agora.gateway.config import (
    Client,
    Compression,
    Journal,
    Limits,
    Log,
    Telemetry,
    Tenants,
    Upstream,
)
from agora.wrapping.agents import AGENTS, VARIABLES
from agora.wrapping.doctor import Finding

ABOUT = (
    "Made by agora report: versions, settings without their texts, and what agora doctor found. "
    "Meant to hold no prompt, key, address or name of yours; read it before you share it."
)
_SECTIONS = (Client, Compression, Journal, Limits, Log, Telemetry, Tenants, Upstream)
_TABLES = (
    "upstreams listen hosts host port recall enabled limits compression tenants headers forward "
    "paths other log telemetry journal prices clients"
).split()
_PACKAGES = (
    "aiohttp msgspec prometheus-client uvicorn uvloop httptools click rich onnxruntime tokenizers "
    "openai anthropic google-genai litellm langchain openai-agents pydantic-ai-slim"
).split()
_ENVIRONMENT = (
    *(name for names in VARIABLES.values() for name in names),
    *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "ENABLE_TOOL_SEARCH"),
    *("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE"),
)
_OURS = ("agora", "packages", "prices", "gateway", "port")
"""What the doctor looks at and tells in sentences of its own."""
_VALUES_OF_YOURS = ("settings", "proxy", "address")
_TITLES = frozenset(agent.title for agent in AGENTS.values())
_VERSION = re.compile(r"\d+(?:\.\d+)*")
_TEXT = "<text>"


def bundle(
    tables: Mapping[str, Any] | None, environment: Mapping[str, str], findings: Iterable[Finding]
) -> dict[str, Any]:
    """Return the report. `tables` are those of the settings; None if they cannot be read."""
    return {
        "about": ABOUT,
        "agora": agora.__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "packages": {name: _installed(name) for name in _PACKAGES},
        "settings": "unreadable" if tables is None else _table(tables, _names(), _words()),
        "environment": [name for name in _ENVIRONMENT if environment.get(name)],
        "doctor": [_finding(one) for one in findings],
    }


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _names() -> frozenset[str]:
    """Return the names of all settings."""
    fields = (field.name for kind in _SECTIONS for field in dataclasses.fields(kind))
    return frozenset((*_TABLES, *fields))


def _words() -> frozenset[str]:
    """Return the words that settings choose from."""
    hints = (hint for kind in _SECTIONS for hint in get_type_hints(kind).values())
    return frozenset(word for hint in hints for word in _choices(hint))


def _choices(hint: Any) -> Iterator[str]:
    if get_origin(hint) is Literal:
        yield from (word for word in get_args(hint) if isinstance(word, str))
    else:
        for inner in get_args(hint):
            yield from _choices(inner)


def _table(table: Mapping[str, Any], names: frozenset[str], words: frozenset[str]) -> Any:
    shown: dict[str, Any] = {}
    for number, (name, value) in enumerate(table.items()):
        if name in names:
            shown[name] = _value(value, names, words)
        else:
            shown[f"<name {number}>"] = "<value>"
    return shown


def _value(value: Any, names: frozenset[str], words: frozenset[str]) -> Any:
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, dict):
        return _table(value, names, words)
    if isinstance(value, list):
        return [_value(one, names, words) for one in value]
    return value if isinstance(value, str) and value in words else _TEXT


def _finding(finding: Finding) -> dict[str, Any]:
    what, found = finding.what, _TEXT
    if what in _OURS:
        # What went wrong is told by others: a log, a file.
        found = finding.found.partition(":")[0] if finding.state == "problem" else finding.found
    elif what in _TITLES:
        version = _VERSION.match(finding.found)
        found = version[0] if version else finding.found if finding.state == "note" else _TEXT
    elif what not in _VALUES_OF_YOURS:
        what = _TEXT
    named = (line.partition("=")[0] for line in finding.changes)
    return {
        "what": what,
        "state": finding.state,
        "found": found,
        "changes": [name for name in named if name in _ENVIRONMENT],
    }

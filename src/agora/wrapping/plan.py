"""What an agent is told so that it calls the gateway, and where the gateway sends its requests."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from agora.gateway.config import FORMATS, Format

PROVIDERS: Mapping[Format, str] = MappingProxyType(
    {
        "openai": "https://api.openai.com/v1",
        "anthropic": "https://api.anthropic.com",
        "gemini": "https://generativelanguage.googleapis.com",
    }
)
"""Where requests go unless the user has said otherwise. Azure and Bedrock have no such place."""
_ENDS = ("/openai/v1", "/v1", "/openai", "/v1beta")
"""What a base URL may end with and the gateway's must then end with too."""
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


@dataclass(frozen=True, slots=True)
class Seen:
    """What there is before an agent starts: read, and never changed."""

    environment: Mapping[str, str]
    home: Path
    folder: Path
    """Where the agent will run."""
    base: str
    """The gateway's address, without a path."""
    temporary: Path
    """A folder that is deleted when the agent has ended."""
    arguments: tuple[str, ...] = ()
    """What the user passes to the agent."""

    def variable(self, *names: str) -> str:
        """Return the first of some variables that says anything."""
        return next((value for name in names if (value := self.environment.get(name, ""))), "")

    def under(self, variable: str, *default: str) -> Path:
        """Return a folder that a variable names, or else one in the home folder."""
        named = self.environment.get(variable, "")
        return Path(named).expanduser() if named else self.home.joinpath(*default)


@dataclass(frozen=True, slots=True)
class Upstream:
    """A server that the gateway may forward the agent's requests to."""

    format: Format
    url: str
    models: tuple[str, ...] = ("*",)
    chosen: bool = False
    """Whether the user named it. Then it gets whatever key the agent sends, as it would without
    the gateway; a provider's own address gets only that provider's keys."""

    def table(self, number: int, environment: Mapping[str, str]) -> dict[str, Any]:
        """Return it as the gateway's configuration has it."""
        table: dict[str, Any] = {
            "name": f"{self.format}-{number}" if number else str(self.format),
            "base_url": self.url,
            "formats": [self.format],
            "models": list(self.models),
        }
        if self.chosen:
            table["credentials"] = list(FORMATS)
        proxy = proxy_for(self.url, environment)
        return {**table, "proxy": proxy} if proxy else table


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done for one start of an agent."""

    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that are added or replaced."""
    arguments: tuple[str, ...] = ()
    """What is put before the user's arguments."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Files in the temporary folder, by name."""
    upstreams: tuple[Upstream, ...] = ()
    other_paths: Format | None = None
    """Which provider gets the paths that belong to no API the gateway knows."""
    notes: tuple[str, ...] = ()
    """What will not go through the gateway, and why."""


def mirrored(base: str, url: str) -> str:
    """Return the gateway's address in the form that an upstream's has.

    An agent adds paths to its base URL. They must come out the same behind the gateway, so the
    gateway's URL ends with `/v1` exactly if the upstream's does.

    >>> mirrored("http://127.0.0.1:9", "https://openrouter.ai/api/v1/")
    'http://127.0.0.1:9/v1'
    >>> mirrored("http://127.0.0.1:9", "https://example.com/custom")
    'http://127.0.0.1:9'
    """
    return base + next((end for end in _ENDS if url.rstrip("/").endswith(end)), "")


def upstream_for(format: Format, *said: str) -> Upstream:
    """Return the upstream of a format: the first address that was said, or the provider's own."""
    url = next((one.strip().rstrip("/") for one in said if one and one.strip()), "")
    return Upstream(format, url, chosen=True) if url else Upstream(format, PROVIDERS[format])


def proxy_for(url: str, environment: Mapping[str, str]) -> str:
    """Return the HTTP proxy that the user's environment has for an address; empty if none.

    >>> proxy_for("https://api.openai.com/v1", {"HTTPS_PROXY": "http://proxy:3128"})
    'http://proxy:3128'
    >>> proxy_for("http://127.0.0.1:1", {"http_proxy": "http://p:1", "NO_PROXY": "127.0.0.1"})
    ''
    """
    parts = urlsplit(url)
    known = _proxies(environment)
    if not parts.hostname or _bypassed(parts.hostname, known.get("no", "")):
        return ""
    return known.get(parts.scheme) or known.get("all", "")


def around_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what keeps an agent from sending what is for the gateway to the user's proxy."""
    known = _proxies(environment)
    if not any(known.get(name.partition("_")[0]) for name in _PROXIES):
        return {}
    names = [name for name in known.get("no", "").split(",") if name.strip()]
    if "*" in names:
        return {}
    names += [name for name in ("127.0.0.1", "localhost") if name not in names]
    return dict.fromkeys(("NO_PROXY", "no_proxy"), ",".join(names))


def _proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the proxies by scheme; small letters come first, as everywhere."""
    found: dict[str, str] = {}
    for name, value in sorted(environment.items()):
        if name.lower().endswith("_proxy") and value:
            found[name.lower().removesuffix("_proxy")] = value
    return found


def _bypassed(host: str, no_proxy: str) -> bool:
    """Return whether a host is one of NO_PROXY's, or below one of them."""
    names = [name.strip().lstrip(".").lower() for name in no_proxy.split(",")]
    low = host.lower()
    return any(one == "*" or low == one or low.endswith(f".{one}") for one in names if one)


_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in one of an agent's files; empty where there is none that can be read.

    Comments and commas at the end are allowed: some agents write them.
    """
    try:
        return json_of(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError):
        return {}


def json_of(text: str) -> dict[str, Any]:
    """Return the object in a text.

    >>> json_of('{"a": "//b", /* c */ "d": [1, ], }')
    {'a': '//b', 'd': [1]}
    """
    bare = _COMMA.sub(lambda found: found[1] or "", _COMMENT.sub(lambda f: f[1] or "", text))
    try:
        found = json.loads(bare)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def read_variables(paths: Iterable[Path], names: Sequence[str]) -> dict[str, str]:
    """Return some variables from files of `NAME=value` lines, the first file that has one first.

    Only the names asked for are kept: keys stand in the same files.
    """
    found: dict[str, str] = {}
    for path in paths:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        for line in lines:
            name, mark, value = line.strip().removeprefix("export ").partition("=")
            if mark and name.strip() in names:
                found.setdefault(name.strip(), value.strip().strip("'\""))
    return found


def at(value: object, *keys: str) -> Any:
    """Return what stands at a place in nested objects; None where there is nothing.

    >>> at({"a": {"b": 1}}, "a", "b"), at({"a": []}, "a", "b")
    (1, None)
    """
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def text_at(value: object, *keys: str) -> str:
    """Return the text at a place; empty where there is none."""
    found = at(value, *keys)
    return found if isinstance(found, str) else ""

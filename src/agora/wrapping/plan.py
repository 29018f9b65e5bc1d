"""What an agent is told so that it calls the proxy, and where the proxy sends its requests."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agora.service.settings import UPSTREAMS

_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


@dataclass(frozen=True, slots=True)
class Seen:
    """What there is before an agent starts: read, and never changed."""

    environment: Mapping[str, str]
    home: Path
    folder: Path
    """Where the agent will run."""
    proxy: str
    """The proxy's address, without a path."""
    temporary: Path
    """A folder that is deleted when the agent has ended."""
    arguments: tuple[str, ...] = ()
    """What the user passes to the agent."""
    upstreams: Mapping[str, str] = field(default_factory=dict)
    """Addresses of providers by family, from the user's settings."""

    def variable(self, *names: str) -> str:
        """Return the first of some variables that is not empty."""
        return next((value for name in names if (value := self.environment.get(name, ""))), "")

    def under(self, variable: str, *default: str) -> Path:
        """Return a folder that a variable names, or else one in the home folder."""
        named = self.environment.get(variable, "")
        return Path(named).expanduser() if named else self.home.joinpath(*default)

    def address(self, number: int) -> str:
        """Return the base URL that stands for the upstream of that number in a plan.

        Whatever path an agent adds to it, the proxy adds to the upstream's.
        """
        return f"{self.proxy}/{number}"

    def upstream(self, family: str, *chosen: str, version: str = "") -> str:
        """Return the first address that the user has chosen, or the provider's own.

        Args:
            family: Whose API it is.
            chosen: What variables and files of the agent say, most of them empty.
            version: How the agent expects a provider's own address to end.
        """
        for url in chosen:
            if url.strip():
                return url.strip().rstrip("/")
        url = (self.upstreams.get(family) or UPSTREAMS[family]).rstrip("/")
        return url if url.endswith(version) else url + version


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done for one start of an agent."""

    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that are added or replaced."""
    arguments: tuple[str, ...] = ()
    """What is put before the user's arguments."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Files in the temporary folder, by name."""
    upstreams: tuple[str, ...] = ()
    """Base URLs of providers; the agent knows each by its number."""
    notes: tuple[str, ...] = ()
    """What will not go through the proxy, and why."""


def around_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that keep an agent from asking the user's HTTP proxy for ours.

    >>> around_proxies({"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "a.test"})["NO_PROXY"]
    'a.test,127.0.0.1,localhost'
    """
    lower = {name.lower(): value for name, value in sorted(environment.items())}
    if not any(lower.get(name) for name in _PROXIES):
        return {}
    names = [name for name in lower.get("no_proxy", "").split(",") if name.strip()]
    if "*" in names:
        return {}
    names += [name for name in ("127.0.0.1", "localhost") if name not in names]
    return dict.fromkeys(("NO_PROXY", "no_proxy"), ",".join(names))


_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')


def read_text(path: Path) -> str:
    """Return the text of one of an agent's files; empty where there is none that can be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return ""


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in one of an agent's files, or an empty one."""
    return json_of(read_text(path))


def json_of(text: str) -> dict[str, Any]:
    """Return the object in a text. Some agents write comments, and commas at the end of lists.

    >>> json_of('{"a": "//b", /* c */ "d": [1, ], }')
    {'a': '//b', 'd': [1]}
    """
    plain = _COMMA.sub(lambda match: match[1] or "", _COMMENT.sub(lambda m: m[1] or "", text))
    try:
        value = json.loads(plain)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def read_variables(paths: Iterable[Path], names: Sequence[str]) -> dict[str, str]:
    """Return some variables from files of `NAME=value` lines; the first file that has one decides.

    Only the names asked for are kept, because keys are in the same files.
    """
    variables: dict[str, str] = {}
    for line in (line for path in paths for line in read_text(path).splitlines()):
        name, mark, value = line.strip().removeprefix("export ").partition("=")
        if mark and name.strip() in names:
            variables.setdefault(name.strip(), value.strip().strip("'\""))
    return variables


def at(value: object, *keys: str) -> Any:
    """Return the value at a place in nested objects, None where there is nothing.

    >>> at({"a": {"b": 1}}, "a", "b"), at({"a": []}, "a", "b")
    (1, None)
    """
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def text_at(value: object, *keys: str) -> str:
    """Return the text at a place in nested objects, empty where there is none."""
    text = at(value, *keys)
    return text if isinstance(text, str) else ""

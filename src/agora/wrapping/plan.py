"""How an agent is pointed at the proxy, and where the proxy sends its requests."""

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
    """The environment before an agent starts. It is only read."""

    environment: Mapping[str, str]
    home: Path
    folder: Path
    """The agent's working directory."""
    proxy: str
    """The proxy's address, without a path."""
    temporary: Path
    """A folder that is deleted when the agent has ended."""
    arguments: tuple[str, ...] = ()
    """The user's arguments for the agent."""
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
        """Return the proxy's base URL for the upstream of that number in a plan.

        The proxy appends the rest of a request's path to the upstream's address.
        """
        return f"{self.proxy}/{number}"

    def upstream(self, family: str, *chosen: str, version: str = "") -> str:
        """Return the first address that the user has chosen, or the provider's own.

        Args:
            family: The API family.
            chosen: Addresses from the agent's variables and files, most of them empty.
            version: The end of a provider's own address that the agent expects.
        """
        for url in chosen:
            if url.strip():
                return url.strip().rstrip("/")
        url = (self.upstreams.get(family) or UPSTREAMS[family]).rstrip("/")
        return url if url.endswith(version) else url + version


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes for one start of an agent."""

    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that are added or replaced."""
    arguments: tuple[str, ...] = ()
    """Arguments before the user's own."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Files in the temporary folder, by name."""
    upstreams: tuple[str, ...] = ()
    """Base URLs of providers; the agent knows each by its number."""
    notes: tuple[str, ...] = ()
    """Requests that bypass the proxy, and why."""


def around_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that exempt our proxy from the user's HTTP proxy.

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
    """Return the text of one of an agent's files, or an empty text if it cannot be read."""
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

    Other names are dropped, because keys are in the same files.
    """
    variables: dict[str, str] = {}
    for line in (line for path in paths for line in read_text(path).splitlines()):
        name, mark, value = line.strip().removeprefix("export ").partition("=")
        if mark and name.strip() in names:
            variables.setdefault(name.strip(), value.strip().strip("'\""))
    return variables


def at(value: object, *keys: str) -> Any:
    """Return the value at a path in nested objects, or None.

    >>> at({"a": {"b": 1}}, "a", "b"), at({"a": []}, "a", "b")
    (1, None)
    """
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def text_at(value: object, *keys: str) -> str:
    """Return the text at a path in nested objects, or an empty text."""
    text = at(value, *keys)
    return text if isinstance(text, str) else ""

"""Which kind of log a file is, by what its first records look like."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from agora.logs.kinds import (
    claude_code,
    codex,
    gemini_cli,
    inspect_ai,
    langfuse,
    langsmith,
    litellm,
    mini_swe_agent,
    opencode,
    openhands,
    otel,
    recorded,
    requests,
)
from agora.logs.recording import Recording, Tally
from agora.logs.source import Record

LOOKED_AT = 64
"""How many records are looked at before a file is given up: logs may open with events."""


class Reader(Protocol):
    """A module that reads one kind of log."""

    def fits(self, value: Any) -> bool:
        """Tell whether a record can be of this kind of log."""
        ...

    def read(self, records: Iterator[Record], name: str, tally: Tally) -> Iterator[Recording]:
        """Return the trajectories in the records of a file called `name`."""
        ...


KINDS: Mapping[str, Reader] = MappingProxyType(
    {
        "inspect": inspect_ai,
        "claude-code": claude_code,
        "codex": codex,
        "gemini-cli": gemini_cli,
        "opencode": opencode,
        "openhands": openhands,
        "mini-swe-agent": mini_swe_agent,
        "langsmith": langsmith,
        "langfuse": langfuse,
        "litellm": litellm,
        "otel": otel,
        "requests": requests,
        "recorded": recorded,
    }
)
"""The kinds of log there are. The first that fits is taken, so the most particular come first."""


def sniff(values: Iterable[Any]) -> str | None:
    """Return the kind of log that opens with these records, or None.

    >>> sniff([{"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}])
    'requests'
    """
    for value in values:
        for kind, reader in KINDS.items():
            if reader.fits(value):
                return kind
    return None

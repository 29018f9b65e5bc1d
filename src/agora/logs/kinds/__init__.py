"""The kinds of log that are read, and which one a record is of."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from agora.logs.kinds import claude_code, codex, litellm, mini_swe_agent, otel, requests
from agora.logs.recording import Recording, Tally
from agora.logs.source import Record


class Reader(Protocol):
    """A module that reads one kind of log."""

    def fits(self, value: Any) -> bool:
        """Return True if a record can be of this kind of log."""
        ...

    def read(self, records: Iterator[Record], name: str, tally: Tally) -> Iterator[Recording]:
        """Yield the trajectories in the records of a file called `name`."""
        ...


KINDS: Mapping[str, Reader] = MappingProxyType(
    {
        "claude-code": claude_code,
        "codex": codex,
        "mini-swe-agent": mini_swe_agent,
        "litellm": litellm,
        "otel": otel,
        "requests": requests,
    }
)
"""The kinds of log. The first that fits is taken, so the most particular come first."""


def detect_kind(value: Any, kinds: Mapping[str, Reader] = KINDS) -> str | None:
    """Return the kind of log that a record is of, or None.

    >>> detect_kind({"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]})
    'requests'
    """
    return next((kind for kind, reader in kinds.items() if reader.fits(value)), None)

"""Recordings read from logs, and an account of unreadable records."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, TypeVar

from agora.core.request import Observations, Request
from agora.formats.cache_ttl import asked_ttl
from agora.formats.usage import Usage

_EXAMPLES = 20
"""How many bad records are kept as examples: enough to see a pattern, not to fill a screen."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CallInfo:
    """The facts of a log about one call of the model."""

    usage: Usage | None = None
    at_seconds: float | None = None


def complete(values: Iterable[T | None]) -> tuple[T, ...]:
    """Return the values if none of them is missing, otherwise none of them."""
    found = tuple(values)
    return tuple(value for value in found if value is not None) if None not in found else ()


def rising(times: Iterable[float | None]) -> tuple[float, ...]:
    """Return the times, none before the previous one; nothing if one is missing."""
    return tuple(accumulate(complete(times), max))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One trajectory as it ended."""

    id: str
    """The log's own id, or the file's name, with a running number where one is needed."""
    format: str
    """The wire format of the messages, by the name that `compress` knows it."""
    messages: Any
    system: object = None
    tools: object = None
    model: str | None = None
    observations: Observations | None = None
    """`"user"` for an agent that acts by text: user messages are its observations."""
    thinking: bool | None = None
    """True if extended thinking was on at the last call; None if its body does not say."""
    calls: tuple[int, ...] = ()
    """Per recorded call: how many of the messages it sent. Empty: one call per agent message."""
    usage: tuple[Usage, ...] = ()
    """The provider's usage per call, if the log has it for every call."""
    at_seconds: tuple[float, ...] = ()
    """When each call was made, on a clock that does not go back, if the log has the times."""
    task: str = ""
    """The log's own name for the task, the conversation or the trace."""
    earlier_calls: int = 0
    """How many calls made its first messages; they belong to an earlier recording."""
    lacks: str = ""
    """Parts of every call that this kind of log never has, in words."""
    path: str = field(default="", compare=False)
    """The source: the file, or the folder above it."""
    number: int = field(default=0, compare=False)
    """Its place among the trajectories below `path`, from 0, as `agora explain PATH#4` has it."""

    @property
    def ttl(self) -> str | None:
        """The time to live that its calls were written for, None for the usual one.

        Most of the cache writes were billed for it. Without usage, the request's cache marks ask
        for it.
        """
        told = [one for one in self.usage if one.written and one.written_1h is not None]
        if told:
            hours = sum(one.written_1h or 0 for one in told)
            return "1h" if 2 * hours > sum(one.written for one in told) else None
        return asked_ttl(self.request())

    def request(self) -> Request:
        """Return the trajectory as its last call sent it."""
        return Request(
            messages=self.messages,
            format=self.format,
            system=self.system,
            tools=self.tools,
            thinking=self.thinking,
            observations=self.observations,
            model=self.model,
        )


@dataclass(frozen=True, slots=True)
class Bad:
    """A record that could not be read: its place, and the problem."""

    where: str
    problem: str


@dataclass(slots=True)
class Tally:
    """The account so far. It grows while the recordings are read."""

    files: int = 0
    records: int = 0
    """Lines or JSON values that could be parsed."""
    recordings: int = 0
    bytes_read: int = 0
    """After decompression."""
    bad: int = 0
    """Records that could not be parsed, and parsed ones that hold no trajectory."""
    examples: list[Bad] = field(default_factory=list)
    """The first few of the bad ones."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Records left out on purpose, by reason: calls that failed, lines that were never sent."""
    answered: set[str] = field(default_factory=set)
    """Answers read so far. An answer in several files was made by one call."""

    def refuse(self, where: str, problem: str) -> None:
        """Count a record that could not be read."""
        self.bad += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(Bad(where, problem))

    def skip(self, reason: str) -> None:
        """Count a record that is left out on purpose."""
        self.skipped[reason] += 1

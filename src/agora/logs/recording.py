"""What reading logs gives: recordings, and an account of what could not be read."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from agora.adapters.lifetimes import asked_ttl
from agora.core.request import Observations, Request
from agora.logs.usage import Usage

_EXAMPLES = 20
"""How many bad records are kept as examples: enough to see a pattern, not to fill a screen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """An agent's own summary of what came before, from which a trajectory goes on."""

    prompt_tokens: int = 0
    """The prompt that was summed up, as the log says; 0 where it does not."""
    summary: str = ""
    messages: Any = field(default_factory=list, repr=False)
    """What it stands for."""


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
    """`"user"` for an agent that acts by text: what the user says is what it observes."""
    thinking: bool | None = None
    """Whether extended thinking was on, as the last call's body says; None where it does not."""
    calls: tuple[int, ...] = ()
    """Per recorded call: how many of the messages it sent. Empty: one call per agent message."""
    output_tokens: tuple[int, ...] = ()
    """Per call, if the log says."""
    usage: tuple[Usage, ...] = ()
    """Per call what the provider reported, if the log has it for every one of them."""
    at_seconds: tuple[float, ...] = ()
    """When each call was made, on a clock that does not go back, if the log says."""
    task: str = ""
    """What belongs together in the log's own words: a task, a conversation, a trace."""
    earlier_calls: int = 0
    """How many calls before its own made the beginning: an earlier recording has those."""
    lacks: str = ""
    """What every call sent and such a log never holds, in words; its size follows from usage."""
    compaction: Compaction | None = None
    """What its beginning sums up, where an agent had compacted its history."""
    sums_up: bool = False
    """Whether it is the call of an agent that compacts its history."""
    path: str = field(default="", compare=False)
    """What was read: the file, or the folder with the file somewhere below it."""
    number: int = field(default=0, compare=False)
    """Its place among the trajectories below `path`, from 0, as `agora explain PATH#4` has it."""

    @property
    def ttl(self) -> str | None:
        """The time to live that its calls were written for, None for the usual one.

        As most of what was written was billed; where the log does not say, as its marks ask.
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
    """A record that could not be read: where it stands, and what is wrong with it."""

    where: str
    problem: str


@dataclass(slots=True)
class Tally:
    """What was read so far. It grows while the recordings are taken."""

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
    """What was left out on purpose, by reason: calls that failed, lines that were never sent."""
    answered: set[str] = field(default_factory=set)
    """Answers that were read. One that stands in several files was made by one call."""

    def refuse(self, where: str, problem: str) -> None:
        """Put down a record that could not be read."""
        self.bad += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(Bad(where, problem))

    def skip(self, reason: str) -> None:
        """Put down a record that is fine and not wanted."""
        self.skipped[reason] += 1

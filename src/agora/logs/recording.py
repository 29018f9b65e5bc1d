"""What reading logs gives: recordings, and an account of what could not be read."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from agora.core.request import Observations, Request
from agora.logs.usage import Usage

_EXAMPLES = 20
"""How many bad records are kept as examples: enough to see a pattern, not to fill a screen."""


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

    def request(self) -> Request:
        """Return the trajectory as its last call sent it."""
        return Request(
            messages=self.messages,
            format=self.format,
            system=self.system,
            tools=self.tools,
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

    def refuse(self, where: str, problem: str) -> None:
        """Put down a record that could not be read."""
        self.bad += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(Bad(where, problem))

    def skip(self, reason: str) -> None:
        """Put down a record that is fine and not wanted."""
        self.skipped[reason] += 1

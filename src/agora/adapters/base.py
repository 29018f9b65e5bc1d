"""What every adapter takes and gives: a request's context, a parsed trajectory, a rendered one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from agora.core.elide import Markers
from agora.core.tokens import TokenCounter
from agora.core.trajectory import Trajectory

Message = dict[str, Any]
Observations = Literal["user"]
"""Says which plain user messages are observations: `"user"`, all but the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What stands beside the messages in a request, and how its text is counted."""

    counter: TokenCounter
    system: object = None
    tools: object = None
    thinking: bool | None = None
    observations: Observations | None = None


@dataclass(frozen=True, slots=True)
class Parsed:
    """A trajectory, and where in the caller's own messages each of its steps lies."""

    messages: Any
    trajectory: Trajectory
    owners: Sequence[int]
    """Per message: the number of the step it acts for, minus that number where it is a result
    of the step, or 0. In text formats the same per block."""
    spans: Sequence[tuple[int, int]] = ()
    """In text formats: where each block begins and ends."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """Messages ready to send, and each text that was put into them."""

    messages: Any
    added: tuple[str, ...]
    positions: tuple[int, ...] = ()
    """Where each message stood among the caller's own; empty in text formats."""


class Adapter(Protocol):
    """Reads one wire format into a trajectory and writes it back without the elided steps."""

    @property
    def name(self) -> str:
        """The name by which callers ask for this format."""
        ...

    def parse(self, messages: Any, context: Context) -> Parsed:
        """Return the trajectory in `messages`, which stay as they are."""
        ...

    def render(self, parsed: Parsed, elided: Mapping[int, str], markers: Markers) -> Rendered:
        """Return the messages without the steps in `elided` (number to skeleton line).

        What is not touched is the caller's own object. With nothing elided
        the messages come back equal, value for value.
        """
        ...

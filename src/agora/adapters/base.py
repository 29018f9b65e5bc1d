"""What every adapter gives back: a parsed trajectory, and a rendered one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agora.core.forms import Form
from agora.core.markers import Markers
from agora.core.request import Request
from agora.core.tokens import TokenCounter
from agora.core.trajectory import Trajectory

Message = dict[str, Any]


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
    observed: Sequence[int] = ()
    """In text formats: where what was observed begins in each block; its end if nothing was."""
    thinking_tokens: Sequence[int] = ()
    """Per message: what its thinking blocks cost. Empty in text formats."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """Messages ready to send, and each text that was put into them."""

    messages: Any
    added: tuple[str, ...]
    positions: tuple[int, ...] = ()
    """Where each message stood among the caller's own; empty in text formats."""


class Adapter(Protocol):
    """Reads one wire format into a trajectory and writes it back with its steps shortened."""

    @property
    def name(self) -> str:
        """The name by which callers ask for this format."""
        ...

    def parse(self, request: Request, counter: TokenCounter) -> Parsed:
        """Return the trajectory in the request's messages, which stay as they are."""
        ...

    def render(self, parsed: Parsed, forms: Mapping[int, Form], markers: Markers) -> Rendered:
        """Return the messages with each step in `forms`, by its number, as that says.

        One that is in place keeps its messages, with a note for each of its results; of the
        others a marker tells, in a message before them. A step that is not removable comes with
        a form in place.
        What is not touched is the caller's own object. Without forms the messages come
        back equal, value for value.
        """
        ...

"""What the lab asks of every way to shorten a prompt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortened:
    """What a method made of the messages."""

    messages: Messages
    input_tokens: int = 0
    """What the method itself asked of a language model, to be added to its bill."""
    output_tokens: int = 0
    detail: str = ""
    """Why nothing was changed, where that is so."""


class Method(Protocol):
    """Shortens the messages of an agent before they are sent."""

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages to send. What was given is not changed.

        The same messages give the same result: whatever a method remembers, it
        remembers only to be quicker.
        """
        ...


class SkipMethod(Exception):  # noqa: N818 - it is no error: the cell is listed with its reason
    """A method that cannot be run here, with the reason."""

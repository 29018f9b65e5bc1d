"""The protocol of a method: a way to shorten a prompt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortened:
    """The result of a method."""

    messages: Messages
    input_tokens: int = 0
    """Tokens of the method's own calls to a language model, added to its bill."""
    output_tokens: int = 0
    detail: str = ""
    """Why nothing was elided, if so."""


class Method(Protocol):
    """Shortens an agent's messages before they are sent."""

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages to send. The input is not changed.

        The same messages give the same result: a method may cache, but only to be
        faster.
        """
        ...


class SkipMethod(Exception):  # noqa: N818 - not an error: the cell is listed with its reason
    """A method that cannot run here, with the reason."""

"""Doing nothing: what every other method is compared with."""

from dataclasses import dataclass

from agora.lab.methods.base import Messages, Shortened


@dataclass(frozen=True, slots=True)
class NoCompression:
    """Sends the messages as they are."""

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages as they are."""
        return Shortened(messages=messages)

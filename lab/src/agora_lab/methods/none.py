"""Doing nothing: the baseline for every other method."""

from dataclasses import dataclass

from agora_lab.methods.base import Messages, Shortened


@dataclass(frozen=True, slots=True)
class NoCompression:
    """Sends the messages unchanged."""

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages unchanged."""
        return Shortened(messages=messages)

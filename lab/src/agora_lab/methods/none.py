"""Everything is sent."""

from agora_lab.methods.base import Messages, MethodSettings, Shortened


class NoCompression:
    """Sends the messages unchanged."""

    def __init__(self, _settings: MethodSettings) -> None:
        """Nothing is configurable."""

    def shorten(self, messages: Messages) -> Shortened:
        """Return the same messages."""
        return Shortened(messages=messages)

"""The floor alone: the newest steps, and no scorer."""

from dataclasses import dataclass

from agora_lab.chats import K_RECENT, read
from agora_lab.methods.base import Messages, Shortened


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Keeps preamble and the newest steps. It is what a scorer has to beat."""

    k_recent: int = K_RECENT

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with the newest steps only."""
        chat = read(messages)
        if len(chat.steps) <= len(chat.floor(self.k_recent)):
            return Shortened(messages=messages, detail="every step is in the floor")
        return Shortened(messages=chat.keep(chat.floor(self.k_recent)))

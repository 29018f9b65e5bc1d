"""The floor alone: the newest steps, and no scorer."""

from dataclasses import dataclass

from agora_lab.chats import K_RECENT, read
from agora_lab.methods.base import Messages, Shortened
from agora_lab.methods.in_place import Places, has_calls


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Keeps preamble and the newest steps. It is what a scorer has to beat.

    Where an agent calls tools, what was said between the calls stays as well.
    """

    k_recent: int = K_RECENT

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with the newest steps only."""
        if has_calls(messages):
            places = Places.of(messages, observations="none", k_recent=self.k_recent)
            if not places.outside:
                return Shortened(messages=messages, detail="every step is in the floor")
            return Shortened(messages=places.written({}, places.outside))
        chat = read(messages)
        if len(chat.steps) <= len(chat.floor(self.k_recent)):
            return Shortened(messages=messages, detail="every step is in the floor")
        return Shortened(messages=chat.keep(chat.floor(self.k_recent)))

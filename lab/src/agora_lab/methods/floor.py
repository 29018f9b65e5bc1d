"""The floor alone: the newest steps. The paper's Floor-K2, and its ablation -Scorer."""

from agora_lab.chats import K_RECENT, read
from agora_lab.methods.base import Messages, MethodSettings, Shortened


class Floor:
    """Keeps instructions, task and the newest steps: the least that a scorer has to beat."""

    def __init__(self, _settings: MethodSettings, *, k_recent: int = K_RECENT) -> None:
        """Keep `k_recent` steps; the newest one is always kept."""
        self._k_recent = k_recent

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with the newest steps only."""
        chat = read(messages)
        if len(chat.steps) <= len(chat.floor(self._k_recent)):
            return Shortened(messages=messages, detail="every step is in the floor")
        return Shortened(messages=chat.keep(chat.floor(self._k_recent)))

"""The newest steps that fit the budget: the baseline for a scorer at its own size."""

from agora import TokenCounter
from agora_lab.chats import COUNTER, K_RECENT, read
from agora_lab.methods.base import Messages, MethodSettings, Shortened


class SlidingWindow:
    """Keeps the floor and as many of the steps before it as fit."""

    def __init__(
        self,
        settings: MethodSettings,
        *,
        share: float | None = None,
        k_recent: int = K_RECENT,
        counter: TokenCounter = COUNTER,
    ) -> None:
        """Set the budget: the `keep_ratio`, or a `share` of the tokens outside the floor."""
        self._keep_ratio = settings.keep_ratio
        self._share = share
        self._k_recent = k_recent
        self._counter = counter

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages without the steps that do not fit."""
        chat = read(messages, self._counter)
        room = chat.room(self._keep_ratio, self._share, self._k_recent)
        if chat.tokens <= room:
            return Shortened(messages=messages, detail="everything fits")
        kept = set(chat.floor(self._k_recent))
        room -= chat.floor_tokens(self._k_recent)
        for step in reversed(chat.steps[: len(chat.steps) - len(kept)]):
            if step.tokens > room:
                break
            room -= step.tokens
            kept.add(step.number)
        if len(kept) == len(chat.steps):
            return Shortened(messages=messages, detail="every step is in the floor")
        return Shortened(messages=chat.keep(kept))

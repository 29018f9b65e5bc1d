"""Old observations replaced by a fixed text, every action kept."""

from dataclasses import dataclass

from agora.core.tokens import TokenCounter
from agora_lab.chats import COUNTER, Chat, Message, read, text_of, tokens_of, with_text
from agora_lab.methods.base import Messages, Shortened
from agora_lab.methods.in_place import has_calls

MASK = "[old observation left out]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationMask:
    """Keeps the newest observations and masks those before them.

    After Lindenbauer et al. (2025), who keep a fixed `window`. Without one, as many are
    kept as fit the budget of `keep_ratio`, and at least the newest. All actions are
    kept, so a small `keep_ratio` may not be reached. Where an agent calls tools, only
    their results are observations.
    """

    window: int | None = None
    keep_ratio: float = 0.25
    counter: TokenCounter = COUNTER

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with old observations masked."""
        chat = read(messages, self.counter)
        window = max(self.window or 1, 1)
        if self.window is None:
            window = fitting(chat, self.keep_ratio, MASK, self.counter)
        if window >= len(chat.steps):
            return Shortened(messages=messages, detail="every observation is in the window")
        shortened = list(chat.preamble)
        role = _role(chat)
        for step in chat.steps:
            if step.number > len(chat.steps) - window:
                shortened += step.messages
            else:
                shortened += (_masked(one, MASK, self.counter, role) for one in step.messages)
        return Shortened(messages=shortened)


def fitting(chat: Chat, keep_ratio: float, mask: str, counter: TokenCounter = COUNTER) -> int:
    """Return how many of the newest observations can be kept whole, at least 1."""
    excess = chat.tokens - chat.room(keep_ratio)
    window = len(chat.steps)
    role = _role(chat)
    for step in chat.steps[:-1]:
        if excess <= 0:
            break
        masked = [_masked(message, mask, counter, role) for message in step.messages]
        excess -= step.tokens - tokens_of(masked, counter)
        window -= 1
    return max(window, 1)


def _role(chat: Chat) -> str:
    """Return who tells what was observed."""
    return "tool" if any(has_calls(step.messages) for step in chat.steps) else "user"


def _masked(message: Message, mask: str, counter: TokenCounter, role: str) -> Message:
    longer = counter.count(text_of(message)) > counter.count(mask)
    return with_text(message, mask) if message.get("role") == role and longer else message

"""Truncation: the last tokens of the prompt, wherever that cuts."""

from dataclasses import dataclass

from agora.core.tokens import MESSAGE_TOKENS, TokenCounter
from agora_lab.chats import COUNTER, Message, read, text_of, tokens_of, with_text
from agora_lab.methods.base import Messages, Shortened

CUT = "[... earlier text cut off ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """Keeps the instructions and the last `tokens` tokens, cutting inside a message if needed.

    The instructions are kept: without them the grammar of actions would be lost, and
    the comparison is about shortening the history. The task is dropped if it lies
    before the cut. The pending observation is never cut.
    """

    tokens: int | None = None
    """A fixed number, such as the paper's 2,048; None for the budget of `keep_ratio`."""
    keep_ratio: float = 0.25
    counter: TokenCounter = COUNTER

    def shorten(self, messages: Messages) -> Shortened:
        """Return the instructions and the last tokens of the rest."""
        first = next((at for at, m in enumerate(messages) if m.get("role") != "system"), None)
        if first is None:
            return Shortened(messages=messages, detail="there is nothing but instructions")
        system, rest = list(messages[:first]), messages[first:]
        room = self.tokens
        if room is None:
            chat = read(messages, self.counter)
            room = chat.room(self.keep_ratio) - tokens_of(system, self.counter)
        if tokens_of(rest, self.counter) <= room:
            return Shortened(messages=messages, detail=f"has no more than {room} tokens")
        kept: list[Message] = [rest[-1]]
        cut = {"role": "user", "content": CUT}
        room -= tokens_of([*kept, cut], self.counter)
        for message in reversed(rest[:-1]):
            cost = tokens_of([message], self.counter)
            if cost > room:
                end = self._end(text_of(message), room - MESSAGE_TOKENS)
                if end:
                    kept.append(with_text(message, end))
                break
            kept.append(message)
            room -= cost
        if kept[-1].get("role") == "assistant":
            # Many chat templates reject a chat that starts with the assistant.
            kept.append(cut)
        return Shortened(messages=[*system, *reversed(kept)])

    def _end(self, text: str, room: int) -> str:
        """Return the longest suffix of the text that costs no more than `room`."""
        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            if self.counter.count(text[len(text) - middle :]) <= room:
                low = middle
            else:
                high = middle - 1
        return text[len(text) - low :]

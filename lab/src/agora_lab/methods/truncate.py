"""The newest tokens of the history, cut wherever the limit falls: the paper's Truncate-2048."""

from agora import TokenCounter
from agora_lab.chats import COUNTER, Message, read, text_of, tokens_of, with_text
from agora_lab.methods.base import Messages, MethodSettings, Shortened


class Truncate:
    """Keeps instructions, task, and the newest `tokens` tokens after them.

    The limit ignores steps: the oldest message that is left may begin in the middle. The paper
    does not name the text that its truncation protects; without a task no agent could act.
    """

    def __init__(
        self, _settings: MethodSettings, *, tokens: int = 2048, counter: TokenCounter = COUNTER
    ) -> None:
        """Set the limit."""
        self._tokens = tokens
        self._counter = counter

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages without the oldest tokens of the history."""
        chat = read(messages, self._counter)
        history = messages[len(chat.preamble) :]
        if tokens_of(history, self._counter) <= self._tokens:
            return Shortened(messages=messages, detail=f"{self._tokens:,} tokens hold everything")
        kept: list[Message] = []
        room = self._tokens
        for message in reversed(history):
            tokens = tokens_of([message], self._counter)
            if tokens <= room:
                kept.append(message)
                room -= tokens
                continue
            tail = self._tail(text_of(message), room - (tokens - self._count(message)))
            # A call without its arguments would be refused; a result without its call, too.
            if tail and not chat.calls:
                kept.append(with_text(message, tail))
            break
        kept.reverse()
        while kept and kept[0].get("role") == "tool":
            kept.pop(0)
        return Shortened(messages=[*chat.preamble, *kept])

    def _count(self, message: Message) -> int:
        return self._counter.count(text_of(message))

    def _tail(self, text: str, tokens: int) -> str:
        """Return the longest end of a text within a number of tokens, by bisection."""
        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            if self._counter.count(text[len(text) - middle :]) <= tokens:
                low = middle
            else:
                high = middle - 1
        return text[len(text) - low :]

"""Headroom's `compress()`: tool results shortened according to their content."""

from dataclasses import dataclass, field
from typing import Any

from agora.core.tokens import TokenCounter
from agora_lab.chats import COUNTER, read
from agora_lab.methods.base import Messages, Shortened
from agora_lab.methods.isolated import Isolated, Peer
from agora_lab.methods.tool_form import with_calls, without_calls

PEER = Peer("headroom", ("headroom-ai==0.42.0",))


@dataclass(slots=True)
class Headroom:
    """Runs the released function on the steps written as tool calls.

    It handles plain text with its own model, downloaded on first use
    (`kompress-v2-base`). Without it, only its rules for JSON, code and logs run, and
    the detail says what was done. With a `keep_ratio`, its documented `target_ratio`
    is set, and its smallest message to one token.
    """

    keep_ratio: float | None = None
    model: str = "gpt-4o"
    counter: TokenCounter = COUNTER
    _peer: Isolated = field(init=False)

    def __post_init__(self) -> None:
        self._peer = Isolated(PEER, {"model": self.model})

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with compressed contents."""
        if not messages:
            return Shortened(messages=messages, detail="there are no messages")
        chat = read(messages, self.counter)
        options: dict[str, Any] = {}
        if self.keep_ratio is not None:
            share = chat.room(self.keep_ratio) / chat.tokens
            options = {"target_ratio": share, "min_tokens_to_compress": 1}
        calls = with_calls(chat)
        answer = self._peer.ask({"messages": calls, "options": options})
        shortened = without_calls(chat, answer["contents"], calls)
        detail = ""
        if shortened == list(messages):
            lacks = "" if answer["has_text_model"] else " (its model for plain text is not there)"
            detail = f"changed nothing{lacks}: {', '.join(answer['did']) or 'nothing applied'}"
        return Shortened(messages=shortened, detail=detail)

    def close(self) -> None:
        """End the peer's process."""
        self._peer.close()

"""Headroom's `compress()`: tool results shortened according to their content."""

from typing import Any

from agora_lab.chats import read
from agora_lab.methods.base import Messages, MethodSettings, Shortened
from agora_lab.methods.isolated import Isolated, Peer
from agora_lab.methods.tool_form import with_calls, without_calls

PEER = Peer("headroom", ("headroom-ai==0.42.0",))


class Headroom:
    """Runs the released function, on a text agent's steps written as tool calls.

    It shortens plain text with a model of its own, downloaded on first use (`kompress-v2-base`).
    Without it, only its rules for JSON, code and logs run, and the detail says so. `matched` sets
    its documented `target_ratio`, and its smallest message to one token.
    """

    def __init__(self, settings: MethodSettings, *, matched: bool = False) -> None:
        """Name the model whose tokenizer it counts with."""
        self._options: dict[str, Any] = {}
        if matched:
            self._options = {"target_ratio": settings.keep_ratio, "min_tokens_to_compress": 1}
        self._peer = Isolated(PEER, {"model": settings.model or "gpt-4o"})

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with compressed contents."""
        if not messages:
            return Shortened(messages=messages, detail="there are no messages")
        chat = read(messages)
        calls = with_calls(chat)
        answer = self._peer.ask({"messages": calls, "options": self._options})
        shortened = without_calls(chat, answer["contents"], calls)
        detail = ""
        if shortened == list(messages):
            lacks = "" if answer["has_text_model"] else " (its model for plain text is absent)"
            detail = f"changed nothing{lacks}: {', '.join(answer['did']) or 'nothing applied'}"
        return Shortened(messages=shortened, detail=detail)

    def close(self) -> None:
        """End the peer's process."""
        self._peer.close()

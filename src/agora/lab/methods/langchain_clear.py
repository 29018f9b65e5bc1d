"""LangChain's `ClearToolUsesEdit`: old tool results replaced by a short text."""

from dataclasses import dataclass, field
from typing import Any

from agora.core.tokens import TokenCounter
from agora.lab.methods.base import Messages, Shortened
from agora.lab.methods.isolated import Isolated, Peer
from agora.lab.methods.observation_mask import fitting
from agora.lab.methods.steps import COUNTER, read
from agora.lab.methods.tool_form import with_calls, without_calls

PEER = Peer("langchain_clear", ("langchain==1.4.7",))
_CLEARED = "[cleared]"


@dataclass(slots=True)
class LangChainClear:
    """Runs the released edit on the steps written as tool calls.

    At its defaults it clears nothing below 100,000 tokens. With a `keep_ratio`
    two of its documented options are set: `trigger` to nothing, and `keep` to
    as many results as have room.
    """

    keep_ratio: float | None = None
    counter: TokenCounter = COUNTER
    _peer: Isolated = field(init=False)

    def __post_init__(self) -> None:
        self._peer = Isolated(PEER)

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with old observations cleared."""
        chat = read(messages, self.counter)
        calls = with_calls(chat)
        # The middleware keeps instructions apart: they are neither counted nor edited.
        first = next((at for at, m in enumerate(calls) if m["role"] != "system"), len(calls))
        options: dict[str, Any] = {}
        if self.keep_ratio is not None:
            options = {"trigger": 0, "keep": fitting(chat, self.keep_ratio, _CLEARED, self.counter)}
        answer = self._peer.ask({"messages": calls[first:], "options": options})
        contents = [m["content"] for m in calls[:first]] + answer["contents"]
        shortened = without_calls(chat, contents, calls)
        detail = ""
        if shortened == list(messages):
            detail = f"cleared nothing: {answer['tokens']} tokens, trigger {answer['trigger']}"
        return Shortened(messages=shortened, detail=detail)

    def close(self) -> None:
        """End the peer's process."""
        self._peer.close()

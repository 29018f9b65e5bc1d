"""LangChain's `ClearToolUsesEdit`: old tool results replaced by a short text."""

from typing import Any

from agora import TokenCounter
from agora_lab.chats import COUNTER, read
from agora_lab.methods.base import Messages, MethodSettings, Shortened
from agora_lab.methods.isolated import Isolated, Peer
from agora_lab.methods.observation_mask import masked_to
from agora_lab.methods.tool_form import with_calls, without_calls

PEER = Peer("langchain_clear", ("langchain==1.4.7",))
_CLEARED = "[cleared]"


class LangChainClear:
    """Runs the released edit, on a text agent's steps written as tool calls.

    With its defaults it clears nothing below 100,000 tokens. `matched` sets two documented
    options: `trigger` to zero, and `keep` to as many results as fit.
    """

    def __init__(
        self,
        settings: MethodSettings,
        *,
        matched: bool = False,
        share: float | None = None,
        counter: TokenCounter = COUNTER,
    ) -> None:
        """Set the budget: with `share`, a share of what lies outside the floor."""
        self._keep_ratio = settings.keep_ratio
        self._matched = matched or share is not None
        self._share = share
        self._counter = counter
        self._peer = Isolated(PEER)

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with old observations cleared."""
        chat = read(messages, self._counter)
        calls = with_calls(chat)
        # The middleware handles instructions separately: they are neither counted nor edited.
        first = next((at for at, m in enumerate(calls) if m["role"] != "system"), len(calls))
        options: dict[str, Any] = {}
        if self._matched:
            masked = masked_to(chat, chat.room(self._keep_ratio, self._share), _CLEARED)
            results = [at for step in chat.steps for at in chat.observations(step)]
            kept = sum(at > max(masked, default=-1) for at in results)
            options = {"trigger": 0, "keep": max(kept, 1)}
        answer = self._peer.ask({"messages": calls[first:], "options": options})
        contents = [m["content"] for m in calls[:first]] + answer["contents"]
        if chat.calls:
            # Nothing but the results of tools may change: other contents come back rewritten.
            contents = [
                new if old["role"] == "tool" else old.get("content")
                for new, old in zip(contents, calls, strict=True)
            ]
            calls = [{**call, "content": call.get("content")} for call in calls]
        shortened = without_calls(chat, contents, calls)
        detail = ""
        if shortened == list(messages):
            detail = f"cleared nothing: {answer['tokens']} tokens, trigger {answer['trigger']}"
        return Shortened(messages=shortened, detail=detail)

    def close(self) -> None:
        """End the peer's process."""
        self._peer.close()

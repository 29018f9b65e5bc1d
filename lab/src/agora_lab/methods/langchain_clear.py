"""LangChain's `ClearToolUsesEdit`: old tool results replaced by a short text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agora.core.request import Observations
from agora.core.tokens import TokenCounter
from agora_lab.chats import COUNTER, read
from agora_lab.methods.base import Messages, Shortened
from agora_lab.methods.in_place import Places, has_calls, kept_results, oldest
from agora_lab.methods.isolated import Isolated, Peer
from agora_lab.methods.observation_mask import fitting
from agora_lab.methods.tool_form import with_calls, without_calls

PEER = Peer("langchain_clear", ("langchain==1.4.7",))
_CLEARED = "[cleared]"


@dataclass(slots=True)
class LangChainClear:
    """Runs the released edit on the steps written as tool calls.

    With its defaults it clears nothing below 100,000 tokens. With a `keep_ratio`, two
    of its documented options are set: `trigger` to zero, and `keep` to as many
    results as fit.
    """

    keep_ratio: float | None = None
    share: float | None = None
    """Instead of `keep_ratio`: the share of the tokens outside the floor to keep."""
    observations: Observations | None = "user"
    counter: TokenCounter = COUNTER
    _peer: Isolated = field(init=False)

    def __post_init__(self) -> None:
        self._peer = Isolated(PEER)

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with old observations cleared."""
        chat = read(messages, self.counter)
        native = has_calls(messages)
        calls = [dict(one) for one in messages] if native else with_calls(chat)
        # The middleware handles instructions separately: they are neither counted nor edited.
        first = next((at for at, m in enumerate(calls) if m["role"] != "system"), len(calls))
        options: dict[str, Any] = {}
        if self.share is not None:
            places = Places.of(messages, observations=self.observations, counter=self.counter)
            kept = kept_results(places, oldest(places, self.share, _CLEARED))
            options = {"trigger": 0, "keep": kept}
        elif self.keep_ratio is not None:
            options = {"trigger": 0, "keep": fitting(chat, self.keep_ratio, _CLEARED, self.counter)}
        answer = self._peer.ask({"messages": calls[first:], "options": options})
        contents = [m["content"] for m in calls[:first]] + answer["contents"]
        shortened = (
            _with_results(messages, contents) if native else without_calls(chat, contents, calls)
        )
        detail = ""
        if shortened == list(messages):
            detail = f"cleared nothing: {answer['tokens']} tokens, trigger {answer['trigger']}"
        return Shortened(messages=shortened, detail=detail)

    def close(self) -> None:
        """End the peer's process."""
        self._peer.close()


def _with_results(messages: Messages, contents: Sequence[Any]) -> list[Mapping[str, Any]]:
    """Return the messages with the peer's contents of tool results: it changes nothing else."""
    return [
        {**message, "content": content} if message.get("role") == "tool" else message
        for message, content in zip(messages, contents, strict=True)
    ]

"""LiteLLM's `compress()`: messages ranked against the last user message, the rest stubbed."""

from agora import TokenCounter
from agora_lab.chats import COUNTER, read, text_of
from agora_lab.methods.base import Messages, MethodSettings, Shortened
from agora_lab.methods.isolated import Isolated, Peer

PEER = Peer("litellm_compress", ("litellm==1.106.2",))


class LiteLLMCompress:
    """Runs the released function on the unchanged chat.

    With its defaults it leaves prompts below 200,000 tokens alone. `matched` sets its documented
    `compression_trigger` and `compression_target` to the budget. Its tool for restoring messages
    is left out: an agent that acts by text has no tools.
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
        self._peer = Isolated(PEER, {"model": settings.model or "gpt-4o"})

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with the less relevant ones stubbed."""
        if not messages:
            return Shortened(messages=messages, detail="there are no messages")
        chat = read(messages, self._counter)
        options = {}
        if self._matched:
            options = {"keep": chat.room(self._keep_ratio, self._share) / chat.tokens}
        # It counts a call's missing text as if it were one, and fails.
        plain = [{**m, "content": m.get("content") or ""} for m in messages]
        if not chat.calls:
            plain = [{"role": m.get("role", "user"), "content": text_of(m)} for m in messages]
        answer = self._peer.ask({"messages": plain, "options": options})
        changed = answer["messages"] != plain
        return Shortened(
            messages=answer["messages"] if changed else messages,
            detail="" if changed else f"changed nothing: {answer['skipped'] or 'all fits'}",
        )

    def close(self) -> None:
        """End the peer's process."""
        self._peer.close()

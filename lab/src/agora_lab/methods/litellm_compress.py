"""LiteLLM's `compress()`: messages ranked against the last user message, the rest stubbed."""

from dataclasses import dataclass, field

from agora.core.request import Observations
from agora.core.tokens import TokenCounter
from agora_lab.chats import COUNTER, read, text_of
from agora_lab.methods.base import Messages, Shortened
from agora_lab.methods.in_place import Places, has_calls
from agora_lab.methods.isolated import Isolated, Peer

PEER = Peer("litellm_compress", ("litellm==1.106.2",))


@dataclass(slots=True)
class LiteLLMCompress:
    """Runs the released function on the unchanged chat.

    With its defaults it leaves prompts below 200,000 tokens alone. With a `keep_ratio`,
    its documented `compression_trigger` and `compression_target` are set to that
    share. Its tool for restoring messages is left out: an agent that acts by text has
    no tools.
    """

    keep_ratio: float | None = None
    share: float | None = None
    """Instead of `keep_ratio`: the share of the tokens outside the floor to keep."""
    observations: Observations | None = "user"
    model: str = "gpt-4o"
    """The model whose tokenizer it counts with."""
    counter: TokenCounter = COUNTER
    _peer: Isolated = field(init=False)

    def __post_init__(self) -> None:
        self._peer = Isolated(PEER, {"model": self.model})

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with the less relevant ones stubbed."""
        if not messages:
            return Shortened(messages=messages, detail="there are no messages")
        options = {}
        if self.share is not None:
            places = Places.of(messages, observations=self.observations, counter=self.counter)
            options = {"keep": places.room(self.share) / places.parsed.trajectory.tokens}
        elif self.keep_ratio is not None:
            chat = read(messages, self.counter)
            options = {"keep": chat.room(self.keep_ratio) / chat.tokens}
        # It counts a call's missing text as if it were one, and fails.
        plain = [{**m, "content": m.get("content") or ""} for m in messages]
        if not has_calls(messages):
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

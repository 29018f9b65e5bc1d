"""LiteLLM's `compress()`: messages ranked against the last user message, the rest stubbed."""

from dataclasses import dataclass, field

from agora.core.tokens import TokenCounter
from agora.lab.methods.base import Messages, Shortened
from agora.lab.methods.isolated import Isolated, Peer
from agora.lab.methods.steps import COUNTER, read, text_of

PEER = Peer("litellm_compress", ("litellm==1.106.2",))


@dataclass(slots=True)
class LiteLLMCompress:
    """Runs the released function on the chat as it is.

    At its defaults it leaves prompts below 200,000 tokens alone. With a
    `keep_ratio` its documented `compression_trigger` and `compression_target`
    are set to that share. The tool it offers to get messages back is left out:
    an agent that acts by text has no tools.
    """

    keep_ratio: float | None = None
    model: str = "gpt-4o"
    """Whose tokens it counts."""
    counter: TokenCounter = COUNTER
    _peer: Isolated = field(init=False)

    def __post_init__(self) -> None:
        self._peer = Isolated(PEER, {"model": self.model})

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with those of little relevance stubbed."""
        if not messages:
            return Shortened(messages=messages, detail="there are no messages")
        options = {}
        if self.keep_ratio is not None:
            chat = read(messages, self.counter)
            options = {"keep": chat.room(self.keep_ratio) / chat.tokens}
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

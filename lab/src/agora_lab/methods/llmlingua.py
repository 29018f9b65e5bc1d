"""LLMLingua-2 and LongLLMLingua: a small model removes tokens from texts."""

from dataclasses import dataclass, field
from pathlib import Path

from agora.core.tokens import TokenCounter
from agora_lab.chats import COUNTER, append, read, text_of, with_text
from agora_lab.methods.base import Messages, Shortened, SkipMethod
from agora_lab.methods.isolated import Isolated, Peer

PEER = Peer("llmlingua", ("llmlingua==0.2.2", "transformers==4.46.3", "torch==2.13.0", "numpy<2.3"))
"""Its code supports only the caches of older transformers releases."""
_SLOW_S = 600.0


@dataclass(slots=True)
class LLMLingua2:
    """Compresses each message before the pending observation with the released package.

    Instructions, task and pending observation are kept whole.
    """

    weights: Path | None = None
    """A folder with `microsoft/llmlingua-2-xlm-roberta-large-meetingbank` or one like it."""
    keep_ratio: float = 0.25
    tiktoken_cache: Path | str | None = None
    """Folder with tiktoken's encodings, for machines that cannot download them."""
    counter: TokenCounter = COUNTER
    _peer: Isolated = field(init=False)

    def __post_init__(self) -> None:
        self._peer = _peer("llmlingua2", self.weights, self.tiktoken_cache)

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with past ones compressed."""
        chat = read(messages, self.counter)
        rate = chat.rate(self.keep_ratio, self.counter)
        if rate >= 1:
            return Shortened(messages=messages, detail="there is nothing that has to go")
        # It cannot read an empty text.
        places = [at for at, message in enumerate(chat.past) if text_of(message).strip()]
        texts = [text_of(chat.past[at]) for at in places]
        past = list(chat.past)
        if texts:
            answer = self._peer.ask({"texts": texts, "rate": rate})
            for at, text in zip(places, answer["texts"], strict=True):
                past[at] = with_text(past[at], text)
        return Shortened(messages=[*chat.preamble, *past, *chat.pending])

    def close(self) -> None:
        """End the peer's process."""
        self._peer.close()


@dataclass(slots=True)
class LongLLMLingua:
    """Compresses the past as one text, with the task and the pending observation as question.

    The result is one text; it follows the task, and the pending observation follows
    it.
    """

    weights: Path | None = None
    """A folder with a causal language model; the package's default is Llama-2-7b. Its
    documentation allows a smaller one; the cell's name must say which."""
    keep_ratio: float = 0.25
    tiktoken_cache: Path | str | None = None
    counter: TokenCounter = COUNTER
    _peer: Isolated = field(init=False)

    def __post_init__(self) -> None:
        self._peer = _peer("longllmlingua", self.weights, self.tiktoken_cache)

    def shorten(self, messages: Messages) -> Shortened:
        """Return the preamble, with the compressed past and the pending observation."""
        chat = read(messages, self.counter)
        rate = chat.rate(self.keep_ratio, self.counter)
        texts = [text for text in map(text_of, chat.past) if text.strip()]
        if rate >= 1 or not texts:
            return Shortened(messages=messages, detail="there is nothing that has to go")
        pending = "\n".join(map(text_of, chat.pending))
        question = f"{chat.task}\n{pending}"
        answer = self._peer.ask({"texts": texts, "rate": rate, "question": question})
        shortened = list(chat.preamble)
        append(shortened, f"{answer['text']}\n\n{pending}".strip())
        return Shortened(messages=shortened)

    def close(self) -> None:
        """End the peer's process."""
        self._peer.close()


def _peer(kind: str, weights: Path | None, tiktoken_cache: Path | str | None) -> Isolated:
    if weights is None or not (weights / "config.json").exists():
        where = "none was named" if weights is None else f"{weights} has no config.json"
        raise SkipMethod(f"{kind} needs its weights in a local folder, but {where}")
    cache = {"TIKTOKEN_CACHE_DIR": str(Path(tiktoken_cache).resolve())} if tiktoken_cache else {}
    options = {"kind": kind, "weights": str(weights.resolve())}
    return Isolated(PEER, options, timeout_s=_SLOW_S, environment=cache)

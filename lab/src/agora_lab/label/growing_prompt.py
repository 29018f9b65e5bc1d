"""Prompts that grow message by message, hashed and counted as they grow."""

import hashlib
import json

from agora.core.tokens import MESSAGE_TOKENS, EstimatedTokens
from agora_lab.label.cases import GAP, Message

COUNTER = EstimatedTokens()


class GrowingPrompt:
    """A prompt that grows message by message, with the hash and token count so far.

    Hashing continues from the shorter prompt, so planning takes time proportional
    to the new text in each prompt, not to its length.
    """

    __slots__ = ("_closed", "_hash", "_role", "_text")

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._closed = 0
        self._role = ""
        self._text = ""

    def copy(self) -> "GrowingPrompt":
        """Return one that grows on its own."""
        other = GrowingPrompt()
        other._hash = self._hash.copy()
        other._closed = self._closed
        other._role, other._text = self._role, self._text
        return other

    def add(self, message: Message) -> None:
        """Add a message; one of the same role as the last joins it."""
        if message["role"] == self._role:
            self._text = f"{self._text}{GAP}{message['content']}"
            return
        if self._role:
            self._hash.update(self._last())
            self._closed += MESSAGE_TOKENS + COUNTER.count(self._text)
        self._role, self._text = message["role"], message["content"]

    @property
    def tokens(self) -> int:
        """Its size, by our estimate."""
        if not self._role:
            return 0
        return self._closed + MESSAGE_TOKENS + COUNTER.count(self._text)

    def key(self, tail: bytes) -> str:
        """Return the hash of the prompt and what comes after it."""
        whole = self._hash.copy()
        whole.update(self._last())
        whole.update(tail)
        return whole.hexdigest()

    def _last(self) -> bytes:
        return canonical_bytes({"content": self._text, "role": self._role}) + b"\n"


def canonical_bytes(value: object) -> bytes:
    """Return JSON that is the same bytes for the same value."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode("ascii")


def common_tokens(before: tuple[Message, ...], now: tuple[Message, ...]) -> int:
    """Return the tokens of the messages that two conversations have in common at the start."""
    tokens = 0
    for one, other in zip(before, now, strict=False):
        if one != other:
            break
        tokens += MESSAGE_TOKENS + COUNTER.count(one["content"])
    return tokens

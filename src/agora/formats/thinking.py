"""Reasoning that providers check, in messages of any format: its place, and messages without it.

Claude signs its thinking, in Anthropic's API, on Bedrock, and under the chat format in LiteLLM's
dialect. OpenAI's Responses have reasoning items: those stay in any case, since a call may need its
item, and the provider itself leaves out blocks that an edit has made invalid.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agora.formats.base import Format
from agora.formats.registry import find_format, formats

THINKING_WORDS = (b'"thinking', b'"redacted_thinking"', b'"reasoningContent"')
"""A message whose JSON has none of these words holds no signed thinking."""


@dataclass(frozen=True, slots=True)
class Thoughtless:
    """Messages some of which lost their thinking."""

    messages: list[Any]
    blocks: int
    """How many blocks were taken out."""
    positions: frozenset[int] = frozenset()
    """Which messages lost theirs, those from which the provider leaves it out included."""


def thinking_signed(name: str) -> bool:
    """Return True if messages of a format may hold reasoning that the provider checks."""
    format = find_format(name)
    return format is not None and format.signs_thinking


def is_thinking(block: object) -> bool:
    """Return True if a content block is a model's signed thinking, in any format."""
    return thinks({"content": [block]})


def thinks(message: object) -> bool:
    """Return True if a message holds reasoning that the provider checks."""
    return count_thinking(message) > 0


def count_thinking(message: object) -> int:
    """Return the number of thinking blocks in a message."""
    if not isinstance(message, dict):
        return 0
    return max(format.count_thinking(message) for format in _signing())


def without_thinking(messages: Sequence[Any], *, until: int | None = None) -> Thoughtless:
    """Return messages with the thinking of the first `until` left out; of all of them if None.

    A message from which nothing is taken stays the caller's own object.

    >>> thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    >>> message = {"role": "assistant", "content": [thought, {"type": "text", "text": "Go."}]}
    >>> without_thinking([message]).messages
    [{'role': 'assistant', 'content': [{'type': 'text', 'text': 'Go.'}]}]
    """
    out = list(messages)
    blocks = 0
    positions = []
    for at in range(len(out) if until is None else min(until, len(out))):
        count = count_thinking(out[at])
        if count:
            positions.append(at)
            for format in _signing():
                out[at] = format.without_thinking(out[at])
            blocks += count if out[at] is not messages[at] else 0
    return Thoughtless(out, blocks, frozenset(positions))


def _signing() -> list[Format]:
    return [format for format in formats() if format.signs_thinking]

"""Thinking blocks in messages: where they stand, how they are told apart, messages without them.

Only formats in which a model signs its thinking have any: Anthropic Messages, Bedrock Converse,
and chat completions in LiteLLM's dialect, whose assistant messages carry `thinking_blocks`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agora.adapters.base import Message

REMOVED = "[thinking removed]"
"""Stands where a message held nothing but thinking: it may not be empty."""
_THINKING = frozenset({"thinking", "redacted_thinking"})
_FIELD = "thinking_blocks"


@dataclass(frozen=True, slots=True)
class Thoughtless:
    """Messages some of which lost their thinking, and how many blocks that were."""

    messages: list[Any]
    blocks: int
    positions: frozenset[int] = frozenset()
    """Which messages lost theirs."""


def is_thinking(block: object) -> bool:
    """Tell whether a content block is a model's signed thinking, in either format."""
    return isinstance(block, dict) and (
        block.get("type") in _THINKING or "reasoningContent" in block
    )


def thinks(message: object) -> bool:
    """Tell whether a message holds thinking."""
    if not isinstance(message, dict):
        return False
    content = message.get("content")
    if isinstance(content, list) and any(map(is_thinking, content)):
        return True
    return bool(message.get(_FIELD))


def count_thinking(message: object) -> int:
    """Return how many thinking blocks a message holds."""
    return sum(1 for _ in _thoughts(message)) if isinstance(message, dict) else 0


def without_thinking(messages: Sequence[Any], *, until: int | None = None) -> Thoughtless:
    """Return messages with the thinking of the first `until` left out; of all of them if None.

    A message without thinking stays the caller's own object.

    >>> thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    >>> message = {"role": "assistant", "content": [thought, {"type": "text", "text": "Go."}]}
    >>> without_thinking([message]).messages
    [{'role': 'assistant', 'content': [{'type': 'text', 'text': 'Go.'}]}]
    """
    out = list(messages)
    blocks = 0
    positions = []
    for at in range(len(out) if until is None else min(until, len(out))):
        message = out[at]
        if thinks(message):
            blocks += count_thinking(message)
            out[at] = _bare(message)
            positions.append(at)
    return Thoughtless(out, blocks, frozenset(positions))


def first_call(messages: Sequence[Any]) -> str:
    """Return the id of the first call that was answered: it tells a conversation from others.

    Empty where nothing was called yet.
    """
    for message in messages:
        if not isinstance(message, dict):
            continue
        if message.get("tool_call_id"):
            return str(message["tool_call_id"])
        for block in _blocks(message.get("content")):
            if isinstance(block, dict):
                result = block.get("toolResult")
                inner = result.get("toolUseId") if isinstance(result, dict) else None
                found = block.get("tool_use_id") or inner
                if found:
                    return str(found)
    return ""


def signatures(messages: Sequence[Any]) -> Iterator[tuple[int, str]]:
    """Yield what tells each thinking block from all others, newest first, with its message."""
    for at in range(len(messages) - 1, -1, -1):
        if thinks(messages[at]):
            for block in reversed(list(_thoughts(messages[at]))):
                found = _signature(block)
                if found:
                    yield at, found


def _thoughts(message: Message) -> Iterator[Any]:
    yield from (block for block in _blocks(message.get("content")) if is_thinking(block))
    yield from _blocks(message.get(_FIELD))


def _blocks(content: object) -> list[Any]:
    return content if isinstance(content, list) else []


def _bare(message: Message) -> Message:
    """Return the message without its thinking; where nothing else was in it, it says so."""
    # Emptied, not removed: a message keeps its fields, so that its bytes can be kept apart.
    bare = {**message, _FIELD: []} if _FIELD in message else dict(message)
    content = bare.get("content")
    if _FIELD in message and not content and not message.get("tool_calls"):
        bare["content"] = REMOVED
    if isinstance(content, list) and any(map(is_thinking, content)):
        left = [block for block in content if not is_thinking(block)]
        if all(isinstance(block, dict) and "cachePoint" in block for block in left):
            note = {"text": REMOVED}
            signed = any("reasoningContent" in block for block in content)
            left = [note if signed else {"type": "text", **note}, *left]
        bare["content"] = left
    return bare


def _signature(block: Any) -> str:
    if not isinstance(block, dict):
        return ""
    reasoning = block.get("reasoningContent")
    if isinstance(reasoning, dict):
        text = reasoning.get("reasoningText")
        block = text if isinstance(text, dict) else {"data": reasoning.get("redactedContent")}
    return str(block.get("signature") or block.get("data") or "")

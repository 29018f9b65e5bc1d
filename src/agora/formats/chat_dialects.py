"""Reasoning and signatures in dialects of OpenAI's chat format.

DeepSeek and Kimi send `reasoning_content`, vLLM and routers `reasoning`, OpenRouter
`reasoning_details`, Gemini a signature on each call, LiteLLM the signed `thinking_blocks` of
Claude. Each wants its own fields back.
"""

from collections.abc import Iterator
from typing import Any

from agora.core.tokens import TokenCounter
from agora.formats.anthropic import REMOVED, is_thinking
from agora.formats.base import (
    Message,
    Rule,
    RuleViolation,
    as_list,
    as_object,
    sealed_tokens,
    texts_of,
)

_REASONING = ("reasoning_content", "reasoning")
_DETAIL_FIELDS = ("text", "summary", "data", "signature")
_SIGNED = "thinking_blocks"
_HEAD_CHARACTERS = 64
"""With its length, so many characters of an answer identify it."""
Key = tuple[object, ...]

O7 = Rule(
    "O7",
    "messages[{n}]: an assistant message that is sent back keeps the reasoning and the signatures"
    " it came with",
    "DeepSeek: missing `reasoning_content`; Gemini: missing thought_signature",
)


def read_reasoning(message: Message, counter: TokenCounter) -> tuple[str, int]:
    """Return the reasoning of a message as text, and the tokens of all of it."""
    thought = message.get("reasoning_content") or message.get("reasoning") or ""
    if not isinstance(thought, str):
        thought = ""
    tokens = 0
    details = message.get("reasoning_details")
    if isinstance(details, list):
        thought = thought or texts_of(details)
        tokens = sum(sealed_tokens(as_object(detail).get("data")) for detail in details)
    return thought, tokens + counter.count(thought) if thought else tokens


def count_thinking(message: Message) -> int:
    """Return the number of Claude's signed thinking blocks."""
    blocks = [*as_list(message.get("content")), *as_list(message.get(_SIGNED))]
    return sum(map(is_thinking, blocks))


def without_thinking(message: Message) -> Message:
    """Return a message without Claude's signed thinking."""
    content = message.get("content")
    rest = [block for block in as_list(content) if not is_thinking(block)]
    in_content = isinstance(content, list) and len(rest) < len(content)
    if not message.get(_SIGNED) and not in_content:
        return message
    # Emptied, not removed: a message keeps its fields.
    rest_of_message = {**message, _SIGNED: []} if _SIGNED in message else dict(message)
    if in_content:
        rest_of_message["content"] = rest or [{"type": "text", "text": REMOVED}]
    elif not content and not message.get("tool_calls"):
        rest_of_message["content"] = REMOVED
    return rest_of_message


def check_reasoning(messages: list[Any], before: list[Any]) -> Iterator[RuleViolation]:
    """Yield O7 for every message that was there before with other reasoning."""
    known: dict[Key, set[Key]] = {}
    for message in map(as_object, before):
        if message.get("role") == "assistant":
            known.setdefault(_identity(message), set()).add(_reasoning(message))
    for n, message in enumerate(messages):
        if message.get("role") == "assistant":
            originals = known.get(_identity(message))
            if originals is not None and _reasoning(message) not in originals:
                yield O7.at(n)


def _identity(message: Message) -> Key:
    """Return the identity of an assistant message: its calls, or else its text."""
    ids = [_text(as_object(call).get("id")) for call in as_list(message.get("tool_calls"))]
    if ids:
        return tuple(ids)
    content = message.get("content")
    if isinstance(content, str):
        return len(content), content[:_HEAD_CHARACTERS]
    texts = [_text(as_object(part).get("text")) or "" for part in as_list(content)]
    return len(texts), *((len(text), text[:_HEAD_CHARACTERS]) for text in texts)


def _reasoning(message: Message) -> Key:
    """Return the parts that must not change: reasoning, sealed parts, signatures of calls."""
    fields: list[object] = [_text(message.get(name)) for name in _REASONING]
    for detail in as_list(message.get("reasoning_details")):
        fields += [_text(as_object(detail).get(name)) for name in _DETAIL_FIELDS]
    for call in as_list(message.get("tool_calls")):
        google = as_object(as_object(as_object(call).get("extra_content")).get("google"))
        fields.append(_text(google.get("thought_signature")))
    return tuple(fields)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None

"""How long a provider's cache keeps what is written: as a request asks, as a bill says."""

from collections.abc import Mapping
from typing import TypeGuard

from agora.adapters.rules.shape import as_list, as_object
from agora.core.request import Request

MARKS = ("cache_control", "cachePoint", "prompt_cache_breakpoint")
"""What Anthropic, Bedrock and OpenAI call the mark up to which a prompt is cached."""
_NAMES = frozenset(MARKS)
_NEWEST = 8
WHOLE = ("cache_control", "prompt_cache_options")
"""Fields of a body that mark the end of the whole prompt."""


def asked_ttl(request: Request) -> str | None:
    """Return the time to live that a request asks for, as it spells it; None for the usual one.

    The newest mark counts: new steps are written for that long, and what an edit makes the
    provider write again. That is the body's own mark, then the last one in the messages, in the
    system text and among the tools.

    >>> mark = {"type": "ephemeral", "ttl": "1h"}
    >>> block = {"type": "text", "text": "Hello.", "cache_control": mark}
    >>> asked_ttl(Request(messages=[{"role": "user", "content": [block]}], format="anthropic"))
    '1h'
    """
    body = as_object(request.body)
    for name in WHOLE:
        if isinstance(body.get(name), dict):
            return ttl_of(body[name])
    tools = as_object(request.tools).get("tools", request.tools)
    for items in (request.messages, request.system, tools):
        mark = _newest(items)
        if mark is not None:
            return ttl_of(mark)
    return None


def marks_only_the_end(request: Request) -> bool:
    """Tell whether a request marks places for the cache, and none in its tools or system text.

    Where a provider keeps only what was marked, nothing is found again once an edit has changed
    what stands before the newest message.

    >>> mark = {"cache_control": {"type": "ephemeral"}}
    >>> said = [{"role": "user", "content": [{"type": "text", "text": "Hello.", **mark}]}]
    >>> marks_only_the_end(Request(messages=said, format="anthropic"))
    True
    >>> rules = [{"type": "text", "text": "Be brief.", **mark}]
    >>> marks_only_the_end(Request(messages=said, format="anthropic", system=rules))
    False
    """
    tools = as_object(request.tools).get("tools", request.tools)
    if _newest(request.system) is not None or _newest(tools) is not None:
        return False
    messages = as_list(request.messages)
    # Whoever marks anything marks the newest messages; all of them are many to look at.
    newest = _newest(messages[-_NEWEST:])
    begins = as_object(messages[0]) if messages else {}
    if begins.get("role") in ("system", "developer") and _newest([begins]) is not None:
        return False
    body = as_object(request.body)
    return any(isinstance(body.get(name), dict) for name in WHOLE) or newest is not None


def ttl_of(mark: object) -> str | None:
    """Return the time to live of a mark, None if it has none and so the usual one.

    >>> ttl_of({"type": "ephemeral", "ttl": "1h"}), ttl_of({"type": "default"})
    ('1h', None)
    """
    ttl = as_object(mark).get("ttl")
    return ttl if isinstance(ttl, str) else None


def written_1h(usage: Mapping[str, object]) -> int | None:
    """Return the tokens that a call's usage says were written for an hour, None if it does not say.

    Messages says so in `cache_creation`, Converse in `cacheDetails`.

    >>> written_1h({"cache_creation": {"ephemeral_1h_input_tokens": 7}})
    7
    >>> written_1h({"cacheDetails": [{"ttl": "5m", "inputTokens": 3}]})
    0
    """
    hour = as_object(usage.get("cache_creation")).get("ephemeral_1h_input_tokens")
    if _is_count(hour):
        return hour
    details = [as_object(detail) for detail in as_list(usage.get("cacheDetails"))]
    if not details:
        return None
    hours = (detail.get("inputTokens") for detail in details if detail.get("ttl") == "1h")
    return sum(tokens for tokens in hours if _is_count(tokens))


def _is_count(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 1 << 63


def _newest(items: object) -> dict[str, object] | None:
    """Return the last mark of messages, blocks or tools."""
    for item in reversed(as_list(items)):
        if not isinstance(item, dict):
            continue
        # An item of Responses may keep a result's blocks in its output, and a chat completion's
        # tool its mark within.
        found = (
            _mark(item)
            or _newest_block(item.get("content"))
            or _newest_block(item.get("output"))
            or _mark(item.get("function"))
        )
        if found is not None:
            return found
    return None


def _newest_block(blocks: object) -> dict[str, object] | None:
    for block in reversed(as_list(blocks)):
        found = _mark(block)
        if found is None and isinstance(block, dict):
            inner = as_object(block.get("toolResult")) or block
            parts = reversed(as_list(inner.get("content")))
            found = next((mark for part in parts if (mark := _mark(part)) is not None), None)
        if found is not None:
            return found
    return None


def _mark(holder: object) -> dict[str, object] | None:
    if not isinstance(holder, dict) or _NAMES.isdisjoint(holder):
        return None
    marks = (holder.get(name) for name in MARKS)
    return next((mark for mark in marks if isinstance(mark, dict)), None)

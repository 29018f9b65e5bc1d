"""How long a provider's cache keeps a prompt, as the request asks for it."""

from typing import Any

from agora.core.request import Request
from agora.formats.base import as_list, as_object

MARKS = ("cache_control", "cachePoint", "prompt_cache_breakpoint")
"""The fields by which Anthropic, Bedrock and OpenAI mark the end of a cached prefix. Routers take
each other's, so all of them count in every format."""
USUAL = "usual"
"""The time to live of a mark that names none: the provider's own."""
_NAMES = frozenset(MARKS)
_NEWEST = 8
_CONTAINERS = (list, dict)
_INNER = ("content", "output", "toolResult", "function")
"""Fields in which a message, an item, a result or a tool holds parts of its own."""
_DEPTH = 4
"""A message, its block, the result in that, and a part of the result."""
_WHOLE = ("cache_control", "prompt_cache_options")
"""Fields of a body that mark the end of the whole prompt."""


def asked_ttl(request: Request) -> str | None:
    """Return the time to live that a request asks for, as it spells it; None without a mark.

    The newest mark counts: new steps are written for that long, and so is the part that an edit
    changes. The body's own mark comes first, then the last one in the messages, in the system text
    and among the tools.

    >>> mark = {"type": "ephemeral", "ttl": "1h"}
    >>> block = {"type": "text", "text": "Hello.", "cache_control": mark}
    >>> asked_ttl(Request(messages=[{"role": "user", "content": [block]}], format="anthropic"))
    '1h'
    """
    body = as_object(request.body)
    for name in _WHOLE:
        if isinstance(body.get(name), dict):
            return ttl_of(body[name]) or USUAL
    for items in (request.messages, request.system, _tools(request)):
        mark = _newest(items)
        if mark is not None:
            return ttl_of(mark) or USUAL
    return None


def marks_only_the_end(request: Request) -> bool:
    """Return True if a request marks places for the cache, and none in its tools or system text.

    Where a provider keeps only marked prefixes, an edit then loses everything before the newest
    message.

    >>> mark = {"cache_control": {"type": "ephemeral"}}
    >>> hello = [{"role": "user", "content": [{"type": "text", "text": "Hello.", **mark}]}]
    >>> marks_only_the_end(Request(messages=hello, format="anthropic"))
    True
    >>> rules = [{"type": "text", "text": "Be brief.", **mark}]
    >>> marks_only_the_end(Request(messages=hello, format="anthropic", system=rules))
    False
    """
    if _newest(request.system) is not None or _newest(_tools(request)) is not None:
        return False
    messages = as_list(request.messages)
    # Clients with marks mark the newest messages; a search of all messages would be slow.
    newest = _newest(messages[-_NEWEST:])
    opening = as_object(messages[0]) if messages else {}
    if opening.get("role") in ("system", "developer") and _newest([opening]) is not None:
        return False
    body = as_object(request.body)
    return any(isinstance(body.get(name), dict) for name in _WHOLE) or newest is not None


def ttl_of(mark: object) -> str | None:
    """Return the time to live of a mark; None for the usual one.

    >>> ttl_of({"type": "ephemeral", "ttl": "1h"}), ttl_of({"type": "default"})
    ('1h', None)
    """
    ttl = as_object(mark).get("ttl")
    return ttl if isinstance(ttl, str) else None


def without_marks(value: Any) -> Any:
    """Return a message, block or list of them without marks for a cache.

    >>> without_marks([{"text": "Hello."}, {"cachePoint": {"type": "default"}}])
    [{'text': 'Hello.'}]
    """
    if isinstance(value, list):
        return [without_marks(item) for item in value if not _is_cache_point(item)]
    if not isinstance(value, dict):
        return value
    nested = [name for name in ("content", "output") if isinstance(value.get(name), list)]
    if not nested and _NAMES.isdisjoint(value):
        return value
    return {
        name: without_marks(item) if name in nested else item
        for name, item in value.items()
        if name not in _NAMES
    }


def _is_cache_point(item: object) -> bool:
    return isinstance(item, dict) and item.keys() == {"cachePoint"}


def _tools(request: Request) -> object:
    return as_object(request.tools).get("tools", request.tools)


def _newest(value: object, depth: int = _DEPTH) -> dict[str, object] | None:
    """Return the last mark of messages, blocks or tools, or of one of them."""
    if isinstance(value, list):
        for item in reversed(value):
            if isinstance(item, dict) and (mark := _newest(item, depth)):
                return mark
    elif isinstance(value, dict) and depth:
        if not _NAMES.isdisjoint(value):
            for name in MARKS:
                if isinstance(value.get(name), dict):
                    return value[name]  # type: ignore[no-any-return]
        for name in _INNER:
            inner = value.get(name)
            if isinstance(inner, _CONTAINERS) and (mark := _newest(inner, depth - 1)):
                return mark
    return None

"""The time to live that a body asks of the provider's cache, found without decoding the body."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agora.adapters.lifetimes import MARKS, WHOLE, ttl_of

_LONGEST_MARK = 256
"""Bytes that a mark may take; they have about thirty."""
_decoder = json.JSONDecoder()


def ttl_in(body: bytes, spans: Mapping[str, tuple[int, int]], places: Sequence[str]) -> str | None:
    """Return the time to live that a body asks for, None for the usual one.

    `spans` says where its fields stand, `places` in which of them marks are, the later in the
    prompt first. The same mark counts as in `agora.adapters.lifetimes.asked_ttl`. Within a JSON
    string a quotation mark is escaped, so that what somebody says about a mark is never taken for
    one.

    >>> body = b'{"input":[{"cache_control":{"type":"ephemeral","ttl":"1h"}}]}'
    >>> ttl_in(body, {"input": (9, 60)}, ["input"])
    '1h'
    """
    for name in WHOLE:
        begin, end = spans.get(name, (0, 0))
        if body[begin:end].startswith(b"{"):
            return ttl_of(_decoded(body[begin:end]))
    for name in places:
        begin, end = spans.get(name, (0, 0))
        newest = max(_last(body, mark, begin, end) for mark in MARKS)
        if newest >= 0:
            return ttl_of(_decoded(body[newest : min(end, newest + _LONGEST_MARK)]))
    return None


def _last(body: bytes, mark: str, begin: int, end: int) -> int:
    """Return where the object of the last such mark begins, -1 if there is none."""
    key = b'"%b"' % mark.encode()
    at = body.rfind(key, begin, end)
    while at >= 0:
        after = body[at + len(key) : min(end, at + len(key) + _LONGEST_MARK)]
        value = after.lstrip(b" \t\r\n").removeprefix(b":").lstrip(b" \t\r\n")
        if value.startswith(b"{") and b":" in after[: len(after) - len(value)]:
            return at + len(key) + len(after) - len(value)
        at = body.rfind(key, begin, at)
    return -1


def _decoded(text: bytes) -> Any:
    try:
        return _decoder.raw_decode(text.decode("utf-8", "replace"))[0]
    except (ValueError, RecursionError):
        return None

"""The time to live that a body asks of the provider's cache, found without decoding the body."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agora.adapters.lifetimes import MARKS, WHOLE, ttl_of

_LONGEST_MARK = 256
"""Bytes that a mark may take; they have about thirty."""
_decoder = json.JSONDecoder()


class NewestMark(NamedTuple):
    """The last mark in a list of messages."""

    there: bool = False
    """Whether there is one."""
    ttl: str | None = None
    """The time to live that it asks for, None for the usual one."""


class Known(NamedTuple):
    """What is known of the messages of a body without a look at them."""

    end: int
    """Up to where in the body."""
    newest: NewestMark | None
    """The last mark up to there; None where it has to be looked for."""


NOTHING_KNOWN = Known(0, None)


def newest_mark(body: bytes, begin: int, end: int, known: Known = NOTHING_KNOWN) -> NewestMark:
    """Return the last mark between two places, by a look at what is not known.

    >>> newest_mark(b'[{"cache_control":{"ttl":"1h"}}, "new"]', 0, 39, Known(31, None))
    NewestMark(there=True, ttl='1h')
    """
    middle = max(begin, known.end)
    at = max(_last(body, mark, middle, end) for mark in MARKS)
    if at < 0 and known.newest is not None:
        return known.newest
    if at < 0 and begin < middle:
        at = max(_last(body, mark, begin, middle) for mark in MARKS)
    if at < 0:
        return NewestMark()
    return NewestMark(there=True, ttl=ttl_of(_decoded(body[at : min(end, at + _LONGEST_MARK)])))


def ttl_in(
    body: bytes,
    spans: Mapping[str, tuple[int, int]],
    places: Sequence[str],
    newest: NewestMark | None = None,
) -> str | None:
    """Return the time to live that a body asks for, None for the usual one.

    `spans` says where its fields stand, `places` in which of them marks are, the later in the
    prompt first; `newest` is the last mark behind them, where somebody has looked for it. The same
    mark counts as in `agora.adapters.lifetimes.asked_ttl`. Within a JSON string a quotation mark is
    escaped, so that what somebody says about a mark is never taken for one.

    >>> body = b'{"input":[{"cache_control":{"type":"ephemeral","ttl":"1h"}}]}'
    >>> ttl_in(body, {"input": (9, 60)}, ["input"])
    '1h'
    """
    for name in WHOLE:
        begin, end = spans.get(name, (0, 0))
        if body[begin:end].startswith(b"{"):
            return ttl_of(_decoded(body[begin:end]))
    if newest is not None and newest.there:
        return newest.ttl
    marks = (newest_mark(body, *spans.get(name, (0, 0))) for name in places)
    return next((mark.ttl for mark in marks if mark.there), None)


def _last(body: bytes, mark: str, begin: int, end: int) -> int:
    """Return where the object of the last such mark begins, -1 if there is none."""
    key = b'"%b"' % mark.encode()
    # Most have none, and to find that out takes a third of the time from the front.
    at = body.rfind(key, begin, end) if body.find(key, begin, end) >= 0 else -1
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

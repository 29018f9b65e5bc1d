"""Thinking bound to the prefix: taken out where the prompt before it has changed since.

An edit takes out all thinking that is older than itself. Later thinking follows the edited prompt
and stays valid for as long as that prompt is repeated. A session knows how the previous call was
sent. Without a session, all thinking is taken out that an edit may have preceded.
"""

import logging
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from agora.core.compression import NO_THINKING, Compression, FallbackLevel, Reason, Thinking
from agora.core.request import Request
from agora.formats import Rendered
from agora.formats.thinking import count_thinking, thinking_signed, without_thinking

_log = logging.getLogger(__name__)


def binds(request: Request) -> bool:
    """Return True if a request may hold thinking that its model binds to the prefix."""
    return request.is_bound and thinking_signed(request.format)


class Removed(NamedTuple):
    """Messages without the thinking that is older than their edit."""

    rendered: Rendered
    tokens: int = 0
    """The thinking removed from the messages that stay."""
    thinking: Thinking = NO_THINKING
    """All thinking that is no longer sent, including that of elided steps."""


def remove_older(rendered: Rendered, request: Request, sizes: Sequence[int]) -> Removed:
    """Return the messages without the thinking that is older than the edit, and how much it was."""
    if not request.edited_at:
        return Removed(rendered)
    until = bisect_left(rendered.positions, request.edited_at)
    bare = without_thinking(rendered.messages, until=until)
    tokens = sum(sizes[rendered.positions[at]] for at in bare.positions)
    older = request.messages[: request.edited_at]
    lost = Thinking(sum(map(count_thinking, older)), sum(sizes[: request.edited_at]))
    return Removed(replace(rendered, messages=bare.messages), tokens, lost)


def remove_until(compression: Compression, until: int, sizes: Sequence[int] = ()) -> Compression:
    """Return the compression with the thinking of the caller's first `until` messages taken out."""
    positions = compression.positions or range(len(compression.messages))
    bare = without_thinking(compression.messages, until=bisect_left(positions, until))
    if not bare.blocks:
        return compression
    tokens = sum(sizes[positions[at]] for at in bare.positions) if sizes else 0
    thinking = compression.thinking
    without = replace(
        compression,
        messages=bare.messages,
        tokens_after=compression.tokens_after - tokens,
        positions=tuple(positions),
        thinking=Thinking(thinking.blocks + bare.blocks, thinking.tokens + tokens),
    )
    if compression.changed:
        return without
    why = (
        f"{compression.reason}: {compression.detail}" if compression.detail else compression.reason
    )
    return replace(
        without,
        reason=Reason.THINKING_REMOVED,
        fallback_level=FallbackLevel.PARTIAL,
        detail=str(why),
    )


def fail_open(request: Request, untouched: Compression) -> Compression:
    """Return the caller's own messages, without thinking where that could no longer hold."""
    try:
        if not binds(request):
            return untouched
        return remove_until(untouched, len(request.messages))
    except Exception as error:
        _log.warning("thinking could not be taken out: %s", type(error).__name__)
        return untouched

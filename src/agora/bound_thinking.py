"""Thinking bound to the prefix: taken out where what stands before it has changed since.

An edit takes out all thinking that is older than itself; what is thought afterwards stands behind
the edited prompt and holds. Which is older follows from the schedule, so every process takes out
the same. What the function of the messages cannot know, how the last call was really sent, is
remembered by the process (`agora.sent_thinking`).
"""

import logging
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from agora.core.compression import NO_THINKING, Compression, FallbackLevel, Reason, Thinking
from agora.core.request import Request
from agora.core.schedule import Edit
from agora.formats import Parsed, Rendered
from agora.formats.thinking import (
    count_thinking,
    first_call,
    signatures,
    thinking_signed,
    without_thinking,
)
from agora.sent_thinking import SentThinking, Unknown, mark

_log = logging.getLogger(__name__)
_sent = SentThinking()
"""How the last call of each conversation was sent by this process, on models that bind thinking."""


def edited_at(request: Request, parsed: Parsed, edit: Edit) -> int:
    """Return how many messages there were when what is sent now was last changed; 0 if never.

    Thinking in those is older than the change. Only a model that binds thinking cares.
    """
    if not request.is_bound or not thinking_signed(request.format):
        return 0
    if edit.sees_newest:
        return len(request.messages) if edit.epoch else 0
    call = edit.history[-1].call if edit.history else edit.epoch
    if not call:
        return 0
    return 1 + max(at for at, owner in enumerate(parsed.step_of_message) if abs(owner) == call)


def may_follow_an_edit(edit: Edit, k_recent: int) -> bool:
    """Tell whether an earlier call may have been edited, though this one is not."""
    if edit.history is None:
        return edit.epoch > max(1, k_recent)
    return any(change.epoch for change in edit.history[:-1])


class Removed(NamedTuple):
    """Messages without the thinking that is older than their edit."""

    rendered: Rendered
    tokens: int = 0
    """What that took off the messages that stay."""
    thinking: Thinking = NO_THINKING
    """All that is no longer sent, that of elided steps included."""


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
    found = replace(
        compression,
        messages=bare.messages,
        tokens_after=compression.tokens_after - tokens,
        positions=tuple(positions),
        thinking=Thinking(thinking.blocks + bare.blocks, thinking.tokens + tokens),
    )
    if compression.changed:
        return found
    why = (
        f"{compression.reason}: {compression.detail}" if compression.detail else compression.reason
    )
    return replace(
        found, reason=Reason.THINKING_REMOVED, fallback_level=FallbackLevel.PARTIAL, detail=str(why)
    )


def remove_unheld(
    request: Request, compression: Compression, *, unsure: bool = False
) -> Compression:
    """Return the compression without thinking that was made under another edit than this one.

    Between calls that are sent by the same function there is none. This process remembers how it
    sent the call before; with `unsure` a conversation it does not remember gives up all thinking.
    """
    if not request.is_bound or not thinking_signed(request.format):
        return compression
    blocks = [(at, mark(found)) for at, found in signatures(request.messages)]
    # Before the first thought, a conversation is known by its first call.
    call = first_call(request.messages)
    begun = mark(call) if call else 0
    unknown: Unknown = "give_up" if unsure else "trust"
    dead = _sent.look(
        (one for _, one in blocks), _key(compression), begun=begun, unknown=unknown
    ).dead
    until = next((at + 1 for at, one in blocks if one == dead), 0) if dead else 0
    return remove_until(compression, until) if until else compression


def fail_open(request: Request, untouched: Compression) -> Compression:
    """Return the caller's own messages, without thinking where that could no longer hold."""
    try:
        return remove_unheld(request, untouched, unsure=True)
    except Exception as error:
        _log.warning("thinking could not be taken out: %s", type(error).__name__)
        return untouched


def refused_thinking(messages: Any, compression: Compression) -> None:
    """Note that a provider refused the thinking in what was sent for these messages.

    From then on this process sends the conversation without the thinking it had until now.
    """
    _sent.refused((mark(found) for _, found in signatures(messages)), _key(compression))


def _key(compression: Compression) -> tuple[int, int] | None:
    """Return what tells an edit from others of the same conversation; None if there is none."""
    return (compression.epoch, int(compression.fallback_level)) if compression.changed else None

"""A body read in full: plain data in, plain data out, so that another process can do it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from agora.compressor import Compressor
from agora.core.compression import Compression, Reason, Rung
from agora.core.prices import PriceSheet
from agora.core.trajectory import Step
from agora.gateway.body import Kept, Span, decode, elements, nested, rewrite, splice
from agora.gateway.editing.conversation import ConversationState, Seen
from agora.gateway.editing.fields import Read, read_prompt
from agora.gateway.editing.growth import Whole, seen_in
from agora.gateway.editing.hindsight import Hindsight
from agora.gateway.editing.job import TOO_DEEP, UNREAD, Edited
from agora.gateway.editing.outcomes import edited_body, own_body, unchanged
from agora.gateway.editing.recall import answered, offered, passes_recall, put_tools
from agora.gateway.editing.settings import EditorSettings
from agora.gateway.routing.routes import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A body to be read in full, and what is known of its conversation."""

    body: bytes
    route: Route
    read: Read
    sheet: PriceSheet
    agent: str = ""
    edited_before: bool | None = None
    """Whether it went on edited before; None if no call of it is known."""
    refused: bool = False
    """Whether it is not to be edited, to its end."""
    admits: bool = True
    """Whether there is room for another conversation that is edited."""
    looked: int | None = None
    """How many steps were looked at for what they say about its last edit."""
    epoch: int = 0
    """The epoch of that edit."""
    secret: bytes = b""
    """What hashes are keyed by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worked:
    """What became of a task."""

    edited: Edited
    seen: Seen | None = None
    """What is to be remembered of it."""
    refused: bool = False
    new: tuple[Step, ...] = ()
    """The steps that came since the last look at what they say about the last edit."""
    hindsight: Hindsight | None = None
    """What is to be looked for from now on, where there is a new edit."""
    seconds: float = 0.0


def worked_out(task: Task, settings: EditorSettings, compressor: Compressor) -> Worked:
    """Return what becomes of a body, and what is to be remembered of it.

    Raises:
        Unreadable: a value of it is not JSON.
    """
    body, read, route, began = task.body, task.read, task.route, time.monotonic()
    span = read.span
    slices = elements(body, span)
    messages = decode(memoryview(body)[span[0] : span[1]])
    if nested(messages, settings.depth - 1):
        return Worked(edited=own_body(body, TOO_DEEP, model=read.model))
    if slices is None or len(slices) != len(messages) or not messages:
        detail = "the messages are not found"
        return Worked(edited=own_body(body, UNREAD, model=read.model, detail=detail))
    request = read_prompt(body, read, route, messages)
    tools: Any = request.tools
    recalls = settings.recall and passes_recall(task.agent, settings.recall_agents)
    if recalls:
        tools = offered(request.tools, route.format)
    compression = compressor.compress(
        messages,
        model=read.model,
        format=route.format,
        observations=settings.observations,
        system=request.system,
        tools=tools,
        thinking=request.thinking,
    )
    conversation = ConversationState(ttl=read.ttl)
    if settings.remembers:
        conversation.refused = task.refused or _is_refused(task, compression)
        if conversation.refused and compression.changed:
            reason = Reason.NOT_WORTH_IT_YET
            compression = replace(compression, rung=Rung.UNTOUCHED, reason=reason)
    kept = _kept(body, slices, messages, compression, route.format if recalls else None)
    if kept is None:
        detail = "an edited message is not sliced"
        return Worked(edited=own_body(body, UNREAD, model=read.model, detail=detail))
    offers = tools is not request.tools
    if not offers and not compression.changed and all(keep.text is None for keep in kept):
        edited = unchanged(body, compression, read, conversation)
    else:
        whole = _spliced(body, slices, kept)
        if offers:
            whole = put_tools(whole, tools)
        edited = edited_body(compression, read, whole, conversation)
    if not settings.remembers:
        return Worked(edited=edited, seconds=time.monotonic() - began)
    conversation.hindsight = _to_look_for(task, compression, names=settings.shadow)
    found = Whole(read, body, slices, messages, compression, kept)
    steps = () if compression.trajectory is None else compression.trajectory.steps
    return Worked(
        edited=edited,
        seen=seen_in(found, conversation, compressor),
        refused=conversation.refused,
        new=() if task.looked is None else steps[task.looked :],
        hindsight=conversation.hindsight,
        seconds=time.monotonic() - began,
    )


def _is_refused(task: Task, compression: Compression) -> bool:
    """Tell whether there is no room for a conversation, at its first edit: then for good."""
    if not compression.changed or task.admits:
        return False
    if task.edited_before is not None:
        return not task.edited_before
    # One that is not known here may have been edited before, by another process.
    trajectory = compression.trajectory
    return trajectory is not None and compression.epoch == len(trajectory.steps)


def _to_look_for(task: Task, compression: Compression, *, names: bool) -> Hindsight | None:
    """Return what a new edit takes away."""
    if compression.reason is Reason.SHORTENED_AT_ARRIVAL:
        return None
    if not compression.changed or (task.looked is not None and task.epoch == compression.epoch):
        return None
    return Hindsight(compression, names=names, secret=task.secret)


def _kept(
    body: bytes,
    slices: Sequence[Span],
    messages: Sequence[Any],
    compression: Compression,
    recall_format: str | None,
) -> list[Kept] | None:
    """Return the messages to send; those of a format with recall have its answers in them."""
    new: Sequence[Any] = messages
    positions: Sequence[int] = range(len(messages))
    if compression.changed:
        new, positions = compression.messages, compression.positions
    if recall_format is not None and compression.trajectory is not None:
        new = answered(new, recall_format, compression.trajectory)
    kept: list[Kept] = []
    for message, position in zip(new, positions, strict=True):
        old = messages[position]
        if message is old:
            kept.append(Kept(position))
            continue
        text = rewrite(body, slices[position], old, message)
        if text is None:
            return None
        kept.append(Kept(position, text))
    return kept


def _spliced(body: bytes, slices: Sequence[Span], kept: Sequence[Kept]) -> bytes:
    pieces = [body[: slices[0][0]], *splice(body, slices, kept), body[slices[-1][1] :]]
    return b"".join(pieces)

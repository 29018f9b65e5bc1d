"""How a conversation grows: what is remembered of its next call, from that of the one before."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from agora.adapters import Format, broken_rules, format_named, parse
from agora.adapters.annotations import TOOL_LIST
from agora.adapters.thoughts import thinks
from agora.compressor import Compressor
from agora.core.compression import Compression
from agora.core.request import Request
from agora.core.schedule import Sizes
from agora.core.trajectory import Step, Trajectory
from agora.gateway.body import Kept, Span, Unreadable, decode, elements, nested
from agora.gateway.editing.conversation import (
    OPENING_BYTES,
    ConversationState,
    Cut,
    Found,
    Key,
    Place,
    Seen,
    digest,
    marked,
)
from agora.gateway.editing.fields import Read

_MAX_MARKS = 64
_MOVING_STEPS = 3
"""Clients move their cache breakpoints along the last two or three user messages. Before that many
steps from the end nothing changes any more."""
_BREAKPOINT = b'"cache_control"'
_TASK = "-"
"""Said before new messages when they are parsed: on their own they would have no task."""


class Whole(NamedTuple):
    """A body that was read in full, and what became of it."""

    read: Read
    body: bytes
    slices: Sequence[Span]
    """Where each message stands."""
    messages: Sequence[Any]
    compression: Compression
    kept: Sequence[Kept]


def seen_in(whole: Whole, conversation: ConversationState, compressor: Compressor) -> Seen | None:
    """Return what is remembered of a body that was read in full; None if nothing may be."""
    read, body, slices, messages, compression, kept = whole
    key = read.key
    format = _format(key)
    # As the compressor asks it, so that both name the same edits.
    schedule = compressor.schedule_for(None)
    start = slices[0][0]
    cut = last = settled = None
    trajectory = compression.trajectory
    sizes = None if trajectory is None else compressor.sizes(trajectory)
    edit = None if sizes is None else schedule.edit(sizes)
    if edit is not None and edit.history is None:
        return None
    if compression.changed:
        cut = _cut(slices, kept, compression, None if edit is None else edit.room)
    if (
        trajectory is not None
        and sizes is not None
        and edit is not None
        and _closed(trajectory, messages, format)
        and (
            conversation.refused or edit.epoch == (compression.epoch if compression.changed else 0)
        )
    ):
        last = Place(
            end=slices[-1][1] - start,
            sizes=sizes,
            tokens=compression.tokens_before,
            ids=_ids(messages, format),
            thinking=any(map(thinks, messages)),
        )
        tail = 0 if cut is None else cut.tail
        settled = _settled(last, body, tail, edit.epoch, slices, messages, format)
    ends = {slices[-1][1] - start}
    ends.update(place.end for place in (settled,) if place is not None)
    if cut is not None:
        ends.add(cut.tail)
    return Seen(
        key=key,
        conversation=conversation,
        head=read.before,
        start=start,
        before=digest(body, 0, start),
        opening=body[:OPENING_BYTES],
        marks=marked((), ends, body, start),
        tokens=compression.tokens_before,
        newest=0 if last is None else last.sizes.steps[-1] + last.sizes.said[-1],
        mark=read.mark,
        cut=cut,
        # Of one that was refused nothing is read any more.
        last=None if conversation.refused else last,
        settled=None if conversation.refused else settled,
        reading_tools=() if trajectory is None else trajectory.reading_tools,
        changing_tools=() if trajectory is None else trajectory.changing_tools,
    )


def _cut(
    slices: Sequence[Span], kept: Sequence[Kept], compression: Compression, room: int | None
) -> Cut:
    start, end = slices[0][0], slices[-1][1] - slices[0][0]
    found: list[Span | bytes] = []

    def put(begin: int, stop: int) -> None:
        last = found[-1] if found else b""
        if isinstance(last, tuple) and last[1] == begin:
            found[-1] = (last[0], stop)
        else:
            found.append((begin, stop))

    for place, keep in enumerate(kept):
        begin, stop = (at - start for at in slices[keep.position])
        before = slices[keep.position - 1][1] - start if place else begin
        if keep.text is None:
            put(before, stop)
        else:
            put(before, begin)
            found.append(keep.text)
    last = found[-1] if found else b""
    tail = end
    if isinstance(last, tuple) and last[1] == end:
        tail = last[0]
        del found[-1]
    return Cut(
        pieces=tuple(found),
        tail=tail,
        epoch=compression.epoch,
        room=room,
        removed=compression.tokens_before - compression.tokens_after,
        rung=compression.rung,
        thinking=compression.thinking,
        arrived=compression.arrived.tokens,
    )


def grown_from(
    found: Found,
    body: bytes,
    read: Read,
    compressor: Compressor,
    depth: int,
    new: list[Step],
) -> Seen | None:
    """Return what becomes of a body that begins so, its new steps in `new`; None in any doubt."""
    seen, place, start = found
    if place is None:
        return None
    at = start + place.end
    stop = at + len(body[at : read.span[1] - 1].rstrip(b" \t\n\r"))
    if stop == at:
        if place is not seen.last:
            return None
        return _moved(found, body, read, place, seen.settled, seen.newest)
    if compressor.repeats:
        # Whether what is new repeats lines depends on all the results before it.
        return None
    opened = body.index(b",", at) + 1
    try:
        messages = decode(b"[%b]" % body[opened:stop])
    except Unreadable:
        return None
    if nested(messages, depth - 1) or not all(isinstance(m, dict) for m in messages):
        return None
    settled = seen.settled if place is seen.last else place
    middle = _moving(messages, _format(seen.key), body, at, stop)
    if middle is not None:
        slices = elements(b"[%b]" % body[opened:stop], (0, stop - opened + 2))
        assert slices is not None  # noqa: S101 - it was decoded
        cut = opened + slices[middle - 1][1] - 1
        settled = _further(place, messages[:middle], cut - at, seen, compressor, new)
        if settled is None:
            return None
        last = _further(settled, messages[middle:], stop - cut, seen, compressor, new)
    else:
        last = _further(place, messages, stop - at, seen, compressor, new)
    if last is None:
        return None
    edit = compressor.schedule_for(None).edit(last.sizes)
    epoch, room = (seen.cut.epoch, seen.cut.room) if seen.cut else (0, edit.room)
    if edit.history is None or (edit.epoch, edit.room) != (epoch, room):
        return None
    newest = last.sizes.steps[-1] + last.sizes.said[-1]
    return _moved(found, body, read, last, settled, newest)


def _moved(
    found: Found,
    body: bytes,
    read: Read,
    last: Place,
    settled: Place | None,
    newest: int,
) -> Seen:
    seen, place, start = found
    assert place is not None  # noqa: S101 - a body grows from a place
    marks = tuple(mark for mark in seen.marks if mark.end <= place.end)
    ends = {last.end}
    if settled is not None:
        ends.add(settled.end)
    if len(marks) > _MAX_MARKS:
        marks = ()
        ends.update((seen.cut.tail,) if seen.cut else ())
    return Seen(
        key=seen.key,
        conversation=seen.conversation,
        head=read.before,
        start=start,
        before=digest(body, 0, start),
        opening=body[:OPENING_BYTES],
        marks=marked(marks, ends, body, start),
        tokens=last.tokens,
        newest=newest,
        mark=read.mark,
        cut=seen.cut,
        last=last,
        settled=settled,
        reading_tools=seen.reading_tools,
        changing_tools=seen.changing_tools,
    )


def _further(
    place: Place,
    messages: list[Any],
    added: int,
    seen: Seen,
    compressor: Compressor,
    new: list[Step],
) -> Place | None:
    """Return the place behind further messages, whole steps all of them; None otherwise."""
    tail = _tail(messages, seen, compressor, thinking=place.thinking)
    if tail is None or not place.ids.isdisjoint(ids := _ids(messages, _format(seen.key))):
        return None
    new += tail.steps
    return Place(
        end=place.end + added,
        sizes=_together(place.sizes, tail, compressor),
        tokens=place.tokens + tail.tokens - tail.preamble_tokens,
        ids=place.ids.union(ids),
        thinking=place.thinking,
    )


def _moving(messages: Sequence[Any], format: Format, body: bytes, at: int, stop: int) -> int | None:
    """Return before which message the client's breakpoints still move, if they do and there is."""
    if format.name == "responses" or body.find(_BREAKPOINT, at, stop) < 0:
        return None
    acting = [n for n, message in enumerate(messages) if format.acts(message)]
    return acting[-_MOVING_STEPS] if len(acting) > _MOVING_STEPS else None


def _settled(
    last: Place,
    body: bytes,
    tail: int,
    epoch: int,
    slices: Sequence[Span],
    messages: Sequence[Any],
    format: Format,
) -> Place | None:
    """Return the place before the steps in which the client's breakpoints move."""
    sizes = last.sizes
    steps = len(sizes.steps) - _MOVING_STEPS
    acting = [n for n, message in enumerate(messages) if format.acts(message)]
    start = slices[0][0]
    if (
        body.find(_BREAKPOINT, start, start + last.end) < 0
        or len(acting) != len(sizes.steps)
        or steps < max(1, epoch)
    ):
        return None
    first = acting[steps]
    end = slices[first - 1][1] - start
    if end < tail:
        return None
    before = messages[:first]
    return Place(
        end=end,
        sizes=sizes.upto(steps),
        tokens=last.tokens - sum(sizes.steps[steps:]) - sum(sizes.said[steps:]),
        ids=_ids(before, format),
        thinking=any(map(thinks, before)),
    )


def _tail(
    messages: list[Any], seen: Seen, compressor: Compressor, *, thinking: bool
) -> Trajectory | None:
    """Return the new messages as a trajectory of whole steps; None if they are anything else."""
    format = _format(seen.key)
    if not format.acts(messages[0]):
        return None
    if not thinking and any(map(thinks, messages)):
        return None
    if any(message.get("type") == TOOL_LIST for message in messages):
        # What servers say anew of their tools may change what earlier steps are taken for.
        return None
    behind = [format.said(_TASK), *messages]
    model = seen.key[2]
    request = Request(
        messages=behind, format=format.name, model=None if model is None else str(model)
    )
    if broken_rules(request, strict=True):
        return None
    assert compressor.counter is not None  # noqa: S101 - the editor always sets one
    known = replace(request, thinking=thinking or None)
    trajectory = parse(known, compressor.counter).trajectory
    if not trajectory.steps or not _closed(trajectory, behind, format):
        return None
    return replace(trajectory, reading_tools=seen.reading_tools, changing_tools=seen.changing_tools)


def _closed(trajectory: Trajectory, messages: Sequence[Any], format: Format) -> bool:
    """Tell whether all that follows is new steps, whatever it is: every call is answered."""
    return (
        not trajectory.pending_tokens
        and all(step.calls for step in trajectory.steps)
        and bool(trajectory.steps)
        and not format.acts(messages[-1])
    )


def _format(key: Key) -> Format:
    return format_named(str(key[1]))


def _ids(messages: Sequence[Any], format: Format) -> frozenset[str]:
    return frozenset(found for message in messages for found in format.call_ids(message))


def _together(sizes: Sizes, tail: Trajectory, compressor: Compressor) -> Sizes:
    """Return the sizes of a trajectory and the steps that came after it."""
    first = [utterance for utterance in tail.utterances if not utterance.after]
    return sizes.followed_by(
        compressor.sizes(tail),
        said=sum(utterance.tokens for utterance in first),
        asked=sum(utterance.by_user for utterance in first),
    )

"""A conversation that comes back with one step more: what was edited before is not worked out anew.

A selection depends only on the steps up to its epoch, so between two epochs the edited prompt grows
at its end and nowhere else (docs/concepts/bill.md). When a body begins with the very bytes of one
seen before, only what is behind them is read; if the schedule still names the same edit, the new
bytes go behind the edited ones. In any doubt nothing is found, and the whole body is read. What is
remembered may be forgotten at any time: the bytes that go on are the same without it.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agora.adapters import ADAPTERS, Context, validate
from agora.compressor import Compressor
from agora.core.compression import Compression
from agora.core.schedule import RentOrBuy, Sizes
from agora.core.trajectory import Trajectory
from agora.gateway.body import Kept, Span, Unreadable, decode, elements, fields, nested, splice

_MOST_PER_KEY = 256
_MOST_HEADS = 1_000
_HEAD_BYTES = 64
_LOOK_BYTES = 32
"""What is compared first: the end of what was seen has an id in it, its beginning says nothing."""
_MOVING_STEPS = 3
"""Clients move their cache breakpoints along, on the last two or three messages of the user. Behind
so many steps nothing changes any more."""
_BREAKPOINT = b'"cache_control"'
_STUB = {"role": "user", "content": "-"}
"""What new messages are read behind: on their own they would have no task."""
_THINKING = frozenset({"thinking", "redacted_thinking"})

Key = tuple[object, ...]
"""All that an edit depends on beside the messages: tenant, format, and more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place behind a whole step, and what is known of all that stands before it."""

    end: int
    """In bytes from the beginning of the first message."""
    edited_end: int
    """The same place in what goes on instead."""
    sizes: Sizes
    tokens: int
    ids: frozenset[str]
    thinking: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A list of messages, up to the end of its last one, and what became of it."""

    key: Key
    body: bytes
    start: int
    """Where the first message begins."""
    head: dict[str, Span]
    """The fields before the messages."""
    edited: bytes | None
    """What goes on instead; None when nothing was edited."""
    epoch: int
    room: int
    removed: int
    newest: int
    last: Place
    settled: Place | None
    """An earlier place, where the client still changes what is behind it."""

    @property
    def end(self) -> int:
        """Where the last message ends."""
        return self.start + self.last.end

    @property
    def tokens(self) -> int:
        """What all of it costs."""
        return self.last.tokens

    @property
    def weight(self) -> int:
        """About how many bytes it keeps alive."""
        return len(self.body) + len(self.edited or b"") + 128 * len(self.last.sizes.steps) + 1_000


class Found(NamedTuple):
    """Something seen, and up to where a body is the same."""

    seen: Seen
    place: Place
    start: int
    """Where in that body the first message begins."""


class Again:
    """What is remembered of conversations, in so many bytes; the oldest goes first."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._used = 0
        self._seen: OrderedDict[Key, list[Seen]] = OrderedDict()
        self._heads: OrderedDict[Key, Key] = OrderedDict()
        self._lock = threading.Lock()

    def begins(self, tenant: str, format: str, body: bytes) -> Found | None:
        """Return what a body begins with, fields before the messages included; nothing is read."""
        key = self._heads.get((tenant, format, body[:_HEAD_BYTES]))
        if key is None:
            return None
        for seen in reversed(self._known(key)):
            for place in (seen.last, seen.settled):
                if place is not None and _same(seen, 0, seen.start + place.end, body, 0):
                    return Found(seen, place, seen.start)
        return None

    def find(self, key: Key, body: bytes, span: Span) -> Found | None:
        """Return what the messages of a body begin with, whatever stands before them."""
        start = _first(body, span)
        for seen in reversed(self._known(key)):
            for place in (seen.last, seen.settled):
                if place is not None and _same(
                    seen, seen.start, seen.start + place.end, body, start
                ):
                    return Found(seen, place, start)
        return None

    def remember(
        self,
        key: Key,
        body: bytes,
        head: dict[str, Span],
        slices: Sequence[Span],
        compression: Compression,
        kept: Sequence[Kept],
        messages: Sequence[Any],
        compressor: Compressor,
    ) -> None:
        """Keep what became of a body, for the next call of the same conversation."""
        trajectory = compression.trajectory
        schedule = _schedule(compressor)
        if trajectory is None or schedule is None or not _closed(trajectory, messages):
            return
        sizes = Sizes.of(trajectory)
        edit = schedule.edit(sizes)
        if bool(edit.epoch) != compression.changed or edit.epoch != compression.epoch:
            return
        edited = b"".join(splice(body, slices, kept)) if compression.changed else None
        start = slices[0][0]
        last = Place(
            end=slices[-1][1] - start,
            edited_end=len(edited or b""),
            sizes=sizes,
            tokens=compression.tokens_before,
            ids=frozenset(_ids(messages)),
            thinking=any(map(_thinks, messages)),
        )
        seen = Seen(
            key=key,
            body=body,
            start=start,
            head=head,
            edited=edited,
            epoch=edit.epoch,
            room=edit.room,
            removed=compression.tokens_before - compression.tokens_after,
            newest=0,
            last=last,
            settled=_settled(last, body, edited, edit.epoch, slices, messages),
        )
        self._put(seen)

    def grown(
        self,
        found: Found,
        body: bytes,
        spans: dict[str, Span],
        span: Span,
        compressor: Compressor,
        *,
        depth: int,
    ) -> Seen | None:
        """Return what becomes of a body that begins so, if nothing is due; None in any doubt."""
        head = {name: value for name, value in spans.items() if value[1] <= span[0]}
        grown = _grown(found, body, head, span, compressor, depth)
        if grown is not None:
            self._put(grown, instead=found.seen)
        return grown

    def _known(self, key: Key) -> tuple[Seen, ...]:
        with self._lock:
            return tuple(self._seen.get(key, ()))

    def _put(self, seen: Seen, instead: Seen | None = None) -> None:
        if seen.weight > self._most:
            return
        key = seen.key
        with self._lock:
            known = self._seen.setdefault(key, [])
            self._seen.move_to_end(key)
            if instead is not None:
                self._forget(known, instead)
            elif len(known) >= _MOST_PER_KEY:
                self._forget(known, known[0])
            known.append(seen)
            self._used += seen.weight
            while self._used > self._most:
                oldest = next(iter(self._seen))
                self._forget(self._seen[oldest], self._seen[oldest][0])
                if not self._seen[oldest]:
                    del self._seen[oldest]
            head = (key[0], key[1], seen.body[:_HEAD_BYTES])
            self._heads[head] = key
            self._heads.move_to_end(head)
            if len(self._heads) > _MOST_HEADS:
                self._heads.popitem(last=False)

    def _forget(self, known: list[Seen], seen: Seen) -> None:
        for at, other in enumerate(known):
            if other is seen:
                del known[at]
                self._used -= seen.weight
                return


def behind(found: Found, body: bytes, field: str) -> tuple[dict[str, Span], Span] | None:
    """Return the fields of a body, and where its messages stand, by a look at its end only.

    The beginning is that of a body that was read in full; what is left has to
    close the list of messages and the object, and to name no field again.
    """
    seen, place, start = found
    before = b'{"%b":[0' % field.encode()
    at = start + place.end
    rest = fields(before + body[at:])
    if rest is None or not seen.head.keys().isdisjoint(rest):
        return None
    moved = at - len(before)
    spans = dict(seen.head)
    for name, (begin, end) in rest.items():
        spans[name] = (begin + moved, end + moved)
    # The bracket itself stands before the first message, with white space between them.
    opened = body.rindex(b"[", 0, start)
    span = (opened, spans[field][1])
    spans[field] = span
    return spans, span


def _same(seen: Seen, begin: int, end: int, body: bytes, at: int) -> bool:
    stop = at + end - begin
    if body[stop - _LOOK_BYTES : stop] != seen.body[end - _LOOK_BYTES : end]:
        return False
    return body.startswith(memoryview(seen.body)[begin:end], at)


def _grown(
    found: Found,
    body: bytes,
    head: dict[str, Span],
    span: Span,
    compressor: Compressor,
    depth: int,
) -> Seen | None:
    seen, place, start = found
    schedule = _schedule(compressor)
    if schedule is None:
        return None
    at = start + place.end
    stop = at + len(body[at : span[1] - 1].rstrip(b" \t\n\r"))
    if stop == at:
        if place is not seen.last:
            return None
        return _moved(found, body, head, place, seen.settled, seen.newest)
    opened = body.index(b",", at) + 1
    try:
        messages = decode(b"[%b]" % body[opened:stop])
    except Unreadable:
        return None
    if nested(messages, depth - 1) or not all(isinstance(m, dict) for m in messages):
        return None
    settled = seen.settled if place is seen.last else place
    middle = _moving(messages, str(seen.key[1]), body, at, stop)
    if middle is not None:
        slices = elements(b"[%b]" % body[opened:stop], (0, stop - opened + 2))
        assert slices is not None  # noqa: S101 - it was decoded
        cut = opened + slices[middle - 1][1] - 1
        settled = _further(place, messages[:middle], cut - at, seen, compressor)
        if settled is None:
            return None
        last = _further(settled, messages[middle:], stop - cut, seen, compressor)
    else:
        last = _further(place, messages, stop - at, seen, compressor)
    if last is None:
        return None
    edit = schedule.edit(last.sizes)
    if edit.epoch != seen.epoch or (edit.epoch and edit.room != seen.room):
        return None
    newest = last.sizes.steps[-1] + last.sizes.said[-1]
    return _moved(found, body, head, last, settled, newest)


def _moved(
    found: Found,
    body: bytes,
    head: dict[str, Span],
    last: Place,
    settled: Place | None,
    newest: int,
) -> Seen:
    seen, place, start = found
    edited = seen.edited
    if edited is not None and last is not place:
        edited = edited[: place.edited_end] + body[start + place.end : start + last.end]
    return Seen(
        key=seen.key,
        body=body,
        start=start,
        head=head,
        edited=edited,
        epoch=seen.epoch,
        room=seen.room,
        removed=seen.removed,
        newest=newest,
        last=last,
        settled=settled,
    )


def _further(
    place: Place, messages: list[Any], added: int, seen: Seen, compressor: Compressor
) -> Place | None:
    """Return the place behind further messages, whole steps all of them; None otherwise."""
    tail = _tail(messages, str(seen.key[1]), compressor, thinking=place.thinking)
    if tail is None or not place.ids.isdisjoint(ids := _ids(messages)):
        return None
    return Place(
        end=place.end + added,
        edited_end=place.edited_end + added,
        sizes=_together(place.sizes, tail),
        tokens=place.tokens + tail.tokens - tail.preamble_tokens,
        ids=place.ids.union(ids),
        thinking=place.thinking,
    )


def _moving(messages: Sequence[Any], format: str, body: bytes, at: int, stop: int) -> int | None:
    """Return before which message the client's breakpoints still move, if they do and there is."""
    if format == "responses" or body.find(_BREAKPOINT, at, stop) < 0:
        return None
    acting = [n for n, message in enumerate(messages) if _acts(message)]
    return acting[-_MOVING_STEPS] if len(acting) > _MOVING_STEPS else None


def _settled(
    last: Place,
    body: bytes,
    edited: bytes | None,
    epoch: int,
    slices: Sequence[Span],
    messages: Sequence[Any],
) -> Place | None:
    """Return the place before the steps in which the client's breakpoints move."""
    sizes = last.sizes
    steps = len(sizes.steps) - _MOVING_STEPS
    acting = [n for n, message in enumerate(messages) if _acts(message)]
    start = slices[0][0]
    if (
        body.find(_BREAKPOINT, start, start + last.end) < 0
        or len(acting) != len(sizes.steps)
        or steps < max(1, epoch)
    ):
        return None
    first = acting[steps]
    end = slices[first - 1][1] - start
    rest = body[start + end : start + last.end]
    if edited is not None and not edited.endswith(rest):
        return None
    before = messages[:first]
    return Place(
        end=end,
        edited_end=last.edited_end - len(rest),
        sizes=Sizes(
            preamble=sizes.preamble,
            steps=sizes.steps[:steps],
            said=sizes.said[:steps],
            residues=sizes.residues[:steps],
            asked=sizes.asked[:steps],
        ),
        tokens=last.tokens - sum(sizes.steps[steps:]) - sum(sizes.said[steps:]),
        ids=frozenset(_ids(before)),
        thinking=any(map(_thinks, before)),
    )


def _tail(
    messages: list[Any], format: str, compressor: Compressor, *, thinking: bool
) -> Trajectory | None:
    """Return the new messages as a trajectory of whole steps; None if they are anything else."""
    if not _acts(messages[0]):
        return None
    if not thinking and any(map(_thinks, messages)):
        return None
    behind = [_STUB, *messages]
    if validate(behind, format=format, strict=True):
        return None
    assert compressor.counter is not None  # noqa: S101 - the editor always sets one
    context = Context(counter=compressor.counter, thinking=thinking or None)
    trajectory = ADAPTERS[format].parse(behind, context).trajectory
    if not trajectory.steps or not _closed(trajectory, behind):
        return None
    return trajectory


def _closed(trajectory: Trajectory, messages: Sequence[Any]) -> bool:
    """Tell whether all that follows is new steps, whatever it is: every call is answered."""
    return (
        not trajectory.pending_tokens
        and all(step.calls for step in trajectory.steps)
        and bool(trajectory.steps)
        and not _acts(messages[-1])
    )


def _acts(message: Any) -> bool:
    """Tell whether a message is the agent's."""
    if message.get("role") is not None:
        return bool(message["role"] == "assistant")
    kind = str(message.get("type", ""))
    return kind == "reasoning" or kind.endswith("_call")


def _together(sizes: Sizes, tail: Trajectory) -> Sizes:
    """Return the sizes of a trajectory and the steps that came after it."""
    new = Sizes.of(tail)
    said = list(sizes.said)
    asked = list(sizes.asked)
    for utterance in tail.utterances:
        if not utterance.after:
            said[-1] += utterance.tokens
            asked[-1] += utterance.by_user
    return Sizes(
        preamble=sizes.preamble,
        steps=sizes.steps + new.steps,
        said=(*said, *new.said),
        residues=sizes.residues + new.residues,
        asked=(*asked, *new.asked),
    )


def _schedule(compressor: Compressor) -> RentOrBuy | None:
    # As the compressor makes it, so that both name the same edits.
    schedule = compressor.schedule_for(None)
    return schedule if isinstance(schedule, RentOrBuy) else None


def _thinks(message: Any) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") in _THINKING for block in content
    )


def _ids(messages: Sequence[Any]) -> list[str]:
    """Return the ids of the calls in messages of any format."""
    found: list[str] = []
    for message in messages:
        found += [str(call.get("id")) for call in message.get("tool_calls") or ()]
        content = message.get("content")
        if isinstance(content, list):
            found += [str(b["id"]) for b in content if isinstance(b, dict) and "id" in b]
        if "call_id" in message and str(message.get("type", "")).endswith("_call"):
            found.append(str(message["call_id"]))
    return found


def _first(body: bytes, span: Span) -> int:
    at = span[0] + 1
    while body[at] in b" \t\n\r":
        at += 1
    return at

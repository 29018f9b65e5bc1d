"""Conversations that come back with one more step: a remembered edit is not computed again.

A selection depends only on the steps up to its epoch, so between two epochs the edited prompt grows
at its end and nowhere else (docs/concepts/bill.md). When a body begins with the very bytes of one
seen before, only what follows them is read; if the schedule still names the same edit, the new
bytes follow the edited ones. When there is no time to compute an edit that is due, the last edit is
sent with the new bytes behind it, so that each prompt always continues the previous one.

No body is kept. What was seen is known by its digests, and an edit by the slices of the body it is
made of: a few kilobytes for a conversation of a megabyte. In any doubt nothing is found, and the
whole body is read. What is remembered may be forgotten at any time: the bytes are the same without
it.
"""

import threading
import time
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from agora.adapters import broken_rules, parse
from agora.compressor import Compressor
from agora.core.compression import Compression, Rung
from agora.core.memo import Occupancy
from agora.core.request import Request
from agora.core.schedule import Sizes
from agora.core.trajectory import Step, Trajectory
from agora.gateway.body import Kept, Span, Unreadable, decode, elements, fields, nested
from agora.gateway.hindsight import Hindsight

_MOST_PER_KEY = 256
_MOST_HEADS = 4_000
_KEYS_PER_HEAD = 8
_HEAD_BYTES = 64
_LOOK_BYTES = 32
"""Compared first: the end of what was seen has an id in it, its beginning is the same for many."""
_MOST_MARKS = 64
_MOST_UNREAD = 32
_MOVING_STEPS = 3
"""Clients move their cache breakpoints along the last two or three user messages. Before that many
steps from the end nothing changes any more."""
_BREAKPOINT = b'"cache_control"'
_STUB = {"role": "user", "content": "-"}
"""Put before new messages when they are parsed: on their own they would have no task."""
_THINKING = frozenset({"thinking", "redacted_thinking"})
_EDITED_SHARE = 0.75
"""Share of the memory for conversations with an edit: losing one of those costs money, losing
another costs one read."""
_REFUSED_SHARE = 0.05
"""Share for those that were refused: a kilobyte or two each, so that they outlast others."""
_CONVERSATION_BYTES = 64 << 10
"""Reserved for a conversation that is admitted: it will grow."""
_ACTIVE_SECONDS = 600.0
"""A conversation idle for this long may be forgotten for a new one: most caches have forgotten it
too."""

Key = tuple[object, ...]
"""Everything an edit depends on besides the messages: tenant, format, and more."""


class Mark(NamedTuple):
    """The digest of the bytes between the mark before this one and `end`."""

    end: int
    """In bytes from the beginning of the first message."""
    digest: int
    look: bytes
    """The last few of those bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place after a whole step, and what is known about everything before it."""

    end: int
    """In bytes from the beginning of the first message."""
    sizes: Sizes
    tokens: int
    ids: frozenset[str]
    thinking: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """An edit, as the slices of the body that it keeps and the texts that it inserts."""

    pieces: tuple[Span | bytes, ...]
    """Spans are in bytes from the beginning of the first message."""
    tail: int
    """Where the last of them ends in the body: what follows is sent unchanged."""
    epoch: int
    room: int | None
    removed: int
    """In tokens."""
    rung: Rung

    def of(self, body: bytes, start: int) -> bytes:
        """Return a body with this edit, its first message at `start`."""
        view = memoryview(body)
        parts: list[bytes | memoryview] = [view[:start]]
        parts += [
            piece if isinstance(piece, bytes) else view[start + piece[0] : start + piece[1]]
            for piece in self.pieces
        ]
        parts.append(view[start + self.tail :])
        return b"".join(parts)


@dataclass(slots=True, eq=False)
class Talk:
    """One conversation across its calls: how its last call was sent. For one event loop."""

    calls: int = 0
    epoch: int = 0
    """The epoch of the edit that the last call was sent with; 0 if it was sent unchanged."""
    tokens: int = 0
    """The size of that call's whole prompt."""
    when: float = field(default_factory=time.monotonic)
    refused: bool = False
    """There was no room for it at its first edit: it is forwarded unchanged, to its end."""
    unread: tuple[Step, ...] = ()
    """Its newest steps, which no scorer has read yet."""
    prompt: int = 0
    """What the provider counted at its last call; this and the next two in the provider's unit."""
    whole: float = 0.0
    """What it would have counted without any edit."""
    scale: float = 0.0
    """Its tokens for each of ours, in this conversation's texts."""
    hindsight: Hindsight | None = None
    """Its last edit, and what the steps after it say about that."""
    blocks: "array[int]" = field(default_factory=lambda: array("q"))
    """In shadow mode, the digests of the body that would have been sent last."""

    def billed(
        self, prompt: int, tokens: int, new_tokens: int, *, edited: bool, breaks: bool
    ) -> float:
        """Return what a provider that counted `prompt` would have counted for the whole of it.

        A prompt that was forwarded unchanged is counted as it is; one that continues the last has
        grown by the difference. Only if the prefix broke is the total derived from our own count.

        >>> talk = Talk()
        >>> talk.billed(1_000, 900, 0, edited=False, breaks=False)
        1000.0
        >>> round(talk.billed(400, 990, 90, edited=True, breaks=True), 1)
        1100.0
        >>> round(talk.billed(500, 1_080, 90, edited=True, breaks=False), 1)
        1200.0
        """
        if not edited:
            self.whole = float(prompt)
            self.scale = prompt / max(1, tokens)
        elif not self.whole:
            return 0.0
        elif breaks:
            self.whole += new_tokens * self.scale
        else:
            self.whole += max(0, prompt - self.prompt)
        self.prompt = prompt
        return self.whole


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seen:
    """A list of messages, up to the end of its last one, and how it was edited."""

    key: Key
    talk: Talk
    head: dict[str, Span]
    """The fields before the messages."""
    start: int
    """Where the first message began."""
    before: int
    """The digest of all before it."""
    opening: bytes
    """The first bytes of the body."""
    marks: tuple[Mark, ...]
    tokens: int
    newest: int
    cut: Cut | None
    """What is sent instead; None when nothing was edited."""
    last: Place | None
    """The end, if all before it is whole steps; the next steps are counted from there."""
    settled: Place | None
    """An earlier place, where the client still changes what is behind it."""

    @property
    def end(self) -> int:
        """Where the last message ends, from the beginning of the first."""
        return self.marks[-1].end

    @property
    def weight(self) -> int:
        """About how many bytes it keeps alive."""
        texts = sum(len(p) for p in self.cut.pieces if isinstance(p, bytes)) if self.cut else 0
        spans = 150 * len(self.cut.pieces) if self.cut else 0
        steps = len(self.last.sizes.steps) if self.last else 0
        told = self.talk.hindsight.weight if self.talk.hindsight else 0
        told += 8 * len(self.talk.blocks)
        return texts + spans + 400 * steps + 200 * len(self.marks) + told + 2_000


class Found(NamedTuple):
    """Something seen, and up to where a body is the same."""

    seen: Seen
    place: Place | None
    """None when it is the same as far as the edit reaches, and no further for sure."""
    start: int
    """Where in that body the first message begins."""


class Conversations:
    """Remembered conversations, bounded in bytes; the least recently used is forgotten first."""

    def __init__(self, most_bytes: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most_bytes
        self._clock = clock
        self._seen: dict[Key, list[Seen]] = {}
        self._edited = _Order(int(most_bytes * _EDITED_SHARE))
        self._refused = _Order(int(most_bytes * _REFUSED_SHARE))
        self._plain = _Order(most_bytes - self._edited.most - self._refused.most)
        self._heads: OrderedDict[Key, tuple[Key, ...]] = OrderedDict()
        self._lock = threading.Lock()
        self._hits = self._misses = 0

    def occupancy(self) -> Occupancy:
        """Return how full it is, and how often a conversation was found."""
        orders = (self._edited, self._refused, self._plain)
        used, forgotten = sum(o.used for o in orders), sum(o.forgotten for o in orders)
        return Occupancy(used, self._most, self._hits, self._misses, forgotten)

    def begins(self, tenant: str, format: str, body: bytes) -> list[Found]:
        """Return what a body begins with, fields before the messages included, newest first.

        One for each set of other fields: those behind the messages are not read here.
        """
        keys = self._heads.get((tenant, format, body[:_HEAD_BYTES]), ())
        return [found for key in keys if (found := self._newest(key, body)) is not None]

    def find(self, key: Key, body: bytes, span: Span) -> Found | None:
        """Return what the messages of a body begin with, whatever stands before them."""
        found = self._newest(key, body, _first(body, span))
        if found is None:
            self._misses += 1
        return found

    def admits(self) -> bool:
        """Return whether another conversation may be edited without forgetting an active one.

        Decided once, at a conversation's first edit: until then it was forwarded unchanged. One
        that is refused stays unedited to its end.
        """
        if not self._most:
            return True
        with self._lock:
            order = self._edited
            if (len(order) + 1) * max(_CONVERSATION_BYTES, order.largest) <= order.most:
                return True
            oldest = order.oldest()
            return oldest is not None and self._clock() - oldest.talk.when > _ACTIVE_SECONDS

    def remember(
        self,
        key: Key,
        talk: Talk,
        body: bytes,
        head: dict[str, Span],
        slices: Sequence[Span],
        compression: Compression,
        kept: Sequence[Kept],
        messages: Sequence[Any],
        compressor: Compressor,
        *,
        instead: Seen | None = None,
    ) -> None:
        """Keep what became of a body, for the next call of the same conversation."""
        # As the compressor asks it, so that both name the same edits.
        schedule = compressor.schedule_for(None)
        start = slices[0][0]
        cut = last = settled = None
        sizes = None if compression.trajectory is None else Sizes.of(compression.trajectory)
        edit = None if sizes is None else schedule.edit(sizes)
        if edit is not None and edit.history is None:
            return
        if compression.changed:
            cut = _cut(slices, kept, compression, None if edit is None else edit.room)
        trajectory = compression.trajectory
        if (
            trajectory is not None
            and sizes is not None
            and edit is not None
            and _closed(trajectory, messages)
            and (talk.refused or edit.epoch == (compression.epoch if compression.changed else 0))
        ):
            last = Place(
                end=slices[-1][1] - start,
                sizes=sizes,
                tokens=compression.tokens_before,
                ids=frozenset(_ids(messages)),
                thinking=any(map(_thinks, messages)),
            )
            tail = 0 if cut is None else cut.tail
            settled = _settled(last, body, tail, edit.epoch, slices, messages)
        ends = {slices[-1][1] - start}
        ends.update(place.end for place in (settled,) if place is not None)
        if cut is not None:
            ends.add(cut.tail)
        seen = Seen(
            key=key,
            talk=talk,
            head=head,
            start=start,
            before=_digest(body, 0, start),
            opening=body[:_HEAD_BYTES],
            marks=_marked((), ends, body, start),
            tokens=compression.tokens_before,
            newest=0 if last is None else last.sizes.steps[-1] + last.sizes.said[-1],
            cut=cut,
            # Of one that was refused nothing is read any more.
            last=None if talk.refused else last,
            settled=None if talk.refused else settled,
        )
        self._put(seen, instead=instead)

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
        new: list[Step] = []
        grown = _grown(found, body, head, span, compressor, depth, new)
        if grown is not None:
            self._hits += 1
            grown.talk.unread = (*grown.talk.unread, *new)[-_MOST_UNREAD:]
            if grown.talk.hindsight is not None:
                grown.talk.hindsight.look(new)
            self._put(grown, instead=found.seen)
        return grown

    def _newest(self, key: Key, body: bytes, start: int | None = None) -> Found | None:
        """Return the newest that a body is the same as, from `start` or from its first byte."""
        with self._lock:
            known = tuple(self._seen.get(key, ()))
        for seen in reversed(known):
            found = _match(seen, body, start)
            if found is not None:
                with self._lock:
                    self._order(seen).touch(seen)
                return found
        return None

    def _put(self, seen: Seen, instead: Seen | None = None) -> None:
        order = self._order(seen)
        if seen.weight > order.most:
            return
        key = seen.key
        with self._lock:
            if instead is not None:
                self._forget(instead)
            known = self._seen.get(key, [])
            if len(known) >= _MOST_PER_KEY:
                self._forget(known[0])
            self._seen.setdefault(key, []).append(seen)
            order.add(seen)
            while (oldest := order.over()) is not None:
                self._forget(oldest)
            head = (key[0], key[1], seen.opening)
            others = [other for other in self._heads.pop(head, ()) if other != key]
            self._heads[head] = (key, *others[: _KEYS_PER_HEAD - 1])
            if len(self._heads) > _MOST_HEADS:
                self._heads.popitem(last=False)

    def _forget(self, seen: Seen) -> None:
        known = self._seen.get(seen.key, [])
        if seen in known:
            known.remove(seen)
        if not known:
            self._seen.pop(seen.key, None)
        self._order(seen).drop(seen)

    def _order(self, seen: Seen) -> "_Order":
        if seen.talk.refused and seen.last is None:
            return self._refused
        return self._plain if seen.cut is None else self._edited


class _Order:
    """Which of the conversations was used when, and what they weigh together."""

    __slots__ = ("_seen", "forgotten", "largest", "most", "used")

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0
        self.forgotten = 0
        self.largest = 0
        self._seen: OrderedDict[Seen, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def add(self, seen: Seen) -> None:
        weight = self._seen[seen] = seen.weight
        self.used += weight
        self.largest = max(self.largest, weight)

    def touch(self, seen: Seen) -> None:
        if seen in self._seen:
            self._seen.move_to_end(seen)

    def drop(self, seen: Seen) -> None:
        self.used -= self._seen.pop(seen, 0)

    def oldest(self) -> Seen | None:
        return next(iter(self._seen), None)

    def over(self) -> Seen | None:
        """Return which one has to go, if any."""
        if self.used <= self.most:
            return None
        self.forgotten += 1
        return self.oldest()


def behind(found: Found, body: bytes, field: str) -> tuple[dict[str, Span], Span] | None:
    """Return the fields of a body, and where its messages stand, by a look at its end only.

    The beginning is that of a body that was read in full; what is left has to
    close the list of messages and the object, and to name no field again.
    """
    seen, place, start = found
    before = b'{"%b":[0' % field.encode()
    at = start + _known(seen, place)
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


def follows(found: Found, body: bytes, span: Span, *, least: int) -> bool:
    """Return whether a body may be sent with the edit that was found, all new messages unchanged.

    Where it is the same up to a place behind a whole step, it may: the rest is the client's own,
    behind what it stood behind. Where it is the same only as far as the edit reaches, the newest
    messages of the agent must not be among those that were edited: `least` of them have to follow.
    """
    seen, place, start = found
    if seen.cut is None or place is not None:
        return True
    stop = span[1] - 1
    opened = body.find(b",", start + seen.cut.tail, stop) + 1
    try:
        messages = decode(b"[%b]" % body[opened:stop]) if opened else []
    except Unreadable:
        return False
    return sum(isinstance(m, dict) and _acts(m) for m in messages) >= least


def _known(seen: Seen, place: Place | None) -> int:
    """Return up to where a body is the same as what was seen."""
    if place is not None:
        return place.end
    return seen.cut.tail if seen.cut is not None else seen.marks[0].end


def _digest(body: bytes, start: int, end: int) -> int:
    # Keyed by the process, 64 bits, and at two gigabytes a second the cheapest that is to be had.
    # Only bodies of the same tenant are ever compared.
    return hash(memoryview(body)[start:end])


def _marked(
    marks: tuple[Mark, ...], ends: Iterable[int], body: bytes, start: int
) -> tuple[Mark, ...]:
    """Return marks with further ones at these ends."""
    found = list(marks)
    at = found[-1].end if found else 0
    for end in sorted(ends):
        if end > at:
            look = body[max(start + at, start + end - _LOOK_BYTES) : start + end]
            found.append(Mark(end, _digest(body, start + at, start + end), look))
            at = end
    return tuple(found)


def _match(seen: Seen, body: bytes, start: int | None) -> Found | None:
    """Return up to where a body is the same as what was seen, if that is of any use."""
    at = seen.start if start is None else start
    same = 0
    for mark in seen.marks:
        stop = at + mark.end
        if body[stop - len(mark.look) : stop] != mark.look:
            break
        if start is None and not same and _digest(body, 0, at) != seen.before:
            return None
        if _digest(body, at + same, stop) != mark.digest:
            break
        same = mark.end
    for place in (seen.last, seen.settled):
        if place is not None and place.end <= same:
            return Found(seen, place, at)
    if (
        same == seen.end
        or (same and seen.talk.refused)
        or (seen.cut is not None and seen.cut.tail <= same)
    ):
        return Found(seen, None, at)
    return None


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
    )


def _grown(
    found: Found,
    body: bytes,
    head: dict[str, Span],
    span: Span,
    compressor: Compressor,
    depth: int,
    new: list[Step],
) -> Seen | None:
    seen, place, start = found
    if place is None:
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
    assert place is not None  # noqa: S101 - a body grows from a place
    marks = tuple(mark for mark in seen.marks if mark.end <= place.end)
    ends = {last.end}
    if settled is not None:
        ends.add(settled.end)
    if len(marks) > _MOST_MARKS:
        marks = ()
        ends.update((seen.cut.tail,) if seen.cut else ())
    return Seen(
        key=seen.key,
        talk=seen.talk,
        head=head,
        start=start,
        before=_digest(body, 0, start),
        opening=body[:_HEAD_BYTES],
        marks=_marked(marks, ends, body, start),
        tokens=last.tokens,
        newest=newest,
        cut=seen.cut,
        last=last,
        settled=settled,
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
    tail = _tail(messages, str(seen.key[1]), compressor, thinking=place.thinking)
    if tail is None or not place.ids.isdisjoint(ids := _ids(messages)):
        return None
    new += tail.steps
    return Place(
        end=place.end + added,
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
    tail: int,
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
    if end < tail:
        return None
    before = messages[:first]
    return Place(
        end=end,
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
    request = Request(messages=behind, format=format)
    if broken_rules(request, strict=True):
        return None
    assert compressor.counter is not None  # noqa: S101 - the editor always sets one
    known = replace(request, thinking=thinking or None)
    trajectory = parse(known, compressor.counter).trajectory
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

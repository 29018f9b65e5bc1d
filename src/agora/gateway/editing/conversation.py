"""One conversation as it is remembered: by digests of what was seen, and slices of its edit."""

import time
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from agora.adapters import format_named
from agora.core.compression import NO_THINKING, Rung, Thinking
from agora.core.schedule import Sizes
from agora.core.trajectory import Step
from agora.gateway.body import Span, Unreadable, decode, fields
from agora.gateway.editing.hindsight import Hindsight, Looked
from agora.gateway.editing.lifetimes import Known, NewestMark

OPENING_BYTES = 64
_LEAST_PACED_BYTES = 16 << 10
"""A shorter body takes longer than its share of a longer one."""
_LOOK_BYTES = 32
"""Compared first: the end of what was seen has an id in it, its beginning is the same for many."""

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
    thinking: Thinking = NO_THINKING
    """What it takes out of the model's own thinking."""
    arrived: int = 0
    """How many of the removed tokens were left out as soon as they arrived."""
    weight: int = field(init=False, compare=False)
    """About how many bytes it keeps alive; worked out once, since it is asked at every call."""

    def __post_init__(self) -> None:
        texts = sum(len(piece) for piece in self.pieces if isinstance(piece, bytes))
        object.__setattr__(self, "weight", texts + 150 * len(self.pieces))

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
class ConversationState:
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
    ttl: str | None = None
    """The time to live that it asks of the provider's cache, None for the usual one."""
    cached_seconds: float = 0.0
    """How long the provider's cache keeps what a call has sent."""
    blocks: "array[int]" = field(default_factory=lambda: array("q"))
    """In shadow mode, the digests of the body that would have been sent last."""
    pace: float = 0.0
    """How many seconds for each byte it is expected to take to read it in full."""
    lost_blocks: int = 0
    """How many thinking blocks its last call was sent without."""
    arrived: int = 0
    """How many of our tokens its last call lacked because they were left out as they arrived."""

    def took(self, seconds: float, size: int) -> None:
        """Note how long it took to read so many bytes of it in full.

        Others on the machine only ever make that longer, and what is expected to be late is not
        waited for. So a time that is much longer counts as twice the last one.

        >>> conversation = ConversationState()
        >>> for seconds in (0.1, 0.9, 0.1):
        ...     conversation.took(seconds, 100_000)
        ...     print(round(conversation.pace * 100_000, 1))
        0.1
        0.2
        0.1
        """
        pace = seconds / max(size, _LEAST_PACED_BYTES)
        self.pace = min(pace, 2 * self.pace) if self.pace else pace

    def look_back(self) -> Looked:
        """Return what the newest steps say about the last edit, each of them once."""
        return self.hindsight.take() if self.hindsight is not None else Looked()

    def billed(
        self,
        prompt: int,
        tokens: int,
        new_tokens: int,
        *,
        edited: bool,
        breaks: bool,
        arrived: int = 0,
    ) -> float:
        """Return what a provider that counted `prompt` would have counted for the whole of it.

        A prompt that was forwarded unchanged is counted as it is; one that continues the last has
        grown by the difference, and by what was left out of it as it arrived. Only if the prefix
        broke is the total derived from our own count.

        >>> conversation = ConversationState()
        >>> conversation.billed(1_000, 900, 0, edited=False, breaks=False)
        1000.0
        >>> round(conversation.billed(400, 990, 90, edited=True, breaks=True), 1)
        1100.0
        >>> round(conversation.billed(500, 1_080, 90, edited=True, breaks=False), 1)
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
            self.whole += max(0, prompt - self.prompt) + arrived * self.scale
        self.prompt = prompt
        return self.whole


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seen:
    """A list of messages, up to the end of its last one, and how it was edited."""

    key: Key
    conversation: ConversationState
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
    mark: NewestMark | None = None
    """The last mark for the cache in its messages; None where nobody looked for it."""
    reading_tools: tuple[str, ...] = ()
    """What its tools say of themselves, as its trajectory has it."""
    changing_tools: tuple[str, ...] = ()

    @property
    def end(self) -> int:
        """Where the last message ends, from the beginning of the first."""
        return self.marks[-1].end

    @property
    def weight(self) -> int:
        """About how many bytes it keeps alive."""
        cut = self.cut.weight if self.cut else 0
        steps = len(self.last.sizes.steps) if self.last else 0
        told = self.conversation.hindsight.weight if self.conversation.hindsight else 0
        told += 8 * len(self.conversation.blocks)
        return cut + 400 * steps + 200 * len(self.marks) + told + 2_000


class Found(NamedTuple):
    """Something seen, and up to where a body is the same."""

    seen: Seen
    place: Place | None
    """None when it is the same as far as the edit reaches, and no further for sure."""
    start: int
    """Where in that body the first message begins."""

    @property
    def known(self) -> Known:
        """What is known of that body's marks for the cache."""
        end = self.start + same_until(self.seen, self.place)
        whole = self.place is not None and self.place is self.seen.last
        return Known(end, self.seen.mark if whole else None)


def behind(found: Found, body: bytes, field: str) -> tuple[dict[str, Span], Span] | None:
    """Return the fields of a body, and where its messages stand, by a look at its end only.

    The beginning is that of a body that was read in full; what is left has to
    close the list of messages and the object, and to name no field again.
    """
    seen, place, start = found
    before = b'{"%b":[0' % field.encode()
    at = start + same_until(seen, place)
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
    acts = format_named(str(seen.key[1])).acts
    return sum(isinstance(m, dict) and acts(m) for m in messages) >= least


def same_until(seen: Seen, place: Place | None) -> int:
    """Return up to where a body is the same as what was seen."""
    if place is not None:
        return place.end
    return seen.cut.tail if seen.cut is not None else seen.marks[0].end


def digest(body: bytes, start: int, end: int) -> int:
    """Return what a part of a body is known by."""
    # Keyed by the process, 64 bits, and at two gigabytes a second the cheapest that is to be had.
    # Only bodies of the same tenant are ever compared.
    return hash(memoryview(body)[start:end])


def marked(
    marks: tuple[Mark, ...], ends: Iterable[int], body: bytes, start: int
) -> tuple[Mark, ...]:
    """Return marks with further ones at these ends."""
    found = list(marks)
    at = found[-1].end if found else 0
    for end in sorted(ends):
        if end > at:
            look = body[max(start + at, start + end - _LOOK_BYTES) : start + end]
            found.append(Mark(end, digest(body, start + at, start + end), look))
            at = end
    return tuple(found)


def marked_here(seen: Seen, body: bytes) -> Seen:
    """Return what another process has seen in a body, with the digests of this one."""
    return replace(
        seen,
        before=digest(body, 0, seen.start),
        marks=marked((), [mark.end for mark in seen.marks], body, seen.start),
    )


def match(seen: Seen, body: bytes, start: int | None) -> Found | None:
    """Return up to where a body is the same as what was seen, if that is of any use."""
    at = seen.start if start is None else start
    same = 0
    for mark in seen.marks:
        stop = at + mark.end
        if body[stop - len(mark.look) : stop] != mark.look:
            break
        if start is None and not same and digest(body, 0, at) != seen.before:
            return None
        if digest(body, at + same, stop) != mark.digest:
            break
        same = mark.end
    for place in (seen.last, seen.settled):
        if place is not None and place.end <= same:
            return Found(seen, place, at)
    if (
        same == seen.end
        or (same and seen.conversation.refused)
        or (seen.cut is not None and seen.cut.tail <= same)
    ):
        return Found(seen, None, at)
    return None


def first_message(body: bytes, span: Span) -> int:
    """Return where the first message of the list at `span` begins."""
    at = span[0] + 1
    while body[at] in b" \t\n\r":
        at += 1
    return at

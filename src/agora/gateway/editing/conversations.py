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
from collections import OrderedDict
from collections.abc import Callable

from agora.compressor import Compressor
from agora.core.memo import Occupancy
from agora.core.trajectory import Step
from agora.gateway.body import Span
from agora.gateway.editing.conversation import (
    OPENING_BYTES,
    ConversationState,
    Found,
    Key,
    Seen,
    first_message,
    match,
)
from agora.gateway.editing.fields import Read
from agora.gateway.editing.growth import grown_from

_MAX_PER_KEY = 256
_MAX_HEADS = 4_000
_KEYS_PER_HEAD = 8
_MAX_UNREAD = 32
_EDITED_SHARE = 0.75
"""Share of the memory for conversations with an edit: losing one of those costs money, losing
another costs one read."""
_REFUSED_SHARE = 0.05
"""Share for those that were refused: a kilobyte or two each, so that they outlast others."""
_CONVERSATION_BYTES = 64 << 10
"""Reserved for a conversation that is admitted: it will grow."""
_ACTIVE_SECONDS = 60.0
"""One idle for longer than this has what it has: nothing is reserved for it, and where there is no
room it is forgotten for a new one. That costs one read if it comes back, and the bytes are the same
then; a new one that is refused costs all that it would have saved."""
_IDLE_SECONDS = 300.0
"""One idle for longer is seldom continued, and where the provider has forgotten it, too, little is
lost if it is."""
_IDLE_SHARE = 0.25
"""Share of its room that may be taken before idle ones are forgotten. Nearly all conversations of
an hour are over, and together they would fill the room (docs/log.md)."""


class Conversations:
    """Remembered conversations, bounded in bytes; the least recently used is forgotten first."""

    def __init__(self, max_bytes: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = max_bytes
        self._clock = clock
        self._seen: dict[Key, list[Seen]] = {}
        self._edited = _ByUse(int(max_bytes * _EDITED_SHARE))
        self._refused = _ByUse(int(max_bytes * _REFUSED_SHARE))
        self._plain = _ByUse(max_bytes - self._edited.most - self._refused.most)
        self._heads: OrderedDict[Key, tuple[Key, ...]] = OrderedDict()
        self._unread: OrderedDict[ConversationState, float] = OrderedDict()
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
        keys = self._heads.get((tenant, format, body[:OPENING_BYTES]), ())
        return [found for key in keys if (found := self._newest(key, body)) is not None]

    def find(self, key: Key, body: bytes, span: Span) -> Found | None:
        """Return what the messages of a body begin with, whatever stands before them."""
        return self._newest(key, body, first_message(body, span))

    def missed(self) -> None:
        """Count a conversation that is not known and has to be read in full."""
        self._misses += 1

    def admits(self) -> bool:
        """Return whether another conversation may be edited without forgetting an active one.

        Decided once, at a conversation's first edit: until then it was forwarded unchanged. One
        that is refused stays unedited to its end.
        """
        if not self._most:
            return True
        with self._lock:
            order, now = self._edited, self._clock()
            if order.with_another(growing_since=now - _ACTIVE_SECONDS) <= order.most:
                return True
            oldest = order.oldest()
            return oldest is not None and now - oldest.conversation.when > _ACTIVE_SECONDS

    def remember(self, seen: Seen, *, instead: Seen | None = None) -> None:
        """Keep what became of a body, for the next call of the same conversation."""
        self._put(seen, instead=instead)

    def grown(
        self,
        found: Found,
        body: bytes,
        read: Read,
        compressor: Compressor,
        *,
        depth: int,
    ) -> Seen | None:
        """Return what becomes of a body that begins so, if nothing is due; None in any doubt."""
        new: list[Step] = []
        grown = grown_from(found, body, read, compressor, depth, new)
        if grown is not None:
            self._hits += 1
            grown.conversation.unread = (*grown.conversation.unread, *new)[-_MAX_UNREAD:]
            self._keep_unread(grown.conversation)
            if grown.conversation.hindsight is not None:
                grown.conversation.hindsight.look(new)
            self._put(grown, instead=found.seen)
        return grown

    def _keep_unread(self, conversation: ConversationState) -> None:
        """Keep the texts that a scorer has not read yet only for conversations that go on.

        They are most of what a conversation takes, a third of a megabyte each where results have
        12 kB, and nothing else bounds them.
        """
        with self._lock:
            self._unread[conversation] = self._clock()
            self._unread.move_to_end(conversation)
            while True:
                oldest, when = next(iter(self._unread.items()))
                if when > self._clock() - _ACTIVE_SECONDS:
                    return
                del self._unread[oldest]
                oldest.unread = ()

    def _newest(self, key: Key, body: bytes, start: int | None = None) -> Found | None:
        """Return the newest that a body is the same as, from `start` or from its first byte."""
        with self._lock:
            known = tuple(self._seen.get(key, ()))
        for seen in reversed(known):
            found = match(seen, body, start)
            if found is not None:
                with self._lock:
                    self._kind(seen).touch(seen)
                return found
        return None

    def _put(self, seen: Seen, instead: Seen | None = None) -> None:
        order = self._kind(seen)
        if seen.weight > order.most:
            return
        key = seen.key
        with self._lock:
            if instead is not None:
                self._forget(instead)
            known = self._seen.get(key, [])
            if len(known) >= _MAX_PER_KEY:
                self._forget(known[0])
            self._seen.setdefault(key, []).append(seen)
            order.add(seen)
            while (oldest := order.over(self._clock())) is not None:
                self._forget(oldest)
            head = (key[0], key[1], seen.opening)
            others = [other for other in self._heads.pop(head, ()) if other != key]
            self._heads[head] = (key, *others[: _KEYS_PER_HEAD - 1])
            if len(self._heads) > _MAX_HEADS:
                self._heads.popitem(last=False)

    def _forget(self, seen: Seen) -> None:
        known = self._seen.get(seen.key, [])
        if seen in known:
            known.remove(seen)
        if not known:
            self._seen.pop(seen.key, None)
        self._kind(seen).drop(seen)

    def _kind(self, seen: Seen) -> "_ByUse":
        if seen.conversation.refused and seen.last is None:
            return self._refused
        return self._plain if seen.cut is None else self._edited


class _ByUse:
    """Which of the conversations was used when, and what they weigh together."""

    __slots__ = ("_seen", "forgotten", "most", "used")

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0
        self.forgotten = 0
        self._seen: OrderedDict[Seen, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def add(self, seen: Seen) -> None:
        weight = self._seen[seen] = seen.weight
        self.used += weight

    def touch(self, seen: Seen) -> None:
        if seen in self._seen:
            self._seen.move_to_end(seen)

    def drop(self, seen: Seen) -> None:
        self.used -= self._seen.pop(seen, 0)

    def with_another(self, *, growing_since: float) -> int:
        """Return what they will weigh with one more, when each has grown as they usually do.

        As the one in the middle did: a very long conversation takes its own room and no more.
        """
        weights = sorted(self._seen.values())
        grown = max(_CONVERSATION_BYTES, weights[(len(weights) - 1) // 2] if weights else 0)
        return grown + sum(
            max(weight, grown) if seen.conversation.when >= growing_since else weight
            for seen, weight in self._seen.items()
        )

    def oldest(self) -> Seen | None:
        return next(iter(self._seen), None)

    def over(self, now: float) -> Seen | None:
        """Return which one has to go, if any."""
        oldest = self.oldest()
        if oldest is None:
            return None
        conversation = oldest.conversation
        is_idle = now - conversation.when > max(_IDLE_SECONDS, conversation.cached_seconds)
        if self.used <= self.most * (_IDLE_SHARE if is_idle else 1):
            return None
        self.forgotten += 1
        return oldest

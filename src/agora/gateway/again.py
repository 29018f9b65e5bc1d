"""A conversation that comes back with one step more: what was edited before is not worked out anew.

A selection depends only on the steps up to its epoch, so between two epochs the edited prompt grows
at its end and nowhere else (docs/concepts/bill.md). When the messages begin with the very bytes of
a request seen before, only the new ones are read; if the schedule still names the same edit, the
new bytes go behind the edited ones. In any doubt nothing is found, and the whole body is read. What
is remembered may be forgotten at any time: the bytes that go on are the same without it.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agora.adapters import ADAPTERS, Context, validate
from agora.compressor import Compressor
from agora.core.compression import Compression
from agora.core.schedule import RentOrBuy, Sizes
from agora.core.trajectory import Trajectory
from agora.gateway.body import Kept, Span, Unreadable, decode, splice

_MOST_PER_KEY = 64
_STUB = {"role": "user", "content": "-"}
"""What new messages are read behind: on their own they would have no task."""
_THINKING = frozenset({"thinking", "redacted_thinking"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A list of messages, up to the end of its last one, and what became of it."""

    body: bytes
    start: int
    """Where the first message begins."""
    end: int
    """Where the last one ends."""
    edited: bytes | None
    """What goes on instead; None when nothing was edited."""
    sizes: Sizes
    epoch: int
    room: int
    tokens: int
    removed: int
    newest: int
    thinking: bool
    ids: frozenset[str]

    @property
    def weight(self) -> int:
        """About how many bytes it keeps alive."""
        return len(self.body) + len(self.edited or b"") + 64 * len(self.sizes.steps) + 1_000


Key = tuple[object, ...]


class Again:
    """What is remembered of conversations, in so many bytes; the oldest goes first."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._used = 0
        self._seen: OrderedDict[Key, list[Seen]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: Key, body: bytes, span: Span, compressor: Compressor) -> Seen | None:
        """Return what becomes of this body, if one it continues was seen and nothing is due."""
        with self._lock:
            known = tuple(self._seen.get(key, ()))
        for seen in reversed(known):
            begins = memoryview(seen.body)[seen.start : seen.end]
            at = _first(body, span)
            if body.startswith(begins, at):
                grown = _grown(seen, body, at, span, key, compressor)
                if grown is not None:
                    self._put(key, grown, instead=seen)
                return grown
        return None

    def remember(
        self,
        key: Key,
        body: bytes,
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
        seen = Seen(
            body=body,
            start=slices[0][0],
            end=slices[-1][1],
            edited=edited,
            sizes=sizes,
            epoch=edit.epoch,
            room=edit.room,
            tokens=compression.tokens_before,
            removed=compression.tokens_before - compression.tokens_after,
            newest=0,
            thinking=any(map(_thinks, messages)),
            ids=frozenset(_ids(messages)),
        )
        self._put(key, seen)

    def _put(self, key: Key, seen: Seen, instead: Seen | None = None) -> None:
        if seen.weight > self._most:
            return
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

    def _forget(self, known: list[Seen], seen: Seen) -> None:
        for at, other in enumerate(known):
            if other is seen:
                del known[at]
                self._used -= seen.weight
                return


def _grown(
    seen: Seen, body: bytes, start: int, span: Span, key: Key, compressor: Compressor
) -> Seen | None:
    """Return what becomes of `body`, which begins as `seen` does; None in any doubt."""
    schedule = _schedule(compressor)
    if schedule is None:
        return None
    end = start + seen.end - seen.start
    rest = body[end : span[1] - 1].strip(b" \t\n\r")
    if not rest:
        return _moved(seen, body, start, end, b"", seen.sizes, seen.tokens, seen.newest, ())
    try:
        messages = decode(b"[%b]" % rest[1:])
    except Unreadable:
        return None
    format = str(key[1])
    tail = _tail(messages, format, compressor, thinking=seen.thinking)
    if tail is None or not seen.ids.isdisjoint(ids := _ids(messages)):
        return None
    sizes = _together(seen.sizes, tail)
    edit = schedule.edit(sizes)
    if edit.epoch != seen.epoch or (edit.epoch and edit.room != seen.room):
        return None
    tokens = seen.tokens + tail.tokens - tail.preamble_tokens
    # What follows the last message, white space before the bracket, is not of the messages.
    last = end + len(body[end : span[1] - 1].rstrip(b" \t\n\r"))
    said = sum(u.tokens for u in tail.utterances if u.after >= len(tail.steps))
    newest = tail.steps[-1].tokens + said
    return _moved(seen, body, start, last, body[end:last], sizes, tokens, newest, ids)


def _moved(
    seen: Seen,
    body: bytes,
    start: int,
    end: int,
    added: bytes,
    sizes: Sizes,
    tokens: int,
    newest: int,
    ids: Sequence[str],
) -> Seen:
    return Seen(
        body=body,
        start=start,
        end=end,
        edited=None if seen.edited is None else seen.edited + added,
        sizes=sizes,
        epoch=seen.epoch,
        room=seen.room,
        tokens=tokens,
        removed=seen.removed,
        newest=newest,
        thinking=seen.thinking,
        ids=seen.ids.union(ids) if ids else seen.ids,
    )


def _tail(
    messages: list[Any], format: str, compressor: Compressor, *, thinking: bool
) -> Trajectory | None:
    """Return the new messages as a trajectory of whole steps; None if they are anything else."""
    if not all(isinstance(message, dict) for message in messages) or not _acts(messages[0]):
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
    sheet = compressor.sheet
    if compressor.schedule != "by_price" or sheet is None or sheet.write <= sheet.read:
        return None
    return RentOrBuy(sheet, budget=compressor.budget, k_recent=compressor.k_recent)


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

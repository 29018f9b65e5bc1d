"""Calls that a log holds in any order, given to the grouping trace by trace, by when they began."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from agora.adapters.rules.shape import as_object
from agora.logs.calls import Grouping, LoggedCall
from agora.logs.recording import Recording, Tally
from agora.logs.source import Record

MAX_HELD_BYTES = 64 << 20


@dataclass(slots=True)
class _Trace:
    """The calls of one trace while more may come."""

    size: int = 0
    calls: list[tuple[LoggedCall, str]] = field(default_factory=list)


class Ordered:
    """Takes calls as they come, gives the trajectories of whole traces."""

    def __init__(self, name: str, tally: Tally) -> None:
        self._grouping = Grouping(name, tally)
        self._held: dict[str, _Trace] = {}
        self._size = 0

    def add(self, call: LoggedCall, where: str) -> None:
        """Take in a call. Its trace is now the one that lay shortest."""
        trace = self._held.pop(call.trace, None) or _Trace()
        self._held[call.trace] = trace
        trace.calls.append((call, where))
        trace.size += call.size
        self._size += call.size

    def overfull(self) -> Iterator[Recording]:
        """Return what has to make room: the trajectories of traces that lay longest."""
        while self._size > MAX_HELD_BYTES:
            trace = self._held.pop(next(iter(self._held)))
            self._size -= trace.size
            yield from self._group(trace)

    def close(self) -> Iterator[Recording]:
        """Return the rest, when there are no more calls."""
        for trace in self._held.values():
            yield from self._group(trace)
        yield from self._grouping.close()

    def _group(self, trace: _Trace) -> Iterator[Recording]:
        for call, where in sorted(trace.calls, key=lambda one: one[0].at_seconds or 0.0):
            yield from self._grouping.add(call, where)


Fields = dict[str, object]


def read_ordered(
    records: Iterable[Record],
    ordered: Ordered,
    tally: Tally,
    *,
    parts: Callable[[Fields], Iterable[Fields]],
    call: Callable[[Fields, Record, Tally], LoggedCall | None],
    lacks: str,
) -> Iterator[Recording]:
    """Return the trajectories of an export whose records each hold parts, some of them calls.

    `parts` finds what a record holds and `call` reads one part, None if it is no call; a record
    without parts is refused because of what it `lacks`.
    """
    for record in records:
        found = False
        for part in parts(as_object(record.value)):
            found = True
            try:
                one = call(part, record, tally)
            except RecursionError:
                tally.refuse(record.where, "is nested too deeply")
                continue
            if one is not None:
                ordered.add(one, record.where)
        if not found:
            tally.refuse(record.where, lacks)
        yield from ordered.overfull()
    yield from ordered.close()

"""Recordings replayed on all cores, in the order they come."""

import multiprocessing
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field, replace

from agora.compressor import Compressor
from agora.core.prices import PriceSheet, sheet_for
from agora.errors import AgoraError
from agora.logs import Recording
from agora.replay.simulate import Replayed, replay_by

OWN = "own"
"""The key of the sheet of each recording's own model."""
_WAITING = 3
"""How many recordings are in memory for each worker: one at work, the others waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """By which price sheets a recording is replayed."""

    fixed: PriceSheet | None = None
    """One sheet for all; without it the sheet of each recording's own model."""
    others: tuple[PriceSheet, ...] = ()
    known: Mapping[str, PriceSheet] = field(default_factory=dict)
    """Sheets that are searched for a model before those that ship."""

    def of(self, model: str | None, ttl: str | None = None) -> dict[str, PriceSheet]:
        """Return the sheets for a model by their keys, in the order of the report.

        A model's own sheet has the prices of the time to live that its calls asked for, and its
        name shows that where it makes a difference. A sheet named by the caller is not changed.

        >>> list(Pricing(others=(sheet_for("gpt-5"),)).of("gpt-4o").items())[0][1].name
        'gpt-4o'
        """
        if self.fixed:
            key, first = self.fixed.name, self.fixed.for_ttl(None)
        else:
            key, first = OWN, _written_for(sheet_for(model or "", self.known), ttl)
        return {key: first} | {
            sheet.name: sheet.for_ttl(None) for sheet in self.others if sheet.name != key
        }

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that every recording's sheets have."""
        return tuple(self.of(None))


def _written_for(sheet: PriceSheet, ttl: str | None) -> PriceSheet:
    other = sheet.for_ttl(ttl)
    return sheet if other.write == sheet.write else replace(other, name=f"{sheet.name} ({ttl})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutcome:
    """A recording replayed by each sheet, or the reason why it could not be."""

    id: str
    model: str
    by_sheet: Mapping[str, Replayed] = field(default_factory=dict)
    error: str = ""
    ttl: str | None = None
    """The time to live that its cache writes asked for, None for the usual one."""
    path: str = ""
    number: int = 0
    """The place of its recording, as in `agora explain PATH#4`."""


def run(
    recordings: Iterable[Recording],
    pricing: Pricing,
    *,
    compressor: Compressor | None = None,
    workers: int = 1,
) -> Iterator[ReplayOutcome]:
    """Yield the outcome of each recording, in their order.

    A recording that cannot be replayed has its error in the outcome and stops nothing. With one
    worker everything is done in this process. With more, processes are spawned, so a script that
    calls this needs the usual `if __name__ == "__main__":`, and the compressor is pickled.

    Raises:
        concurrent.futures.process.BrokenProcessPool: A worker was killed, as when memory ran out.
    """
    compressor = compressor or Compressor()
    if workers <= 1:
        for recording in recordings:
            yield _outcome(recording, pricing, compressor)
        return
    waiting: deque[Future[ReplayOutcome]] = deque()
    # Not forked: the caller may have threads, and a fork would copy the locks they hold.
    context = multiprocessing.get_context("spawn")
    # Each worker gets the compressor once: its scorer loads weights when it is first asked.
    pool = ProcessPoolExecutor(
        workers, mp_context=context, initializer=_begin, initargs=(pricing, compressor)
    )
    try:
        for recording in recordings:
            waiting.append(pool.submit(_work, recording))
            while waiting and (waiting[0].done() or len(waiting) >= _WAITING * workers):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


_IN_WORKER: list[tuple[Pricing, Compressor]] = []
"""The task of this process, if it is a worker."""


def _begin(pricing: Pricing, compressor: Compressor) -> None:
    # Ctrl-C reaches every process of the group: workers end at once, without a traceback each.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _IN_WORKER[:] = [(pricing, compressor)]


def _work(recording: Recording) -> ReplayOutcome:
    return _outcome(recording, *_IN_WORKER[0])


def _outcome(recording: Recording, pricing: Pricing, compressor: Compressor) -> ReplayOutcome:
    by_sheet: Mapping[str, Replayed] = {}
    error, ttl = "", None
    try:
        ttl = recording.ttl
        sheets = pricing.of(recording.model, ttl)
        # The same prices under two keys are worked out once.
        distinct = {sheet.name: sheet for sheet in sheets.values()}
        replayed = replay_by(recording, list(distinct.values()), compressor)
        by_name = {one.sheet: one for one in replayed}
        by_sheet = {key: by_name[sheet.name] for key, sheet in sheets.items()}
    except RecursionError:
        error = "is nested too deeply"
    except AgoraError as problem:
        error = str(problem)
    except Exception as problem:
        # Logs hold anything: an error is reported with its recording, and the next is replayed.
        error = f"{type(problem).__name__}: {problem}"[:300]
    return ReplayOutcome(
        id=recording.id,
        model=recording.model or "",
        by_sheet=by_sheet,
        error=error,
        ttl=ttl,
        path=recording.path,
        number=recording.number,
    )

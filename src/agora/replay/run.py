"""Recordings replayed on all cores, in the order they come, so many bytes at a time."""

import multiprocessing
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from agora.compressor import Compressor
from agora.core.prices import PriceSheet, sheet_for
from agora.core.schedule import CEILING, MIN_TOKENS
from agora.errors import AgoraError
from agora.logs import Recording
from agora.replay.simulate import Policy, Replayed, replay_by
from agora.scorers.built_in import DEFAULT
from agora.scorers.load import load_scorer

OWN = "own"
"""The key of the sheet of each recording's own model."""
IN_FLIGHT_BYTES = 16 << 20
"""How much text is held for the workers at once. Parsed and pickled it takes some times that."""
_BATCH_BYTES = 512 << 10
_BATCH = 32
"""A batch is sent to a worker when it has so much text or so many recordings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """By which price sheets a recording is replayed."""

    fixed: PriceSheet | None = None
    """One sheet for all; without it the sheet of each recording's own model."""
    others: tuple[PriceSheet, ...] = ()
    known: Mapping[str, PriceSheet] = field(default_factory=dict)
    """Sheets that are searched for a model before those that ship."""

    def of(self, model: str | None, ttl: str | None = None) -> dict[str, PriceSheet]:
        """Return the sheets for a model by their keys, the one to show first first.

        A model's own sheet is that of the time to live which its calls were written for, and its
        name says so where that makes a difference; a sheet that was named is used as it is.

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
    """What its calls were written for, None for the usual time to live."""
    path: str = ""
    number: int = 0
    """Where its recording stands, as `agora explain PATH#4` has it."""


def run(
    recordings: Iterable[Recording],
    pricing: Pricing,
    *,
    policies: Sequence[Policy] = tuple(Policy),
    workers: int = 1,
    in_flight_bytes: int = IN_FLIGHT_BYTES,
    scorer: str = DEFAULT,
    min_tokens: int = MIN_TOKENS,
    ceiling: float = CEILING,
    tools: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[ReplayOutcome]:
    """Return what became of each recording, in their order.

    One that fails has its error in the outcome and stops nothing, even if it
    takes the worker with it. With one worker all is done in this process. With
    more they are spawned, so a script that calls this needs the usual
    `if __name__ == "__main__":`. `scorer` is a name or a folder that
    `agora.load_scorer` takes: each worker loads its own. `tools` are the
    compressor's settings about tools, by their names.
    """
    task = _Task(pricing, tuple(policies), scorer, min_tokens, ceiling, dict(tools))
    if workers <= 1:
        for recording in recordings:
            yield task.outcome(recording)
        return
    crew = _Crew(task, workers)
    waiting: deque[_Batch] = deque()
    flying = 0
    try:
        for batch in _batches(recordings):
            crew.submit(batch)
            waiting.append(batch)
            flying += batch.weight
            # One batch more than workers has to wait, or a worker that is done has nothing to do.
            while waiting and (
                waiting[0].done or (flying > in_flight_bytes and len(waiting) > workers + 1)
            ):
                batch = waiting.popleft()
                flying -= batch.weight
                yield from crew.outcomes(batch)
        while waiting:
            yield from crew.outcomes(waiting.popleft())
    finally:
        crew.dismiss()


def weight(value: object) -> int:
    """Return about how many bytes of text a JSON value holds; a recording's is that of its parts.

    >>> weight({"role": "user", "content": ["Find the key."]})
    41
    """
    total = 0
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            total += len(item)
        elif isinstance(item, dict):
            total += 8 * len(item)
            stack.extend(item.values())
        elif isinstance(item, list | tuple):
            total += 8 * len(item)
            stack.extend(item)
        else:
            total += 8
    return total


# Weights are read at a scorer's first question: once in a process, not once for each recording.
_scorer = lru_cache(maxsize=1)(load_scorer)


@dataclass(frozen=True, slots=True)
class _Task:
    """What is done with each recording."""

    pricing: Pricing
    policies: tuple[Policy, ...]
    scorer: str = DEFAULT
    min_tokens: int = MIN_TOKENS
    ceiling: float = CEILING
    tools: Mapping[str, Any] = field(default_factory=dict)

    def outcome(self, recording: Recording) -> ReplayOutcome:
        model = recording.model or ""
        try:
            ttl = recording.ttl
            sheets = self.pricing.of(model, ttl)
            # The same prices under two keys are worked out once.
            distinct = list({sheet.name: sheet for sheet in sheets.values()}.values())
            replayed = replay_by(
                recording,
                distinct,
                self.policies,
                Compressor(
                    scorer=_scorer(self.scorer),
                    min_tokens=self.min_tokens,
                    ceiling=self.ceiling,
                    **self.tools,
                ),
            )
            by_name = {one.sheet: one for one in replayed}
            by_sheet = {key: by_name[sheet.name] for key, sheet in sheets.items()}
        except Exception as error:
            # Logs hold anything; an error of one recording is noted, and the next is replayed.
            return _outcome(recording, error=_described(error))
        return _outcome(recording, by_sheet=by_sheet, ttl=ttl)


def _outcome(
    recording: Recording,
    *,
    by_sheet: Mapping[str, Replayed] | None = None,
    error: str = "",
    ttl: str | None = None,
) -> ReplayOutcome:
    return ReplayOutcome(
        id=recording.id,
        model=recording.model or "",
        by_sheet=by_sheet or {},
        error=error,
        ttl=ttl,
        path=recording.path,
        number=recording.number,
    )


def _described(error: Exception) -> str:
    if isinstance(error, AgoraError):
        return str(error)
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    return f"{type(error).__name__}: {error}"[:300]


@dataclass(slots=True, eq=False)
class _Batch:
    recordings: list[Recording]
    weight: int
    pool: ProcessPoolExecutor | None = None
    future: "Future[list[ReplayOutcome]] | None" = None

    @property
    def done(self) -> bool:
        return self.future is None or self.future.done()


def _batches(recordings: Iterable[Recording]) -> Iterator[_Batch]:
    held: list[Recording] = []
    size = 0
    for recording in recordings:
        held.append(recording)
        size += sum(map(weight, (recording.messages, recording.system, recording.tools)))
        if size >= _BATCH_BYTES or len(held) >= _BATCH:
            yield _Batch(held, size)
            held, size = [], 0
    if held:
        yield _Batch(held, size)


class _Crew:
    """The worker processes, restarted when one of them dies."""

    def __init__(self, task: _Task, workers: int) -> None:
        self._task = task
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, batch: _Batch) -> None:
        if self._pool is None:
            self._pool = _hire(self._task, self._workers)
        batch.pool = self._pool
        try:
            with _held_back():
                batch.future = self._pool.submit(_work, batch.recordings)
        except BrokenProcessPool:
            batch.future = None

    def outcomes(self, batch: _Batch) -> list[ReplayOutcome]:
        """Wait for a batch; if a worker died, look for the recording it died of."""
        try:
            if batch.future is not None:
                return batch.future.result()
        except BrokenProcessPool:
            pass
        if batch.pool is self._pool:
            self.dismiss()
        return [_alone(self._task, recording) for recording in batch.recordings]

    def dismiss(self) -> None:
        """End the workers; what they have not begun is dropped."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


def _alone(task: _Task, recording: Recording) -> ReplayOutcome:
    """Replay one recording in a process of its own, which it may kill."""
    with _hire(task, 1) as pool:
        try:
            with _held_back():
                future = pool.submit(_work, [recording])
            return future.result()[0]
        except BrokenProcessPool:
            return _outcome(
                recording, error="the process that replayed it was killed; it may need more memory"
            )


def _hire(task: _Task, workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        workers,
        # Not forked: the caller may have threads, of which a fork would copy the locks.
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
        initargs=(task,),
    )


@contextmanager
def _held_back() -> Iterator[None]:
    """Keep Ctrl-C from this thread and from workers it starts, until they are ready for it.

    A worker that is interrupted while Python starts prints a traceback.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_TASK: list[_Task] = []
"""In a worker: what it was hired for."""


def _begin(task: _Task) -> None:
    # Ctrl-C reaches the whole process group: workers go at once, without a traceback each.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    _TASK[:] = [task]


def _work(recordings: list[Recording]) -> list[ReplayOutcome]:
    return [_TASK[0].outcome(recording) for recording in recordings]

"""Compares scorers on the same labels: ranking, calibration and latency."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any

from agora.core.scorer import Scorer
from agora.core.trajectory import Anchor, Step
from agora_lab.train.metrics import Metrics, measure
from agora_lab.train.questions import Question, groups

LEAST_NEEDED = 20
"""With fewer needed pairs than this, a figure is meaningless and not given."""
SIZES = (30, 300)
"""Numbers of past steps at which a call is timed."""
_CALLS = 24
"""Steps by which a trajectory grows while calls are timed, around each size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One scorer on the pairs of one source, or on all."""

    scorer: str
    source: str
    pairs: int
    needed: int
    tasks: int
    metrics: Metrics | None
    """None if too few pairs were needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """The CPU time of a call when all but the newest step was seen before."""

    scorer: str
    steps: int
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of some scorers on some labels."""

    rows: Sequence[Row]
    latencies: Sequence[Latency]
    remarks: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return asdict(self)


@dataclass(slots=True)
class _Column:
    labels: list[float] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    scores: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


def compare(
    scorers: Mapping[str, Scorer],
    questions: Sequence[Question],
    *,
    resamples: int = 1_000,
    remarks: Sequence[str] = (),
    progress: Callable[[], None] = lambda: None,
) -> Report:
    """Return the figures of every scorer, per source and over all of them.

    `progress` is called once per question. Intervals are by bootstrap over tasks.
    """
    columns: dict[str, _Column] = defaultdict(_Column)
    for question, group in zip(questions, groups(questions), strict=True):
        found = {
            name: scorer.score(question.anchor, question.past) for name, scorer in scorers.items()
        }
        for source in (group, ALL):
            column = columns[source]
            column.labels += question.labels
            column.tasks += [question.task] * question.pairs
            for name, scores in found.items():
                column.scores[name] += [float(scores[at]) for at in question.candidates]
        progress()
    together = columns.pop(ALL, None)
    if together is not None and len(columns) > 1:
        columns[ALL] = together
    rows = [
        _row(name, source, column, resamples)
        for source, column in columns.items()
        for name in scorers
    ]
    latencies = [
        one for name, scorer in scorers.items() for one in _latencies(name, scorer, questions)
    ]
    return Report(rows, latencies, remarks)


ALL = "all"


def _row(scorer: str, source: str, column: _Column, resamples: int) -> Row:
    needed = sum(label >= 0.5 for label in column.labels)
    row = Row(
        scorer=scorer,
        source=source,
        pairs=len(column.labels),
        needed=needed,
        tasks=len(set(column.tasks)),
        metrics=None,
    )
    if needed < LEAST_NEEDED or needed == len(column.labels):
        return row
    scores = column.scores[scorer]
    return replace(row, metrics=measure(column.labels, scores, column.tasks, resamples=resamples))


def _latencies(name: str, scorer: Scorer, questions: Sequence[Question]) -> Iterator[Latency]:
    recorded = list(islice(_steps(questions), max(SIZES) + _CALLS))
    if not recorded:
        return
    # Short logs are extended to measure what a long one would cost.
    while len(recorded) < max(SIZES) + _CALLS:
        recorded += recorded
    for size in SIZES:
        # Repeated steps are made distinct, so that every step is new once.
        steps = [
            step._replace(number=n, action=f"{step.action} {size} {n}")
            for n, step in enumerate(recorded, start=1)
        ]
        times = []
        first = size - _CALLS // 2
        scorer.score(questions[0].anchor, steps[:first])
        for end in range(first + 1, first + 1 + _CALLS):
            past = steps[:end]
            anchor = Anchor(questions[0].anchor.task, past[-1].observation)
            # CPU time, so that other load on the machine does not count.
            start = time.process_time()
            scorer.score(anchor, past)
            times.append(1e3 * (time.process_time() - start))
        times.sort()
        yield Latency(
            scorer=name,
            steps=size,
            p50_ms=times[len(times) // 2],
            p99_ms=times[int(0.99 * len(times))],
        )


def _steps(questions: Sequence[Question]) -> Iterator[Step]:
    """Yield the steps of the longest question of each task, one trajectory at a time."""
    longest: dict[str, Question] = {}
    for question in questions:
        known = longest.get(question.task)
        if known is None or len(question.past) > len(known.past):
            longest[question.task] = question
    for question in longest.values():
        yield from question.past

"""How well scores rank and how well they are calibrated, with intervals by task."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agora_lab.bootstrap import interval, places, task_counts

RESAMPLES = 1_000
BINS = 15


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True, slots=True)
class Metrics:
    """The three figures of a scorer on labelled pairs."""

    auc: Interval
    average_precision: Interval
    calibration_error: Interval


class Ranking:
    """Labelled pairs in the order of their scores, ready to be weighed anew many times."""

    def __init__(self, labels: Sequence[float], scores: Sequence[float]) -> None:
        """Sort the pairs, best score first. Labels of 0.5 and more count as needed.

        Raises:
            ValueError: the numbers of labels and scores differ.
        """
        if len(labels) != len(scores):
            raise ValueError(f"{len(labels):,} labels were given for {len(scores):,} scores")
        found = np.asarray(scores, dtype=float)
        self.order = np.argsort(-found, kind="stable")
        self._scores = found[self.order]
        self._labels = (np.asarray(labels, dtype=float)[self.order] >= 0.5).astype(float)
        edges = np.flatnonzero(np.diff(self._scores)) + 1
        self._ties = np.concatenate([[0], edges]).astype(int)
        count = len(found)
        self._bins = np.unique([count * edge // BINS for edge in range(BINS)])

    def auc(self, weights: Any = None) -> float:
        """Return the probability that a needed step scores above one that is not; ties count half.

        NaN unless there are both kinds of steps.

        >>> Ranking([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).auc()
        0.75
        """
        needed, others = self._tied(weights)
        below = others.sum() - np.cumsum(others)
        total = needed.sum() * others.sum()
        return float((needed * (below + others / 2)).sum() / total) if total else float("nan")

    def average_precision(self, weights: Any = None) -> float:
        """Return the mean precision at each needed step, with tied scores taken together.

        >>> round(Ranking([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).average_precision(), 4)
        0.8333
        """
        needed, others = self._tied(weights)
        found = np.cumsum(needed)
        seen = np.maximum(found + np.cumsum(others), 1e-12)
        total = needed.sum()
        return float((needed * found / seen).sum() / total) if total else float("nan")

    def calibration_error(self, weights: Any = None) -> float:
        """Return the mean gap between score and share of needed steps, over bins of equal count.

        Most pairs are not needed and score low. Bins of equal width would hold
        nearly all of them in one, where errors cancel out.

        >>> Ranking([0, 1], [0.5, 0.5]).calibration_error()
        0.0
        """
        counts = self._counts(weights)
        gaps = counts * (self._scores - self._labels)
        # Tied scores share a bin, since their order is arbitrary.
        starts = np.unique(self._ties[np.searchsorted(self._ties, self._bins, "right") - 1])
        total = counts.sum()
        return float(np.abs(np.add.reduceat(gaps, starts)).sum() / total) if total else float("nan")

    def _counts(self, weights: Any) -> Any:
        return np.ones(len(self._scores)) if weights is None else weights[self.order]

    def _tied(self, weights: Any) -> tuple[Any, Any]:
        counts = self._counts(weights)
        needed = np.add.reduceat(counts * self._labels, self._ties)
        return needed, np.add.reduceat(counts * (1 - self._labels), self._ties)


def measure(
    labels: Sequence[float],
    scores: Sequence[float],
    tasks: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Metrics:
    """Return the figures with bootstrap intervals over tasks.

    Pairs of one task are correlated, so resampling pairs would make the intervals too
    narrow.

    Raises:
        ValueError: the numbers of labels, scores and tasks differ.
    """
    if not len(labels) == len(scores) == len(tasks):
        raise ValueError(
            f"{len(labels):,} labels, {len(scores):,} scores and {len(tasks):,} tasks were given; "
            "each pair needs one of each"
        )
    ranking = Ranking(labels, scores)
    place, count = places(tasks)
    figures = (ranking.auc, ranking.average_precision, ranking.calibration_error)
    drawn = [
        [figure(counts[place]) for figure in figures]
        for block in task_counts(count, resamples, seed=seed)
        for counts in block
    ]
    return Metrics(
        *(
            Interval(figure(), *interval(values))
            for figure, values in zip(figures, zip(*drawn, strict=True), strict=True)
        )
    )

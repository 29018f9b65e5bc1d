"""The AUC of scores for the steps that were needed, with an interval by trajectory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from agora_lab.bootstrap import interval, places, task_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

RESAMPLES = 1_000
NEEDED = 0.5
"""Labels from here on count as needed."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with its 95% interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def auc(
    labels: Sequence[float], scores: Sequence[float], tasks: Sequence[str], *, seed: int = 0
) -> Interval:
    """Return the probability that a needed step scores above another; ties count half.

    The interval is a bootstrap over tasks: pairs of one task are correlated, so resampling pairs
    would make it too narrow. NaN unless there are both kinds of steps.
    """
    # Tied scores share a place in the order.
    _, order = np.unique(np.asarray(scores, dtype=float), return_inverse=True)
    needed = np.asarray(labels, dtype=float) >= NEEDED

    def weighed(weights: "NDArray[np.float64]") -> float:
        above = np.bincount(order, weights * needed)
        others = np.bincount(order, weights * ~needed)
        total = above.sum() * others.sum()
        below = np.cumsum(others) - others / 2
        return float((above * below).sum() / total) if total else float("nan")

    place, count = places(tasks)
    drawn = [
        weighed(counts[place])
        for block in task_counts(count, RESAMPLES, seed=seed)
        for counts in block
    ]
    return Interval(weighed(np.ones(len(order))), *interval(drawn))

"""How well scores rank the steps that were needed, with an interval by trajectory."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import roc_auc_score

from agora_lab.bootstrap import interval, places, task_counts

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
    needed = np.asarray(labels, dtype=float) >= NEEDED
    values = np.asarray(scores, dtype=float)
    place, count = places(tasks)
    drawn = [
        _auc(needed, values, counts[place])
        for block in task_counts(count, RESAMPLES, seed=seed)
        for counts in block
    ]
    return Interval(_auc(needed, values, np.ones(len(values))), *interval(drawn))


def _auc(needed: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> float:
    if not weights[needed].sum() or not weights[~needed].sum():
        return float("nan")
    return float(roc_auc_score(needed, scores, sample_weight=weights))

"""Estimates with their intervals, and tests that pair by task.

Everything is resampled by task: episodes of one task under several seeds are
one observation, their mean.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from agora_lab.bootstrap import interval, task_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

RESAMPLES = 10_000
_DIGITS = 6
"""Digits that are kept: the last ones of a sum depend on the processor."""
_EXACT = 50


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value, the interval that holds it with 95 %, and from how many tasks."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Resampled:
    """An estimate with the values that resampling gave, so that estimates can be combined."""

    estimate: Estimate
    values: "Floats"


def mean(values: Sequence[float]) -> Resampled:
    """Return the mean over tasks.

    >>> mean([1.0, 1.0, 1.0]).estimate
    Estimate(value=1.0, low=1.0, high=1.0, n=3)
    """
    array = np.asarray(values, dtype=np.float64)
    return _resampled(float(array.mean()), _means(array[:, None])[:, 0], len(array))


def ratio_of_means(above: Sequence[float], below: Sequence[float]) -> Resampled | None:
    """Return the mean of one divided by the mean of the other, both of the same tasks.

    None where the mean below is 0: there is nothing to retain then.
    """
    pairs = np.column_stack([np.asarray(above, np.float64), np.asarray(below, np.float64)])
    if pairs[:, 1].mean() == 0:
        return None
    means = _means(pairs)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.where(means[:, 1] > 0, means[:, 0] / means[:, 1], np.nan)
    return _resampled(float(pairs[:, 0].mean() / pairs[:, 1].mean()), values, len(pairs))


def wilcoxon(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the p-value of the paired signed-rank test, two-sided; 1 where no pair differs.

    Pairs that do not differ are left out, ties share their rank. Up to 50
    differing pairs it is exact: every way the signs could have fallen is
    counted. Beyond, the normal approximation with the correction for ties.

    >>> wilcoxon([1.0, 0.5], [1.0, 0.5])
    1.0
    >>> wilcoxon([3.0, 4.0, 5.0, 6.0, 7.0], [1.0, 1.0, 1.0, 1.0, 1.0])
    0.0625
    """
    differences = np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)
    # Values that differ only in the last digit of a sum count as equal.
    differences = differences[np.abs(differences) > 1e-12].round(12)
    if not len(differences):
        return 1.0
    if len(differences) > _EXACT:
        p = float(stats.wilcoxon(differences, method="asymptotic").pvalue)
    else:
        p = _exact(differences)
    return float(f"{p:.{_DIGITS}g}")


def _exact(differences: "Floats") -> float:
    """Return the p-value from the sums of ranks under all signs, ranks doubled to be whole."""
    ranks = (2 * stats.rankdata(np.abs(differences))).astype(int)
    ways = np.zeros(int(ranks.sum()) + 1)
    ways[0] = 1
    for rank in ranks:
        shifted = np.zeros_like(ways)
        shifted[rank:] = ways[: len(ways) - rank]
        ways = (ways + shifted) / 2
    reached = int(ranks[differences > 0].sum())
    tail = min(ways[: reached + 1].sum(), ways[reached:].sum())
    return min(1.0, 2 * float(tail))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number (Holm-Bonferroni), in the given order.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda at: p_values[at])
    corrected = [1.0] * len(p_values)
    highest = 0.0
    for rank, at in enumerate(order):
        highest = max(highest, min(1.0, p_values[at] * (len(p_values) - rank)))
        corrected[at] = float(f"{highest:.{_DIGITS}g}")
    return corrected


def paired(
    ours: Mapping[str, float], theirs: Mapping[str, float]
) -> tuple[list[float], list[float]]:
    """Return both values of the tasks that are in both, in the order of their names."""
    tasks = sorted(ours.keys() & theirs.keys())
    return [ours[task] for task in tasks], [theirs[task] for task in tasks]


def _resampled(value: float, values: "Floats", n: int) -> Resampled:
    low, high = interval(values)
    return Resampled(
        Estimate(round(value, _DIGITS), round(low, _DIGITS), round(high, _DIGITS), n),
        values,
    )


def _means(columns: "Floats") -> "Floats":
    """Return the means of each resample: one row each, columns as given."""
    tasks = len(columns)
    # The same draws for the same number of tasks, so that estimates can be combined.
    blocks = task_counts(tasks, RESAMPLES, seed=tasks)
    return np.concatenate([counts @ columns / tasks for counts in blocks])

"""The bootstrap by task: whole tasks are resampled, never their parts.

Episodes or pairs of one task are correlated, so resampling them one by one would
make every interval too narrow.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

LEVEL = 0.95
_CACHED_TASKS = 1_200


def task_counts(tasks: int, resamples: int, *, seed: int, block: int = 250) -> Iterator["Floats"]:
    """Yield how often each resample draws each task, in blocks with a row per resample.

    In blocks, since the whole table for many tasks would not fit in memory.

    >>> [counts] = task_counts(3, 2, seed=0)
    >>> counts.sum(axis=1)
    array([3., 3.])
    """
    if tasks <= _CACHED_TASKS:
        whole = _table(tasks, resamples, seed)
        yield from (whole[start : start + block] for start in range(0, resamples, block))
    else:
        chance = np.random.default_rng(seed)
        for start in range(0, resamples, block):
            yield _drawn(chance, tasks, min(block, resamples - start))


def places(tasks: Sequence[str]) -> tuple["NDArray[np.intp]", int]:
    """Return the index of each name among the distinct names, and their number.

    >>> places(["b", "a", "b"])
    (array([1, 0, 1]), 2)
    """
    if not len(tasks):
        return np.zeros(0, dtype=np.intp), 0
    names, found = np.unique(np.asarray(tasks), return_inverse=True)
    return found, len(names)


def interval(drawn: "Floats | Sequence[float]") -> tuple[float, float]:
    """Return the bounds of the central 95 %, ignoring NaN; NaN if all values are.

    >>> interval([1.0, float("nan"), 1.0])
    (1.0, 1.0)
    """
    values = np.asarray(drawn, dtype=np.float64)
    there = values[~np.isnan(values)]
    if not len(there):
        return float("nan"), float("nan")
    tail = 100 * (1 - LEVEL) / 2
    low, high = np.percentile(there, [tail, 100 - tail])
    return float(low), float(high)


@lru_cache(maxsize=8)
def _table(tasks: int, resamples: int, seed: int) -> "Floats":
    return _drawn(np.random.default_rng(seed), tasks, resamples)


def _drawn(chance: np.random.Generator, tasks: int, resamples: int) -> "Floats":
    return chance.multinomial(tasks, [1 / tasks] * tasks, resamples).astype(np.float64)

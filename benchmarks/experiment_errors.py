"""How often the intervals of an experiment exclude the truth, checked after every conversation.

    python -m benchmarks.experiment_errors --experiments 10000 --out FILE

Each experiment draws figures with heavy tails, a mean that drifts, and conversations that go up and
down together. An interval that excludes the truth at any look counts as wrong; if the arms do not
differ, that is a false alarm. The sums are those of `agora.experiment.sequences`, on arrays of many
experiments at once. Some experiments also run through the product, to check that both agree.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agora.experiment.sequences import TIGHTEST, WARM_UP, Comparison, threshold

Figures = NDArray[np.float64]
ALPHA = 0.05
_AT_ONCE = 250
_CHECKED = 2
"""Experiments of each batch that also run through the product."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A distribution of figures."""

    name: str
    figures: Callable[[np.random.Generator, int, int], Figures]
    """Draws the figures without AGORA, one row for each experiment."""
    ratio: float = 1.0
    uneven: float = 0.0
    """How much the effect differs between conversations (sigma of a lognormal with mean 1)."""


def pareto(rng: np.random.Generator, rows: int, count: int) -> Figures:
    """Return figures whose variance is infinite: a Pareto with index 1.5."""
    return 1 + rng.pareto(1.5, (rows, count))


def lognormal(rng: np.random.Generator, rows: int, count: int) -> Figures:
    """Return figures of which one hundredth has a third of the sum."""
    return rng.lognormal(0, 1.5, (rows, count))


def drifting(rng: np.random.Generator, rows: int, count: int) -> Figures:
    """Return figures that grow fourfold and go up and down with the hours."""
    at = np.arange(count) / count
    return lognormal(rng, rows, count) * (1 + 3 * at) * (1.5 + np.sin(at * 40))


def correlated(rng: np.random.Generator, rows: int, count: int) -> Figures:
    """Return figures that share most of their spread with their 24 neighbours."""
    shared = rng.lognormal(0, 1.2, (rows, -(-count // 25)))
    return np.repeat(shared, 25, axis=1)[:, :count] * rng.lognormal(0, 0.5, (rows, count))


def together(rng: np.random.Generator, rows: int, count: int) -> Figures:
    """Return figures with all three: heavy tails, drift, and neighbours that are alike."""
    at = np.arange(count) / count
    return correlated(rng, rows, count) * pareto(rng, rows, count) * (1 + 3 * at)


CASES = (
    Case(name="no effect, heavy tails", figures=pareto),
    Case(name="no effect, drift", figures=drifting),
    Case(name="no effect, correlated", figures=correlated),
    Case(name="no effect, all three", figures=together),
    Case(name="a fifth less, all three", figures=together, ratio=0.8),
    Case(name="a fifth more, drift", figures=drifting, ratio=1.2),
    Case(name="a fifth less, uneven", figures=correlated, ratio=0.8, uneven=0.5),
    Case(name="a fifth less, uneven, heavy tails", figures=pareto, ratio=0.8, uneven=0.5),
)


def rejected(values: Figures, treated: NDArray[np.bool_], undone: Figures) -> NDArray[np.bool_]:
    """Return True for each experiment and look at which the effect is rejected.

    `undone` has the figures with the effect taken out.
    """
    count = values.shape[1]
    order = np.arange(1, count + 1)
    untreated = np.where(treated, 0.0, values)
    seen = np.cumsum(~treated, axis=1)
    means = np.cumsum(untreated, axis=1) / np.maximum(seen, 1)
    usual = np.hstack([np.zeros((len(values), 1)), means[:, :-1]])
    mean = np.cumsum(values, axis=1) / order
    spread = np.cumsum(values**2, axis=1) - order * mean**2
    # The scale is fixed by the first conversations, of both arms.
    warm = np.full(len(values), WARM_UP - 1)
    while np.any(late := seen[np.arange(len(values)), warm] == 0):
        warm[late] += 1
    scale = spread[np.arange(len(values)), warm] / warm
    counted = order[None, :] - 1 > warm[:, None]
    terms = np.where(treated, undone - usual, usual - values) * counted
    off, squares = np.cumsum(terms, axis=1), np.cumsum(terms**2, axis=1)
    mixture = (threshold(0.0, 1.0, ALPHA) / (2 * math.log(1 / ALPHA))) * scale[:, None]
    total = squares + mixture
    bound = total * (2 * math.log(1 / ALPHA) + np.log(total / mixture))
    found: NDArray[np.bool_] = (off**2 >= bound) & counted
    return found


def by_product(values: Figures, treated: NDArray[np.bool_], ratio: float) -> list[bool]:
    """Return the same for one experiment, by the product's own sums."""
    pair, found = Comparison(), []
    for value, arm in zip(values.tolist(), treated.tolist(), strict=True):
        pair.observe(value, treated=arm)
        found.append(pair.rejects_ratio(ratio, ALPHA))
    return found


def run(case: Case, experiments: int, conversations: int, seed: int) -> dict[str, Any]:
    """Return how often the truth was excluded, and when an effect was first detected."""
    rng = np.random.default_rng(seed)
    wrong = wrong_typical = seen = seen_typical = checked = differing = 0
    first: list[int] = []
    first_typical: list[int] = []
    # The mean of a lognormal is above its geometric mean.
    typical = math.log(case.ratio) - case.uneven**2 / 2
    for begin in range(0, experiments, _AT_ONCE):
        rows = min(_AT_ONCE, experiments - begin)
        values = case.figures(rng, rows, conversations)
        treated = rng.random((rows, conversations)) < 0.5
        effect = np.full_like(values, case.ratio)
        if case.uneven:
            effect = effect * rng.lognormal(-(case.uneven**2) / 2, case.uneven, values.shape)
        values = np.where(treated, values * effect, values)
        logs = np.log(values)
        out = rejected(values, treated, values / case.ratio)
        wrong += int(out.any(axis=1).sum())
        wrong_typical += int(rejected(logs, treated, logs - typical).any(axis=1).sum())
        for row in range(min(_CHECKED, rows)):
            checked += conversations
            product = by_product(values[row], treated[row], case.ratio)
            differing += sum(a != b for a, b in zip(product, out[row].tolist(), strict=True))
        if case.ratio != 1:
            shows = rejected(values, treated, values)
            seen += int(shows.any(axis=1).sum())
            first += [int(row.argmax()) + 1 for row in shows if row.any()]
            shows = rejected(logs, treated, logs)
            seen_typical += int(shows.any(axis=1).sum())
            first_typical += [int(row.argmax()) + 1 for row in shows if row.any()]
    report: dict[str, Any] = {
        "case": case.name,
        "experiments": experiments,
        "conversations": conversations,
        "looks_each": conversations,
        "ratio": case.ratio,
        "left_out_the_truth": wrong / experiments,
        "coverage": 1 - wrong / experiments,
        "typical_left_out_the_truth": wrong_typical / experiments,
        "looks_done_by_the_product_too": checked,
        "looks_that_differ": differing,
    }
    if case.ratio != 1:
        report["effect_seen"] = seen / experiments
        report["median_conversations_until_seen"] = int(np.median(first)) if first else None
        report["typical_effect_seen"] = seen_typical / experiments
        report["typical_median_conversations"] = (
            int(np.median(first_typical)) if first_typical else None
        )
    return report


def main() -> None:
    """Run the cases of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--experiments", type=int, default=10_000, help="of each kind")
    parser.add_argument("--conversations", type=int, default=2_000, help="of each experiment")
    parser.add_argument("--seed", type=int, default=39)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    began, rows = time.monotonic(), []
    for at, case in enumerate(CASES):
        rows.append(run(case, chosen.experiments, chosen.conversations, chosen.seed + at))
        print(json.dumps(rows[-1]), flush=True)
    left_out = ("left_out_the_truth", "typical_left_out_the_truth")
    worst = max(row[name] for row in rows for name in left_out)
    took = time.monotonic() - began
    print(
        f"{chosen.experiments:,} experiments of each of {len(rows)} kinds, boundary tightest at "
        f"{TIGHTEST}: at most {worst:.2%} ever left out the truth ({took:.0f} s)"
    )
    if chosen.out:
        chosen.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

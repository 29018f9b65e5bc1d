"""Two sets of rows, paired by task: what a method scored before and what it scores now.

    python -m lab.benchmarks.before_and_now docs/results/long/rows.jsonl.gz NOW.jsonl.gz
        [--before agora_forms_worth] [--now forms]

Prints for each environment the mean reward of both over the tasks that both have, the mean
difference with its interval by task, and how many steps the newer took for each of the older.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np

from agora_lab.bootstrap import interval, task_counts
from agora_lab.evaluation.rows import Row, read

RESAMPLES = 10_000
SEED = 1


def by_task(rows: Sequence[Row], method: str) -> dict[str, dict[str, list[Row]]]:
    """Return the rows of a method, by environment and task."""
    found: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.method == method:
            found[row.environment][row.task].append(row)
    return found


def compared(before: Sequence[Row], now: Sequence[Row], methods: tuple[str, str]) -> Iterator[str]:
    """Yield a line for each environment that both have."""
    older, newer = by_task(before, methods[0]), by_task(now, methods[1])
    for environment in sorted(newer):
        tasks = sorted(older[environment].keys() & newer[environment].keys())
        if not tasks:
            yield f"{environment}: no task in both"
            continue
        was, is_now = (
            np.array([fmean(row.reward for row in of[environment][task]) for task in tasks])
            for of in (older, newer)
        )
        differences = is_now - was
        drawn = [
            mean
            for counts in task_counts(len(tasks), RESAMPLES, seed=SEED)
            for mean in counts @ differences / len(tasks)
        ]
        low, high = interval(drawn)
        steps_was, steps_now = (
            sum(fmean(row.steps for row in of[environment][task]) for task in tasks)
            for of in (older, newer)
        )
        yield (
            f"{environment}: {was.mean():.3f} before, {is_now.mean():.3f} now, "
            f"{differences.mean():+.3f} [{low:+.3f}, {high:+.3f}], n={len(tasks)}, "
            f"steps {steps_now / steps_was:.3f}"
        )


def main() -> None:
    """Print what was before and what is now."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("older", type=Path, help="the rows of before")
    parser.add_argument("newer", type=Path, help="the rows of now")
    parser.add_argument("--before", default="agora_forms_worth", help="its method")
    parser.add_argument("--now", default="forms", help="the method of now")
    asked = parser.parse_args()
    older, newer = (read(path).rows for path in (asked.older, asked.newer))
    for line in compared(older, newer, (asked.before, asked.now)):
        print(line)


if __name__ == "__main__":
    main()

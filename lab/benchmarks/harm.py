"""What forgetting costs an agent: dollars, calls and outcome of a run beside sending everything.

    agora lab play --env desk --tasks 100 --out runs/harm --method none \\
        --method agora,model=gpt-5,session=true
    python -m lab.benchmarks.harm runs/harm --sheet gpt-5 --out lab/results/harm-desk.json

Every figure is paired by task: ratios of means and differences to `none`, with 95 % intervals of
the bootstrap. `extra` is the extra calls for each 1,000 tokens that edits removed, and `break-even`
the number of them at which the savings are gone. With `--baseline` the same tasks under version
0.3 are rows too (`benchmarks/baseline-0.3.json`), and every method's calls are compared with them.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from agora.core.prices import PriceSheet, sheet_for
from agora_lab.episodes import Episode, read_episodes
from agora_lab.evaluate.rows import digest
from agora_lab.evaluate.statistics import Estimate, mean, paired, ratio_of_means

BASELINE = "version 0.3"
Tasks = dict[str, dict[str, float]]
"""By task: dollars, calls, outcome and removed tokens."""


def figures_of(episode: Episode, sheet: PriceSheet) -> dict[str, float]:
    """Return the figures of an episode."""
    row = digest(episode, {}, [sheet])
    removed = max((move.tokens_whole - move.tokens_sent for move in episode.moves), default=0)
    return {
        "dollars": row.dollars[sheet.name],
        "calls": row.steps,
        "outcome": row.reward,
        "removed": max(0, removed),
    }


def baseline(path: Path, environment: str) -> dict[str, Tasks]:
    """Return the rows of version 0.3: everything, and its default."""
    tasks = json.loads(path.read_text(encoding="utf-8"))[environment]["tasks"]
    names = ("dollars", "calls", "outcome")
    return {
        "none": {task: dict(zip(names, row[0:3], strict=True)) for task, row in tasks.items()},
        BASELINE: {task: dict(zip(names, row[3:6], strict=True)) for task, row in tasks.items()},
    }


def compared(ours: Tasks, none: Tasks, old: Tasks | None) -> dict[str, Any]:
    """Return the figures of a method beside `none`, and its calls beside version 0.3."""

    def pairs(name: str, other: Tasks = none) -> tuple[list[float], list[float]]:
        return paired(
            {task: row[name] for task, row in ours.items()},
            {task: row[name] for task, row in other.items()},
        )

    found: dict[str, Estimate] = {
        "dollars a task": mean(pairs("dollars")[0]).estimate,
        "outcome": mean(pairs("outcome")[0]).estimate,
        "outcome, difference": mean(
            [a - b for a, b in zip(*pairs("outcome"), strict=True)]
        ).estimate,
    }
    for name in ("dollars", "calls"):
        ratio = ratio_of_means(*pairs(name))
        assert ratio is not None
        found[f"{name}, ratio"] = ratio.estimate
    if old is not None:
        ratio = ratio_of_means(*pairs("calls", old))
        assert ratio is not None
        found["calls, ratio to 0.3"] = ratio.estimate
    shared = sorted(ours.keys() & none.keys())
    removed = [ours[task].get("removed", 0.0) / 1_000 for task in shared]
    if any(removed):
        more = [ours[task]["calls"] - none[task]["calls"] for task in shared]
        extra = ratio_of_means(more, removed)
        # Without its extra calls the method would cost so much less; a call costs the mean.
        call = [ours[task]["dollars"] / ours[task]["calls"] for task in shared]
        saved = [
            none[task]["dollars"] - ours[task]["dollars"] + one * price
            for task, one, price in zip(shared, more, call, strict=True)
        ]
        prices = [kilo * price for kilo, price in zip(removed, call, strict=True)]
        even = ratio_of_means(saved, prices)
        assert extra is not None
        assert even is not None
        found["extra calls per 1,000 removed"] = extra.estimate
        found["break-even"] = even.estimate
    return {
        name: {"value": one.value, "interval": [one.low, one.high], "n": one.n}
        for name, one in found.items()
    }


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("run", type=Path)
    parser.add_argument("--sheet", default="gpt-5")
    parser.add_argument("--baseline", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    sheet = sheet_for(options.sheet)
    arms: dict[str, Tasks] = {}
    environments = set()
    for episode in read_episodes(options.run):
        environments.add(episode.cell.environment)
        arms.setdefault(episode.cell.method, {})[episode.task] = figures_of(episode, sheet)
    [environment] = environments
    old = baseline(options.baseline, environment) if options.baseline else {}
    rows = {
        name: compared(tasks, arms["none"], old.get(BASELINE))
        for name, tasks in sorted(arms.items())
    }
    if old:
        rows[BASELINE] = compared(old[BASELINE], old["none"], None)
    for name, row in rows.items():
        print(name)
        for figure, one in row.items():
            low, high = one["interval"]
            print(f"  {figure:32} {one['value']:8.4f} [{low:.4f}, {high:.4f}]  n {one['n']}")
    if options.out:
        found = {
            "command": " ".join(["python -m lab.benchmarks.harm", *sys.argv[1:]]),
            "environment": environment,
            "sheet": sheet.name,
            "rows": rows,
        }
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

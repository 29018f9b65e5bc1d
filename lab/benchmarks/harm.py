r"""What forgetting costs an agent: dollars, calls and outcome by arm, paired by task.

    python -m lab.benchmarks.harm --env desk --tasks 100 --run runs/harm-desk \
        --baseline benchmarks/baseline-0.3.json --out lab/results/harm-desk.json

The scripted agent of an environment plays the same tasks under each arm, at the prices of `--model`
and in a session, as a wrapped client would. It has no pauses, so nothing is edited for free. The
same command resumes a run. Every figure is paired by task: ratios of means and differences to
sending everything, with 95 % intervals of the bootstrap. `extra calls` are those for each 1,000
tokens that edits removed; at the break-even of them nothing would be saved. With `--baseline`
version 0.3 on the same tasks is a row too, and the calls of every arm are compared with it.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from agora.core.prices import PriceSheet, sheet_for
from agora_lab.envs import world
from agora_lab.episodes import Cell, Episode, RunWriter, read_episodes
from agora_lab.evaluate.play import SCRIPTED, AgentOptions, EpisodeTask, play_episode
from agora_lab.evaluate.rows import digest
from agora_lab.evaluate.statistics import Estimate, mean, paired, ratio_of_means

ARMS = {
    "everything": "none",
    "h = 0": "agora,model={model},session=true,forgetting=0.0",
    "default": "agora,model={model},session=true",
    "for databases": "agora,model={model},session=true,keep_ratio=0.4",
}
SEED = 47
BASELINE = "version 0.3"
Tasks = dict[str, dict[str, float]]
"""By task: dollars, calls, outcome and removed tokens."""


def play(folder: Path, environment: str, tasks: list[str], methods: dict[str, str]) -> None:
    """Play what is missing in a run's folder, every arm of a task before the next task."""
    steps = world(environment).most_steps
    with RunWriter(folder, {"environment": environment, "seed": SEED}) as run:
        done = {episode.key for episode in read_episodes(folder)}
        for task in tasks:
            for method in methods.values():
                cell = Cell(environment=environment, backbone=SCRIPTED, method=method, seed=SEED)
                if cell.key(task) not in done:
                    asked = EpisodeTask(cell=cell, task=task, steps=steps, agent=AgentOptions())
                    played = play_episode(asked)
                    assert played.episode is not None, played.skipped
                    assert played.timing is not None
                    run.add(played.episode, played.timing)


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
        "everything": {
            task: dict(zip(names, row[0:3], strict=True)) for task, row in tasks.items()
        },
        BASELINE: {task: dict(zip(names, row[3:6], strict=True)) for task, row in tasks.items()},
    }


def compared(ours: Tasks, none: Tasks, old: Tasks | None) -> dict[str, Any]:
    """Return the figures of an arm beside everything, and its calls beside version 0.3."""

    def pairs(name: str, other: Tasks = none) -> tuple[list[float], list[float]]:
        return paired(
            {task: row[name] for task, row in ours.items()},
            {task: row[name] for task, row in other.items()},
        )

    outcomes = list(zip(*pairs("outcome"), strict=True))
    found: dict[str, Estimate] = {
        "dollars a task": mean(pairs("dollars")[0]).estimate,
        "outcome": mean(pairs("outcome")[0]).estimate,
        "outcome, difference": mean([one - other for one, other in outcomes]).estimate,
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
    parser.add_argument("--env", default="desk")
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--model", default="gpt-5", help="whose prices count")
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--baseline", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    sheet = sheet_for(options.model)
    methods = {name: method.format(model=options.model) for name, method in ARMS.items()}
    tasks = list(world(options.env).splits()["test"])[: options.tasks]
    play(options.run, options.env, tasks, methods)
    names = {method: name for name, method in methods.items()}
    arms: dict[str, Tasks] = {name: {} for name in methods}
    for episode in read_episodes(options.run):
        if episode.task in tasks:
            arms[names[episode.cell.method]][episode.task] = figures_of(episode, sheet)
    old = baseline(options.baseline, options.env) if options.baseline else {}
    rows = {
        name: compared(tasks, arms["everything"], old.get(BASELINE)) for name, tasks in arms.items()
    }
    if old:
        rows[BASELINE] = compared(old[BASELINE], old["everything"], None)
    for name, row in rows.items():
        print(name)
        for figure, one in row.items():
            low, high = one["interval"]
            print(f"  {figure:32} {one['value']:8.4f} [{low:.4f}, {high:.4f}]  n {one['n']}")
    if options.out:
        found = {
            "command": f"python -m lab.benchmarks.harm --env {options.env} --model {options.model}",
            "environment": options.env,
            "tasks": len(tasks),
            "sheet": sheet.name,
            "rows": rows,
        }
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Is everything the next action needs still in the prompt? On recorded tool-calling trajectories.

    python -m benchmarks.coverage [--out benchmarks/results/coverage.json] [--seed 0]

For every recorded call that needs a value from a step outside the floor, the messages before it
are compressed to a share of what lies outside the floor, and the values are looked for in what
comes out. A value is a leaf of the call's JSON arguments.
"""

import argparse
import json
import os
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

import agora
from agora import Budget, Compressor, Forms
from agora.core.floor import floor
from agora.core.scorer import Scorer
from agora.core.trajectory import Trajectory
from agora.scorers import load_scorer
from agora.scorers.lexical import LexicalScorer
from agora.scorers.recency import RecencyScorer

SHARES = (0.15, 0.30, 0.50)
RESAMPLES = 2_000
FILES = {
    "airline": "tau-bench/gpt-4o-airline.json",
    "retail": "agentrx/tau_dataset_full.json",
}


@dataclass(frozen=True, slots=True)
class Anchor:
    """A recorded call and what it needs from steps outside the floor."""

    task: str
    messages: list[dict[str, Any]]
    needed: frozenset[str]
    floor_tokens: int
    outside_tokens: int


METHODS: dict[str, tuple[Scorer, Forms | None]] = {
    "sliding window": (RecencyScorer(), None),
    "BM25": (LexicalScorer(), None),
    "AGORA": (load_scorer(), Forms()),
}


def leaves(value: object) -> Iterator[str]:
    """Yield the strings and numbers in a JSON value."""
    if isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool)):
        yield str(value)


def leaf_values(arguments: str) -> set[str]:
    """Return what a call's JSON arguments hold, leaf by leaf."""
    try:
        return {leaf for leaf in leaves(json.loads(arguments)) if leaf.strip()}
    except ValueError:
        return set()


def stands_in(value: str, text: str) -> bool:
    """Tell whether `value` stands in `text`, not inside a longer word or number."""
    start = text.find(value)
    while start >= 0:
        before = text[start - 1] if start else " "
        end = start + len(value)
        after = text[end] if end < len(text) else " "
        inside = (before.isalnum() and value[0].isalnum()) or (
            after.isalnum() and value[-1].isalnum()
        )
        if not inside:
            return True
        start = text.find(value, start + 1)
    return False


def texts(trajectory: Trajectory, numbers: Sequence[int]) -> str:
    """Return what the named steps say."""
    steps = [trajectory.steps[number - 1] for number in numbers]
    return "\n".join(f"{step.action}\n{step.observation}" for step in steps)


def anchors(path: Path) -> Iterator[Anchor]:
    """Yield every recorded call that needs something from outside the floor."""
    for episode in json.loads(path.read_text()):
        messages = episode["traj"]
        for position, message in enumerate(messages):
            if not message.get("tool_calls"):
                continue
            past = messages[:position]
            trajectory = agora.parse(past, format="openai")
            held = floor(trajectory.steps, k_recent=2)
            outside = [s.number for s in trajectory.steps if s.number not in held]
            if not outside:
                continue
            inside = texts(trajectory, sorted(held))
            inside += trajectory.preamble + "\n".join(u.text for u in trajectory.utterances)
            beyond = texts(trajectory, outside)
            wanted = set[str]().union(
                *(leaf_values(call["function"]["arguments"]) for call in message["tool_calls"])
            )
            needed = {v for v in wanted if stands_in(v, beyond) and not stands_in(v, inside)}
            if needed:
                outside_tokens = sum(trajectory.steps[n - 1].tokens for n in outside)
                yield Anchor(
                    str(episode["task_id"]),
                    past,
                    frozenset(needed),
                    trajectory.tokens - outside_tokens,
                    outside_tokens,
                )


def covered(anchor: Anchor, compressor: Compressor) -> tuple[bool, int]:
    """Return whether all that is needed is still there, and what was sent of the rest."""
    compression = compressor.compress(anchor.messages, format="openai")
    text = "\n".join(_text(message) for message in compression.messages)
    sent = compression.tokens_after - anchor.floor_tokens
    return all(stands_in(value, text) for value in anchor.needed), sent


def _text(message: dict[str, Any]) -> str:
    calls = message.get("tool_calls") or ()
    parts = [str(message.get("content") or ""), *(c["function"]["arguments"] for c in calls)]
    return "\n".join(parts)


def interval(by_task: dict[str, list[bool]], chance: random.Random) -> tuple[float, float, float]:
    """Return the share of true values with its 95 % bootstrap interval, resampled by task."""
    tasks = list(by_task.values())
    flat = [value for values in tasks for value in values]
    shares = []
    for _ in range(RESAMPLES):
        drawn = chance.choices(tasks, k=len(tasks))
        hits = sum(map(sum, drawn))
        shares.append(hits / sum(map(len, drawn)))
    shares.sort()
    low, high = shares[int(0.025 * RESAMPLES)], shares[int(0.975 * RESAMPLES)]
    return sum(flat) / len(flat), low, high


def main() -> None:
    """Print the table, and write the figures to a file if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="write the figures here")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    data = Path(os.environ.get("AGORA_DATA", Path(__file__).parents[2] / "shared" / "data"))
    console = Console()
    results: list[dict[str, Any]] = []
    for domain, file in FILES.items():
        path = data / file
        if not path.exists():
            sys.exit(f"{path} is not there; set AGORA_DATA to the folder that has {file}")
        found = list(anchors(path))
        tasks = len({anchor.task for anchor in found})
        table = Table(title=f"{domain}: {len(found)} calls of {tasks} tasks")
        for column in ("kept", *(f"{share:.0%}" for share in SHARES)):
            table.add_column(column)
        for name, (scorer, forms) in track(METHODS.items(), domain, console=console):
            base = Compressor(scorer=scorer, forms=forms, schedule="every_call")
            cells = []
            for share in SHARES:
                by_task: dict[str, list[bool]] = defaultdict(list)
                overspent = 0
                for anchor in found:
                    room = int(share * anchor.outside_tokens)
                    hit, sent = covered(
                        anchor, replace(base, budget=Budget(limit=anchor.floor_tokens + room))
                    )
                    by_task[anchor.task].append(hit)
                    overspent += sent > room + 24
                mean, low, high = interval(by_task, random.Random(options.seed))
                cells.append(f"{mean:.0%} [{low:.0%}, {high:.0%}]")
                results.append(
                    {
                        "domain": domain,
                        "calls": len(found),
                        "tasks": tasks,
                        "method": name,
                        "share": share,
                        "covered": mean,
                        "interval": [low, high],
                        "overspent": overspent,
                    }
                )
            table.add_row(name, *cells)
        console.print(table)
    if options.out:
        options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Experiments drawn from episodes that were played: whether harm is stopped and no harm cleared.

    python -m benchmarks.experiment_drawn --experiments 1000 --out FILE
    python -m benchmarks.experiment_drawn --gateway --experiments 1000 --out FILE

The episodes are those of the lab's readers (docs/results/readers), each task played once with each
method. A conversation of an experiment is a task drawn at random, in one of the arms by a fair
coin. These were not played through a gateway. Those of `--gateway` were
(`lab.benchmarks.experiment_played`): long conversations at the desk, as the gateway counted them.
"""

import argparse
import gzip
import json
import random
import statistics
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

from agora.experiment.conversations import FIGURES, Conversation, figures
from agora.experiment.rules import Rule, Verdict, alpha_each, parse_rule
from agora.experiment.sequences import Comparison

ROWS = Path("docs/results/readers/rows.jsonl.gz")
GATEWAY_ROWS = Path("docs/results/experiment-played.jsonl.gz")
SHEET = "gpt-5-mini"
BOUNDS = tuple(
    parse_rule(text) for text in ("dollars > +5%", "typical_calls > +5%", "outcome < -0.03")
)
WITHOUT_CALLS = tuple(rule for rule in BOUNDS if rule.figure != "typical_calls")
METHODS = ("floor", "agora", "agora_any_size")
"""What is tried; `floor` is the harmful one."""
_LOOK_EVERY, _LOOK_SHARE = 10, 0.02
"""Conversations between two looks, and the same as a share of those that were seen: a gateway looks
every few seconds."""


Played = dict[str, dict[str, dict[str, float]]]
"""The figures of each task, by method."""


def played(path: Path) -> Played:
    """Return what readers played."""
    found: Played = {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            if row.get("method") in ("none", *METHODS):
                conversation = Conversation(
                    calls=row["steps"], dollars=row["bills"][SHEET], outcome=row["reward"]
                )
                place = f"{row['environment']} {row['task']}"
                found.setdefault(row["method"], {})[place] = figures(conversation)
    return found


def through_gateway(path: Path) -> Played:
    """Return the same of conversations that a gateway counted, by arm."""
    found: Played = {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            method = "none" if row["arm"] == "everything" else row["arm"]
            found.setdefault(method, {})[row["task"]] = figures(Conversation.from_json(row))
    return found


def experiment(
    ours: list[dict[str, float]],
    theirs: list[dict[str, float]],
    bounds: Sequence[Rule],
    most: int,
    seed: int,
) -> tuple[str, int]:
    """Return how an experiment ends (a bound that was passed, `cleared`, `open`), and when."""
    chance = random.Random(seed)
    alpha = alpha_each(len(bounds))
    pairs = {rule.figure: Comparison() for rule in bounds}
    cleared: set[str] = set()
    look_at = _LOOK_EVERY
    for count in range(1, most + 1):
        at, treated = chance.randrange(len(ours)), chance.random() < 0.5
        found = (ours if treated else theirs)[at]
        for name, pair in pairs.items():
            pair.observe(found[name], treated=treated)
        if count < look_at:
            continue
        look_at = count + max(_LOOK_EVERY, int(count * _LOOK_SHARE))
        for rule in bounds:
            verdict = rule.verdict(pairs[rule.figure], alpha)
            if verdict is Verdict.HARM:
                return rule.text, count
            if verdict is Verdict.CLEARED:
                cleared.add(rule.text)
        if len(cleared) == len(bounds):
            return "cleared", count
    return "open", most


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--experiments", type=int, default=1_000)
    parser.add_argument("--conversations", type=int, default=20_000, help="at most")
    parser.add_argument("--gateway", action="store_true", help="rows of a running gateway")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    by_method = through_gateway(GATEWAY_ROWS) if chosen.gateway else played(ROWS)
    rows = []
    for method, bounds in product(METHODS, (BOUNDS, WITHOUT_CALLS)[: 1 + chosen.gateway]):
        if method not in by_method:
            continue
        tasks = sorted(by_method[method].keys() & by_method["none"].keys())
        ours, theirs = ([by_method[each][task] for task in tasks] for each in (method, "none"))
        ends = [
            experiment(ours, theirs, bounds, chosen.conversations, seed)
            for seed in range(chosen.experiments)
        ]
        row: dict[str, Any] = {
            "method": method,
            "tasks": len(ours),
            "experiments": chosen.experiments,
            "real_effect": {
                rule.text: round(_mean(ours, rule.figure) - _mean(theirs, rule.figure), 4)
                for rule in bounds
            },
        }
        if chosen.gateway:
            row["everything"] = _means(theirs)
            row[method] = _means(ours)
        for how in sorted({end for end, _ in ends}):
            when = [count for end, count in ends if end == how]
            row[how] = {
                "share": len(when) / len(ends),
                "median_conversations": statistics.median(when),
                "most_conversations": max(when),
            }
        print(json.dumps(row), flush=True)
        rows.append(row)
    if chosen.out:
        chosen.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def _mean(rows: list[dict[str, float]], figure: str) -> float:
    return statistics.mean(row[figure] for row in rows)


def _means(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(_mean(rows, name), 4) for name in FIGURES}


if __name__ == "__main__":
    main()

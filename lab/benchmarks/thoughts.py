"""What later messages take up of thoughts, commands and results, without a language model.

    python -m lab.benchmarks.thoughts coding claude-code [--points 220] [--json thoughts.json]

At points as in `needs`, drawn by lot: names, numbers and runs of eight words that the
next ten steps say, that stand outside the floor, and neither in it nor in what came since. Each is
looked for in what was thought, done and returned outside the floor. What stands in one of the
three alone is gone with it. Shares have 95 % intervals over runs.
"""

import argparse
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.benchmarks.needs import CALLS, CLAUDE_CODE, places, runs_of
from rich.console import Console
from rich.table import Table

from agora.core.floor import floor
from agora.core.reading.actions import only_command
from agora.core.reading.names import identifiers
from agora.core.recall import recalled
from agora.core.tokens import EstimatedTokens
from agora.core.trajectory import Step
from agora_lab.chats import K_RECENT
from agora_lab.fidelity.sources import SOURCES
from agora_lab.labelling.hindsight import stands_in

PARTS = ("thought", "command", "result")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.]*\w)")
_COUNTER = EstimatedTokens()


def parts_of(step: Step) -> dict[str, str]:
    """Return what a step thought, what it did, and what came back."""
    done = "\n".join(call.arguments for call in step.calls) or only_command(step.action)
    said = "" if step.calls else step.action.replace(done, "") if done else step.action
    # A text without a command is what was done, as far as we know.
    thought, command = (said, done) if done else ("", said)
    return {
        "thought": f"{step.thought}\n{thought}",
        "command": command,
        "result": step.observation,
    }


def taken_up(text: str) -> set[Any]:
    """Return what of a later text could be taken from an earlier one."""
    names = set(identifiers(text)) | set(_NUMBER.findall(text))
    return names | runs_of(text)


class Texts:
    """A text and its runs of words."""

    def __init__(self, text: str) -> None:
        self.text, self.runs = text, runs_of(text)

    def __contains__(self, need: Any) -> bool:
        """Tell whether it has what is needed: a run of words, a name or a number."""
        return need in self.runs if isinstance(need, tuple) else stands_in(need, self.text)

    def add(self, text: str) -> None:
        """Append what came since."""
        self.text += f"\n{text}"
        self.runs |= runs_of(text)


def counted(
    past: Sequence[Step], later: Sequence[Step], preamble: Sequence[str]
) -> dict[str, float]:
    """Return tokens of each part outside the floor, and what only it has of later needs."""
    held = floor(past, k_recent=K_RECENT, recalled=recalled(past))
    kept = [step for step in past if step.number in held]
    outside = [parts_of(step) for step in past if step.number not in held]
    texts = {part: Texts("\n".join(one[part] for one in outside)) for part in PARTS}
    found: dict[str, float] = defaultdict(float)
    for part in PARTS:
        found[f"tokens {part}"] = _COUNTER.count(texts[part].text)
    shown = Texts("\n".join([*preamble, *["\n".join(parts_of(step).values()) for step in kept]]))
    for step in later:
        now = parts_of(step)
        for by in ("thought", "command"):
            for need in taken_up(now[by]):
                places_of = [part for part in PARTS if need in texts[part]]
                if not places_of or need in shown:
                    continue
                kind = "runs" if isinstance(need, tuple) else "names"
                found[f"{by} {kind}"] += 1
                if len(places_of) == 1:
                    found[f"{by} {kind} only {places_of[0]}"] += 1
        shown.add("\n".join(now.values()))
    return found


def measured(source: str, most: int, a_run: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield for each point its run and what was counted."""
    for number, (one, parsed, step) in enumerate(places(source, a_run)):
        if number == most:
            return
        trajectory = parsed.trajectory
        past, later = trajectory.steps[: step - 1], trajectory.steps[step - 1 :][:CALLS]
        said = [utterance.text for utterance in trajectory.said_before(step)]
        yield one.task, counted(past, later, [trajectory.preamble, *said])


def share(rows: Sequence[Mapping[str, float]], of: str, all_of: str) -> float:
    """Return one sum as a share of another."""
    whole = sum(row.get(all_of, 0) for row in rows)
    return sum(row.get(of, 0) for row in rows) / whole if whole else 0.0


def with_interval(
    by_run: Mapping[str, Sequence[Mapping[str, float]]], of: str, all_of: str
) -> list[float]:
    """Return a share and its interval, whole runs resampled."""
    runs, draw = list(by_run.values()), random.Random(0)
    drawn = sorted(
        share([row for own in draw.choices(runs, k=len(runs)) for row in own], of, all_of)
        for _ in range(1_000)
    )
    whole = share([row for own in runs for row in own], of, all_of)
    return [round(value, 4) for value in (whole, drawn[25], drawn[974])]


def figures(source: str, most: int, a_run: int, console: Console) -> dict[str, Any]:
    """Measure a source, print its table and return it."""
    by_run: dict[str, list[Mapping[str, float]]] = defaultdict(list)
    for run, row in measured(source, most, a_run):
        tokens = sum(row[f"tokens {part}"] for part in PARTS)
        by_run[run].append({**row, "tokens": tokens})
    points = sum(map(len, by_run.values()))
    found: dict[str, Any] = {"source": source, "points": points, "runs": len(by_run)}
    title = f"{source}: {points} points of {len(by_run)} runs"
    table = Table("taken up by", *[f"only in a {part}" for part in PARTS], title=title)
    rows = {"(share of the tokens)": ("tokens", "tokens {}")}
    for by in ("thought", "command"):
        for kind in ("names", "runs"):
            rows[f"a later {by}, {kind}"] = (f"{by} {kind}", f"{by} {kind} only {{}}")
    for name, (all_of, of) in rows.items():
        cells = {part: with_interval(by_run, of.format(part), all_of) for part in PARTS}
        count = round(sum(row.get(all_of, 0) for own in by_run.values() for row in own))
        found[name] = {"n": count, **cells}
        shown = [f"{mean:.3f} [{low:.3f}, {high:.3f}]" for mean, low, high in cells.values()]
        table.add_row(f"{name} ({count:,})", *shown)
    console.print(table)
    return found


def main() -> None:
    """Measure each source, and report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sources", nargs="+", choices=[*SOURCES, CLAUDE_CODE])
    parser.add_argument("--points", type=int, default=220)
    parser.add_argument("--a-run", type=int, default=2, help="points; of Claude Code six times")
    parser.add_argument("--json", type=Path, help="write the figures here")
    chosen = parser.parse_args()
    console = Console()
    # Its sessions are few and long.
    often = {
        source: chosen.a_run * (6 if source == CLAUDE_CODE else 1) for source in chosen.sources
    }
    found = [figures(source, chosen.points, many, console) for source, many in often.items()]
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

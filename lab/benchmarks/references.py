r"""What the judge says of references: lines that the prompt shows already, left out at arrival.

    python -m lab.benchmarks.references FOLDER --out RUN [--half validation] [--anchors 60] \
        [--most-tokens 3500] [--processes 2] [--report docs/results/references.json]

At a point the newest result repeats lines of an earlier one that is outside the floor. The judge
reads the next message of the recorded agent after instructions, task and all steps from the
repeated one on ("everything"; the steps before it are left out, since whole prompts would take it
hours), after the same prompt with the repeated lines replaced in several wordings, and after the
floor. Only what is missing is computed: the same command resumes a run.
Nothing of the recorded texts is written down.
"""

import argparse
import json
import math
import os
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from agora_lab.chats import text_of
from agora_lab.fidelity.anchors import Anchor, Recorded, half_of, lot
from agora_lab.fidelity.making import PromptMaker
from agora_lab.fidelity.rendering import ModelTokens, Rendering
from agora_lab.fidelity.rows import FLOOR, Row
from agora_lab.fidelity.sources import SOURCES, recorded
from agora_lab.fidelity.targets import marks

_VIEW = re.compile(r"(?:^|[|&;]\s*|\bcd \S+ && )(?:cat|sed -n|nl|head|tail|less)\b")
_LISTING = re.compile(r"\b(?:grep|ls|find|git (?:status|log|diff))\b")
_EDIT = re.compile(r"sed -i|cat <<|> |patch|write|apply|open\(")
_PATH = re.compile(r"[\w./-]*/[\w.-]+|\b[\w-]+\.\w{1,4}\b")
_CONTEXT = 2
"""Lines that stay at both ends of a run."""
_OPENING = 2
"""The system's message and the task."""
_LEAST_DISTANCE = 3
"""Two steps are in the floor anyway."""
_MIN_LINES = 4
_MIN_CHARACTERS = 120
KINDS = ("view again", "view after an edit", "whole result", "output")
_NUMBERED = re.compile(r"( *)(\d+)([\t:\-→|]\s?)(?s:(.*))")
"""A line as `cat -n`, `nl`, `grep -n` and the read tools of coding agents write it."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """A run of lines that an earlier result has too."""

    start: int
    end: int
    """The line after its last one."""
    result: int
    """Which of the earlier results has it."""
    line: int
    """Where it begins there."""


@dataclass(slots=True)
class _Shown:
    """The lines of the results that a prompt shows, in the order in which they were added."""

    min_lines: int = _MIN_LINES
    min_characters: int = _MIN_CHARACTERS
    _results: list[tuple[str, ...]] = field(default_factory=list)
    _places: dict[tuple[str, ...], tuple[int, int]] = field(default_factory=dict)

    def add(self, lines: Sequence[str], hidden: Sequence[Repeat] = ()) -> None:
        """Take note of a result whose `hidden` runs do not stand in the prompt themselves."""
        texts = tuple(map(_unnumbered, lines))
        number = len(self._results)
        self._results.append(texts)
        gone = {line for run in hidden for line in range(run.start, run.end)}
        for at in range(len(texts) - self.min_lines + 1):
            window = texts[at : at + self.min_lines]
            if gone.isdisjoint(range(at, at + self.min_lines)):
                # The newest place wins: it is the nearest to whoever reads the reference.
                self._places[window] = number, at

    def repeats(self, lines: Sequence[str]) -> tuple[Repeat, ...]:
        """Return the runs of lines that were shown before, in their order, none overlapping."""
        texts = tuple(map(_unnumbered, lines))
        found: list[Repeat] = []
        at = 0
        while at + self.min_lines <= len(texts):
            place = self._places.get(texts[at : at + self.min_lines])
            if place is None:
                at += 1
                continue
            result, line = place
            theirs = self._results[result]
            length = self.min_lines
            while (
                at + length < len(texts)
                and line + length < len(theirs)
                and texts[at + length] == theirs[line + length]
            ):
                length += 1
            if sum(map(len, texts[at : at + length])) >= self.min_characters:
                found.append(Repeat(at, at + length, result, line))
                at += length
            else:
                at += 1
        return tuple(found)


def _unnumbered(line: str) -> str:
    r"""Return a line without the number in front of it.

    >>> _unnumbered("    12\tdef area(self):"), _unnumbered("12:30 lunch")
    ('def area(self):', '30 lunch')
    """
    found = _NUMBERED.fullmatch(line)
    return found[4] if found else line


Wording = Callable[[Sequence[str], Repeat], list[str]]


def counted(_lines: Sequence[str], run: Repeat) -> list[str]:
    """Say how many lines are left out."""
    return [f"[{run.end - run.start} lines left out: the same as in an earlier result above]"]


def quoted(lines: Sequence[str], run: Repeat) -> list[str]:
    """Name the first and the last line that is left out."""
    first, last = (lines[at].strip()[:60] for at in (run.start, run.end - 1))
    count = run.end - run.start
    return [f"[{count} lines left out, unchanged, shown above: from `{first}` to `{last}`]"]


def in_context(lines: Sequence[str], run: Repeat) -> list[str]:
    """Keep the lines at both ends, as a diff does."""
    first, last = run.start + _CONTEXT, run.end - _CONTEXT
    if last - first < _CONTEXT:
        return list(lines[run.start : run.end])
    note = f"[{last - first} lines left out, unchanged, shown above]"
    return [*lines[run.start : first], note, *lines[last : run.end]]


WORDINGS: Mapping[str, Wording] = {"counted": counted, "quoted": quoted, "context": in_context}
METHODS = ("everything", *WORDINGS, FLOOR)


@dataclass(frozen=True, slots=True)
class Point:
    """An anchor whose newest result repeats lines of an earlier one."""

    anchor: Anchor
    kind: str
    distance: int
    """How many results lie between the repeat and what it repeats, at most."""
    runs: tuple[Repeat, ...]

    @property
    def messages(self) -> list[Mapping[str, Any]]:
        """Instructions, task, and the steps from the oldest that is repeated."""
        oldest = min(run.result for run in self.runs)
        messages = self.anchor.messages
        return [*messages[:_OPENING], *messages[_OPENING + 2 * oldest :]]

    def worded(self, wording: Wording) -> list[Mapping[str, Any]]:
        """Return the prompt with the repeated lines of its newest result left out."""
        messages = self.messages
        lines = text_of(messages[-1]).split("\n")
        written: list[str] = []
        at = 0
        for run in self.runs:
            written += [*lines[at : run.start], *wording(lines, run)]
            at = run.end
        messages[-1] = {**messages[-1], "content": "\n".join([*written, *lines[at:]])}
        return messages


def points_of(one: Recorded) -> Iterator[Point]:
    """Yield the points of a trajectory at which the newest result repeats something."""
    shown = _Shown()
    commands: list[str] = []
    step = 0
    for at in range(_OPENING, len(one.messages) - 1):
        message = one.messages[at]
        if message["role"] == "assistant":
            step += 1
            commands.append(text_of(message).rpartition("```bash")[2])
            continue
        lines = text_of(message).split("\n")
        runs = shown.repeats(lines)
        if runs and one.messages[at + 1]["role"] == "assistant":
            anchor = Anchor(recorded=one, step=step + 1, at=at + 1, needed=())
            farthest = max(step - 1 - run.result for run in runs)
            yield Point(anchor, _kind(commands, lines, runs), farthest, runs)
        shown.add(lines)


def _kind(commands: Sequence[str], lines: Sequence[str], runs: Sequence[Repeat]) -> str:
    command, oldest = commands[-1], min(run.result for run in runs)
    if sum(run.end - run.start for run in runs) >= len(lines) - 3:
        return "whole result"
    if _VIEW.search(command.strip()):
        paths = {path.rpartition("/")[2] for path in _PATH.findall(command)}
        between = " ".join(one for one in commands[oldest + 1 : -1] if _EDIT.search(one))
        edited = any(path in between for path in paths)
        return "view after an edit" if edited else "view again"
    return "listing" if _LISTING.search(command) else "output"


def chosen(half: str, most: int, counter: ModelTokens, seed: int) -> list[Point]:
    """Return the points of a half: of each kind one a run, by lot, the kinds in turn.

    Prompts of more than so many tokens are left out.
    """
    found: dict[str, list[Point]] = {kind: [] for kind in KINDS}
    for one in recorded(SOURCES["coding"]):
        if half_of("coding", one.group) != half:
            continue
        for kind in KINDS:
            fitting = [
                point
                for point in points_of(one)
                if point.kind == kind
                and point.distance >= _LEAST_DISTANCE
                and sum(counter.count(text_of(m)) for m in point.messages) <= most
            ]
            if fitting:
                found[kind].append(min(fitting, key=lambda point: lot(seed, point.anchor.key)))
    for points in found.values():
        points.sort(key=lambda point: lot(seed, "order", point.anchor.key))
    turns = max(map(len, found.values()))
    return [points[n] for n in range(turns) for points in found.values() if n < len(points)]


def read(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what was measured."""
    found = {}
    for file in sorted(folder.glob("part-*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            found[one["anchor"], one["method"]] = one
    return found


def measure(points: Sequence[Point], scorer: Any, making: PromptMaker, out: Path) -> None:
    """Measure what is missing at these points."""
    known = read(out.parent)
    with out.open("a", encoding="utf-8") as file:
        for point in points:
            anchor = point.anchor
            base = point.messages
            target = making.rendering.target(base, anchor.target)
            ids, spans = making.rendering.pieces(target)
            marked = marks(target, anchor.target, (), spans)
            whole = len(making.token_ids(anchor, base))
            for method in METHODS:
                if (anchor.key, method) in known:
                    continue
                if method in WORDINGS:
                    messages = point.worded(WORDINGS[method])
                elif method == FLOOR:
                    messages, _ = making.fitted(anchor, Row(FLOOR, None), (0, 0))
                else:
                    messages = base
                prompt = making.token_ids(anchor, messages)
                scored = scorer.score(prompt, ids)
                value = {
                    "anchor": anchor.key,
                    "task": anchor.recorded.task,
                    "half": anchor.half,
                    "kind": point.kind,
                    "distance": point.distance,
                    "lines": sum(run.end - run.start for run in point.runs),
                    "method": method,
                    "tokens_whole": whole,
                    "tokens_sent": len(prompt),
                    "message": round(math.fsum(scored.nats), 4),
                    "action": round(
                        math.fsum(n for n, m in zip(scored.nats, marked, strict=True) if m), 4
                    ),
                    "seconds": round(scored.seconds, 1),
                }
                file.write(json.dumps(value) + "\n")
                file.flush()
            scorer.forget()


def spread(points: Sequence[Point], scorer: Any, making: PromptMaker, out: Path, n: int) -> None:
    """Measure in several processes that share the model's memory."""
    children = []
    for number in range(n):
        child = os.fork()
        if not child:
            try:
                measure(points[number::n], scorer, making, out / f"part-{number}.jsonl")
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def summary(rows: Mapping[tuple[str, str], Mapping[str, Any]]) -> dict[str, Any]:
    """Return the share of the gap between floor and everything that each wording loses."""
    anchors = sorted({anchor for anchor, _ in rows})
    whole = [a for a in anchors if all((a, method) in rows for method in METHODS)]
    kinds: dict[str, list[str]] = defaultdict(list)
    for anchor in whole:
        kinds["all"].append(anchor)
        kinds[str(rows[anchor, "everything"]["kind"])].append(anchor)
    return {
        kind: {
            "anchors": len(members),
            "tokens_saved": _saved(rows, members),
            **{
                target: {method: _lost(rows, members, method, target) for method in WORDINGS}
                for target in ("message", "action")
            },
        }
        for kind, members in sorted(kinds.items(), key=lambda one: -len(one[1]))
    }


def _saved(rows: Mapping[Any, Any], anchors: Sequence[str]) -> dict[str, float]:
    whole = sum(rows[a, "everything"]["tokens_sent"] for a in anchors)
    return {
        method: round(1 - sum(rows[a, method]["tokens_sent"] for a in anchors) / whole, 4)
        for method in WORDINGS
    }


def _lost(rows: Mapping[Any, Any], members: Sequence[str], method: str, target: str) -> Any:
    """Return what a wording loses where it leaves something out: elsewhere the prompt is the same.

    Some pairs of equal prompts were scored on different days and differ by up to 5 nats.
    """
    anchors = [
        a for a in members if rows[a, method]["tokens_sent"] < rows[a, "everything"]["tokens_sent"]
    ]
    if not anchors:
        return {"anchors": 0, "lost": None, "interval": None}

    def share(members: Sequence[str]) -> float:
        gap = sum(rows[a, FLOOR][target] - rows[a, "everything"][target] for a in members)
        lost = sum(rows[a, method][target] - rows[a, "everything"][target] for a in members)
        return lost / gap if gap > 0 else math.nan

    draw = random.Random(0)
    shares = [share(draw.choices(anchors, k=len(anchors))) for _ in range(2000)]
    # Draws in which the floor loses nothing have no share; sorted with them nothing is in order.
    drawn = sorted(value for value in shares if not math.isnan(value))
    differences = sorted(rows[a, method][target] - rows[a, "everything"][target] for a in anchors)
    return {
        "anchors": len(anchors),
        # Where the floor loses nothing there is no share of it.
        "lost": None if math.isnan(share(anchors)) else round(share(anchors), 4),
        "interval": [round(drawn[int(len(drawn) * q)], 4) for q in (0.025, 0.975)]
        if drawn
        else None,
        "nats_median": round(differences[len(differences) // 2], 3),
        "nats_worst": round(differences[-1], 3),
    }


def show(found: Mapping[str, Any], console: Console) -> None:
    """Print the table."""
    table = Table(title="share of the gap that references lose (message / action)")
    for name in ("kind", "anchors", *WORDINGS):
        table.add_column(name)
    for kind, values in found.items():
        cells = []
        for method in WORDINGS:
            message, action = values["message"][method], values["action"][method]
            cells.append(
                f"{message['lost']} {message['interval']} / {action['lost']} "
                f"{action['interval']}, {message['anchors']} of them, "
                f"tokens -{values['tokens_saved'][method]:.1%}"
            )
        table.add_row(kind, str(values["anchors"]), *cells)
    console.print(table)


def main() -> None:
    """Measure, then report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--half", choices=("validation", "test"), default="validation")
    parser.add_argument("--anchors", type=int, default=60)
    parser.add_argument("--most-tokens", type=int, default=3500)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path)
    parser.add_argument("--only-report", action="store_true")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if not given.only_report:
        from agora_lab.fidelity.likelihood import arithmetic, load

        scorer, tokenizer = load(given.folder, arithmetic=arithmetic(), threads=1)
        counter = ModelTokens.of(tokenizer)
        points = chosen(given.half, given.most_tokens, counter, given.seed)
        Console().print(f"{len(points)} points, the first {given.anchors} are measured")
        making = PromptMaker(Rendering(tokenizer), counter)
        spread(points[: given.anchors], scorer, making, given.out, given.processes)
    found = summary(read(given.out))
    show(found, Console(width=200))
    if given.report:
        given.report.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

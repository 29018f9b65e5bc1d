"""Measure how much of what the next ten actions use is still in the shortened prompt: presence.

    python -m lab.benchmarks.presence --out presence.json
    python -m lab.benchmarks.presence --sources coding --shares 0.25 --out presence.json
    python -m lab.benchmarks.presence --against benchmarks/baseline-0.3.json --out presence.json

Recorded runs of agents are cut off before an action, and the prompt of that action is shortened.
The recording shows what the agent used next. No language model is asked. Presence is not use: a
model can overlook what is in its prompt, so nothing should be chosen for its presence alone. The
results file is written after every cell, and the same command resumes it.

The definitions below are frozen since 2026-11, so that figures of different versions compare. They
use no code of the compressor. Whoever changes one raises `DEFINITIONS` and measures all versions.

*Step.* An assistant message with tool calls and the results that follow it. If an agent acts by
text: an assistant message and the user message that answers it. In `coding` that answer begins with
`<returncode>`; other answers complain about an action's form. No other message is ever shortened.

*Old step.* Any step of the prompt except the newest two. Only old steps may be shortened.

*Text of a step.* Its messages and the values of its calls' arguments. Backslashes, and an `n`, `r`
or `t` after them, are read as a space everywhere, so that a text and its JSON are equal.

*Action.* The values of the arguments of a step's calls. If an agent acts by text: the last fenced
block of its message, or the whole message if there is none.

*Needed.* What one of the next ten actions uses, and what only old steps have: it is not in the
instructions, the user's messages, the newest two steps or anything that came after the cut and
before that action. There are three kinds:

- *names*: pieces of an action, 3 to 120 characters long, that have a digit, an underscore, a dot, a
  slash or another sign inside, or a capital after a small letter. Numbers need four digits and must
  not end in 000. An argument that is all capitals is a name too. Names match as whole words.
- *copied*: runs of eight words of an action. A sign is a word of its own.
- *lines*: lines of a later result, of 12 characters or more, that an old result has too. The line
  number that file views print is ignored. These lines were read again.

*Point.* A step from the sixth on, drawn by a hash of the run's and the step's name. A run gives
only a few. A point counts if something was needed. A source gives the first ones up to its limit.

*Kept.* The share of the needed things that the shortened prompt has, averaged over the points that
need that kind.

*Share.* How much of the old steps' tokens a method may keep. `sent` is how much it kept by this
file's count of tokens. The product uses its own count, so its `sent` differs a little.

*Interval.* 95 %, from 1,000 samples of whole tasks, with all points of all runs of a task. A
difference between two methods is taken at each point first.

*Half.* `validation` is for choosing, `test` for reporting (see `agora_lab.halves`). The sessions of
Claude Code are too few to split: all are one half, `all`. Nothing was trained on them.
"""

import argparse
import hashlib
import json
import re
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import agora
from agora.logs import Recording, Tally
from agora_lab.envs.data import data_file
from agora_lab.halves import group_of, half_of
from agora_lab.recorded import read_logs

DEFINITIONS = 1
RECENT_STEPS = 2
EARLIEST_STEP = 6
NEXT_ACTIONS = 10
RUN_WORDS = 8
LINE_CHARACTERS = 12
KINDS = ("names", "copied", "lines")
FIGURES = (*KINDS, "sent")
ALL = "all"
NOTE = "[output removed to save space]"
Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Source:
    """Where recorded runs are, and how many points are drawn from them."""

    path: str
    points: int
    points_a_run: int
    answers: str | None = None
    """How an observation begins, for agents that act by text."""
    halves: tuple[str, ...] = ("validation", "test")
    numbers_tasks_by_file: bool = False


SOURCES: Mapping[str, Source] = {
    "airline": Source("tau-bench/gpt-4o-airline.json", 150, 6),
    "retail": Source("agentrx/tau_dataset_full.json", 110, 3),
    "coding": Source("swe-bench-gemini/gemini-3-pro-swe-bench.jsonl.xz", 200, 1, "<returncode>"),
    "intercode": Source("intercode", 200, 2, "", numbers_tasks_by_file=True),
    "claude-code": Source("claude-code/sessions.tar.xz", 90, 6, halves=(ALL,)),
}


# Steps and what they say


@dataclass(frozen=True, slots=True)
class Step:
    """The places of a step's messages: the action's, then those of its results."""

    action: int
    end: int


def steps_of(messages: Sequence[Message], answers: str | None) -> list[Step]:
    """Return the steps of a conversation in OpenAI's chat format, oldest first.

    `answers` is how the observations of an agent that acts by text begin, None for tool calls.
    """
    steps = []
    for at, message in enumerate(messages):
        end = at + 1
        if message["role"] != "assistant":
            continue
        if answers is None:
            while end < len(messages) and messages[end]["role"] == "tool":
                end += 1
        elif end < len(messages) and messages[end]["role"] == "user":
            end += content_of(messages[end]).startswith(answers)
        if end > at + 1:
            steps.append(Step(at, end))
    return steps


def content_of(message: Message) -> str:
    """Return the text of a message without its calls."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content)


def arguments_of(message: Message) -> str:
    """Return the values of the arguments of a message's calls, one on a line."""
    calls = message.get("tool_calls") or ()
    return "\n".join(value for call in calls for value in _values(call["function"]["arguments"]))


def _values(arguments: str) -> list[str]:
    try:
        found, values = [json.loads(arguments)], []
    except ValueError:
        return [arguments]
    while found:
        value = found.pop()
        if isinstance(value, dict | list):
            found += reversed(list(value.values() if isinstance(value, dict) else value))
        else:
            values.append(value if isinstance(value, str) else json.dumps(value))
    return values


def text_of(messages: Sequence[Message]) -> str:
    """Return all that messages say, and the arguments of their calls."""
    return "\n".join(f"{content_of(message)}\n{arguments_of(message)}" for message in messages)


def action_of(message: Message) -> str:
    """Return what an assistant message does, without what it says beside it."""
    return arguments_of(message) or command_of(content_of(message))


def command_of(text: str) -> str:
    """Return the last fenced block of a text, or all of it."""
    blocks = re.findall(r"```[a-zA-Z]*\n(.*?)```", text, re.DOTALL)
    return str(blocks[-1] if blocks else text).strip()


# What counts


def unescaped(text: str) -> str:
    """Return a text with the escapes of JSON as spaces, so that it equals its own JSON."""
    return re.sub(r"\\+[nrt]?", " ", text)


def names_in(text: str) -> set[str]:
    """Return the pieces of a text that are names rather than words.

    >>> sorted(names_in('book HAT136 for mia_li_3668, cabin economy, 2 bags, $250 in src/a.py'))
    ['$250', 'HAT136', 'mia_li_3668', 'src/a.py']
    """
    pieces = {piece.strip(".,-") for piece in re.findall(r"[\w#$@~./-]{3,}", unescaped(text))}
    return {piece for piece in pieces if 3 <= len(piece) <= 120 and _is_name(piece)}


def _is_name(piece: str) -> bool:
    if re.fullmatch(r"[\d.]+", piece):
        return sum(character.isdigit() for character in piece) >= 4 and not piece.endswith("000")
    return bool(re.search(r"\d|_|[a-z][A-Z]|\w[#$@~./]\w|^[/~$#@]\w", piece))


def names_used(message: Message) -> set[str]:
    """Return the names that the action of a message uses."""
    codes = re.findall(r"^[A-Z]{3,20}$", arguments_of(message), re.MULTILINE)
    return names_in(action_of(message)) | set(codes)


def has_name(text: str, name: str) -> bool:
    """Return True if a name is in a text as a whole word.

    >>> has_name("HAT136 leaves", "HAT136"), has_name("HAT1364", "HAT136")
    (True, False)
    """
    before = r"(?<!\w)" if re.match(r"\w", name) else ""
    after = r"(?!\w)" if re.match(r"\w", name[-1]) else ""
    return name in text and bool(re.search(before + re.escape(name) + after, text))


def runs_in(text: str) -> set[tuple[str, ...]]:
    """Return all runs of eight words of a text."""
    words = re.findall(r"\w+|[^\w\s]", unescaped(text))
    return {tuple(words[at : at + RUN_WORDS]) for at in range(len(words) - RUN_WORDS + 1)}


def lines_in(text: str) -> set[str]:
    """Return the lines of a text that say something, without the numbers of file views."""
    bare = (re.sub(r"^\s*\d{1,6}[\t:|-]?\s?", "", line).strip() for line in text.splitlines())
    return {unescaped(line) for line in bare if len(line) >= LINE_CHARACTERS}


_TOKEN = re.compile(r"[^\W\d_]{1,8}|\d{1,3}|\n\s*|[^\w\s]+|_")


def tokens_in(messages: Sequence[Message]) -> int:
    """Return about how many tokens messages take, with 4 a message and 8 a call for their frames.

    Letters count by eight, digits by three, signs side by side as one. On the recordings that is
    within 6 % of the product's own estimate.
    """
    tokens = 0
    for message in messages:
        called = [call["function"] for call in message.get("tool_calls") or ()]
        texts = [content_of(message), *[one["name"] + one["arguments"] for one in called]]
        tokens += 4 + 8 * len(called) + sum(len(_TOKEN.findall(text)) for text in texts)
    return tokens


# Points


@dataclass(frozen=True)
class Point:
    """A prompt of a recorded run, and what the next ten actions need of its old steps."""

    task: str
    messages: list[Message]
    old: list[Step]
    observations: Any
    needs: Mapping[str, frozenset[Any]]


def point_at(recording: Recording, messages: list[Message], step: int, source: Source) -> Point:
    """Return the point before a step, the first being 0."""
    steps = steps_of(messages, source.answers)
    cut, old = steps[step].action, steps[: step - RECENT_STEPS]
    olds = [at for one in old for at in range(one.action, one.end)]
    old_text = unescaped(text_of([messages[at] for at in olds]))
    old_results = [messages[at] for one in old for at in range(one.action + 1, one.end)]
    old_runs, old_lines = runs_in(old_text), lines_in(text_of(old_results))
    rest = text_of([messages[at] for at in range(cut) if at not in set(olds)])
    needs: dict[str, set[Any]] = {kind: set() for kind in KINDS}
    came = cut
    for later in steps[step : step + NEXT_ACTIONS]:
        rest = "\n".join([rest, text_of(messages[came : later.action])])
        came = later.action
        action = action_of(messages[later.action])
        plain = unescaped(rest)
        needs["names"] |= {
            name
            for name in names_used(messages[later.action])
            if has_name(old_text, name) and not has_name(plain, name)
        }
        needs["copied"] |= (runs_in(action) & old_runs) - runs_in(rest)
        read = lines_in(text_of(messages[later.action + 1 : later.end]))
        needs["lines"] |= (read & old_lines) - lines_in(rest)
    file = recording.id.partition(":")[0] if source.numbers_tasks_by_file else ""
    return Point(
        task=f"{file}:{recording.task or recording.id}",
        messages=messages[:cut],
        old=old,
        observations=recording.observations,
        needs={kind: frozenset(one) for kind, one in needs.items()},
    )


def kept_of(needs: Mapping[str, frozenset[Any]], sent: Sequence[Message]) -> dict[str, float]:
    """Return the share of each kind of need that the messages still have."""
    text = text_of(sent)
    plain, runs, lines = unescaped(text), runs_in(text), lines_in(text)
    kept = {
        "names": sum(has_name(plain, name) for name in needs["names"]),
        "copied": len(needs["copied"] & runs),
        "lines": len(needs["lines"] & lines),
    }
    return {kind: kept[kind] / len(needs[kind]) for kind in KINDS if needs[kind]}


def lot(*parts: object) -> bytes:
    """Return bytes that order things as if by lot."""
    return hashlib.blake2b("|".join(map(str, parts)).encode(), digest_size=8).digest()


@lru_cache(maxsize=4)
def points(name: str, half: str) -> list[Point]:
    """Return the points of one half of a source."""
    source, found = SOURCES[name], list[Point]()
    runs = [
        run
        for run in recordings(source)
        if half == ALL or half_of(name, group_of(name, run.task or run.id, run.id)) == half
    ]
    for run in sorted(runs, key=lambda run: lot("needs", run.id)):
        messages = chat(run.messages) if run.format == "anthropic" else list(run.messages)
        steps = range(EARLIEST_STEP - 1, len(steps_of(messages, source.answers)))
        if agora.validate(messages, format="openai"):
            continue
        drawn = sorted(steps, key=lambda step: lot("needs", run.id, step + 1))
        for step in drawn[: source.points_a_run]:
            point = point_at(run, messages, step, source)
            found += [point] if any(point.needs.values()) else []
            if len(found) == source.points:
                return found
    return found


def recordings(source: Source) -> list[Recording]:
    """Return the recorded runs of a source. This is the only place that reads them."""
    path = data_file(source.path, origin="the recorded trajectories of the data README")
    if path.name.endswith(".tar.xz"):
        with tempfile.TemporaryDirectory() as folder, tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")
            return list(read_logs([Path(folder)], Tally()))
    return list(read_logs([path], Tally()))


def chat(messages: Sequence[Message]) -> list[Message]:
    """Return Anthropic's messages in OpenAI's format, without what was thought."""
    found: list[Message] = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        calls = []
        for block in blocks:
            if block["type"] == "tool_use":
                called = {"name": block["name"], "arguments": json.dumps(block["input"])}
                calls.append({"id": block["id"], "type": "function", "function": called})
            elif block["type"] == "tool_result":
                key, result = block["tool_use_id"], content_of(block)
                found.append({"role": "tool", "tool_call_id": key, "content": result})
        text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
        if text or calls:
            more = {"tool_calls": calls} if calls else {}
            found.append({"role": message["role"], "content": text, **more})
    return found


# Methods


def default(point: Point, share: float) -> Sequence[Message]:
    """Return what the product's default sends when it edits at this call.

    This is the only place that names settings of the product.
    """
    budget = agora.Budget(keep_ratio=0.0, min_ratio=share)
    compressor = agora.Compressor(edits="every_call", budget=budget)
    done = compressor.compress(point.messages, format="openai", observations=point.observations)
    return list(done.messages)


def sliding_window(point: Point, share: float) -> Sequence[Message]:
    """Keep the newest old steps whole, as many as fit; one too large is passed over."""
    room = share * tokens_in(old_messages(point))
    gone = set[int]()
    for step in reversed(point.old):
        tokens = tokens_in(point.messages[step.action : step.end])
        if tokens <= room:
            room -= tokens
        else:
            gone |= set(range(step.action, step.end))
    return [message for at, message in enumerate(point.messages) if at not in gone]


def commands_first(point: Point, share: float) -> Sequence[Message]:
    """Keep every old command with a note for its results, then the newest steps whole that fit.

    Where not even the commands fit, the oldest steps go.
    """
    short = {step: _command_only(point, step) for step in point.old}
    whole = {step: point.messages[step.action : step.end] for step in point.old}
    room = share * tokens_in(old_messages(point))
    room -= sum(map(tokens_in, short.values()))
    for step in point.old:
        if room < 0:
            room += tokens_in(short[step])
            short[step] = []
    for step in reversed(point.old):
        more = tokens_in(whole[step]) - tokens_in(short[step])
        if short[step] and more <= room:
            room -= more
            short[step] = whole[step]
    sent: list[Message] = []
    at = 0
    for step in point.old:
        sent += [*point.messages[at : step.action], *short[step]]
        at = step.end
    return [*sent, *point.messages[at:]]


def _command_only(point: Point, step: Step) -> list[Message]:
    action, *results = point.messages[step.action : step.end]
    noted = [{**one, "content": min(content_of(one), NOTE, key=len)} for one in results]
    if not action.get("tool_calls"):
        text = content_of(action)
        command = f"```bash\n{command_of(text)}\n```" if "```" in text else text
        action = {**action, "content": min(command, text, key=len)}
    return [action, *noted]


def old_messages(point: Point) -> list[Message]:
    """Return the messages of a point's old steps."""
    return [message for step in point.old for message in point.messages[step.action : step.end]]


METHODS: Mapping[str, Callable[[Point, float], Sequence[Message]]] = {
    "default": default,
    "sliding window": sliding_window,
    "commands first": commands_first,
}


# Measuring


def measured(source: str, half: str, share: float, name: str) -> dict[str, Any]:
    """Return one row: what a method keeps of a source's needs, with the values of each point."""
    rows = []
    for point in points(source, half):
        sent = METHODS[name](point, share)
        old = tokens_in(old_messages(point))
        outside = tokens_in(point.messages) - old
        kept = kept_of(point.needs, sent)
        rows.append({**kept, "sent": (tokens_in(sent) - outside) / max(1, old)})
    tasks = [point.task for point in points(source, half)]
    row: dict[str, Any] = {"source": source, "half": half, "share": share, "method": name}
    row |= {"points": len(rows), "tasks": len(set(tasks))}
    for figure in FIGURES:
        values = [one.get(figure) for one in rows]
        row[figure] = _mean(values, tasks)
    numbers = {task: number for number, task in enumerate(dict.fromkeys(tasks))}
    row["task"] = [numbers[task] for task in tasks]
    row["values"] = {
        kind: [None if kind not in one else round(one[kind], 3) for one in rows] for kind in KINDS
    }
    return row


def _mean(values: Sequence[float | None], tasks: Sequence[Any]) -> dict[str, Any]:
    """Return mean, interval and count, whole tasks resampled."""
    by_task: dict[Any, list[float]] = {}
    for value, task in zip(values, tasks, strict=True):
        if value is not None:
            by_task.setdefault(task, []).append(value)
    if not by_task:
        return {"mean": None, "interval": None, "n": 0}
    sums = np.array([sum(one) for one in by_task.values()])
    counts = np.array([len(one) for one in by_task.values()])
    drawn = np.random.default_rng(0).integers(len(sums), size=(1_000, len(sums)))
    means = np.sort(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1))
    mean = float(sums.sum() / counts.sum())
    interval = [round(float(means[25]), 4), round(float(means[974]), 4)]
    return {"mean": round(mean, 4), "interval": interval, "n": int(counts.sum())}


def difference(row: Mapping[str, Any], base: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return how far a row is ahead of another of the same points, with the interval."""
    pairs = zip(row["values"][kind], base["values"][kind], strict=True)
    ahead = [None if one is None or other is None else one - other for one, other in pairs]
    return _mean(ahead, row["task"])


def show(rows: Sequence[Mapping[str, Any]], base: Sequence[Mapping[str, Any]]) -> None:
    """Print means with their intervals, and how far names are ahead of the base's default."""
    bases = {_cell(row): row for row in base if row["method"] == "default"}
    table = Table("cell", "method", *KINDS, "sent", "names ahead of default", "points/tasks")
    for row in sorted(rows, key=lambda row: (*_cell(row), list(METHODS).index(row["method"]))):
        other, ahead = bases.get(_cell(row)), ""
        if other and other is not row:
            ahead = _written(difference(row, other, "names"), "+.3f")
        cell = f"{row['source']} {row['half']} {row['share']:.0%}"
        kept = [_written(row[kind], ".3f") for kind in KINDS]
        sent, count = f"{row['sent']['mean']:.3f}", f"{row['points']}/{row['tasks']}"
        table.add_row(cell, row["method"], *kept, sent, ahead, count)
    Console(width=150).print(table)


def _written(figure: Mapping[str, Any], form: str) -> str:
    if figure["mean"] is None:
        return ""
    low, high = figure["interval"]
    return f"{figure['mean']:{form}} ({low:.2f} to {high:.2f}; {figure['n']})"


def _cell(row: Mapping[str, Any]) -> tuple[str, str, float]:
    return row["source"], row["half"], row["share"]


def read_rows(path: Path | None) -> list[dict[str, Any]]:
    """Return the rows of a results file, or of the file that has one as its `presence`."""
    if path is None or not path.exists():
        return []
    found = json.loads(path.read_text(encoding="utf-8"))
    found = found.get("presence", found)
    if found["definitions"] != DEFINITIONS:
        raise SystemExit(f"{path} was measured by definitions {found['definitions']}")
    rows: list[dict[str, Any]] = found["rows"]
    return rows


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the results file, a row on a line."""
    head = json.dumps({"definitions": DEFINITIONS, "version": agora.__version__})[:-1]
    lines = ",\n ".join(json.dumps(row, separators=(",", ":")) for row in rows)
    part = path.with_suffix(".part")
    part.write_text(f'{head}, "rows": [\n {lines}\n]}}\n', encoding="utf-8")
    part.replace(path)


def missing(options: argparse.Namespace, rows: Sequence[Mapping[str, Any]]) -> Iterator[Any]:
    """Yield the cells that were asked for and are not in the rows."""
    have = {(*_cell(row), row["method"]) for row in rows}
    for source in options.sources:
        halves = [half for half in SOURCES[source].halves if half in options.halves]
        for cell in product([source], halves, options.shares, options.methods):
            if cell not in have:
                yield cell


def main() -> None:
    """Measure what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sources", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--shares", nargs="+", type=float, default=[0.15, 0.25])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    halves = ["validation", "test", ALL]
    parser.add_argument("--halves", nargs="+", choices=halves, default=halves)
    parser.add_argument("--out", type=Path, required=True, help="the results file")
    parser.add_argument("--against", type=Path, help="compare with the default in this file")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args()
    rows = read_rows(options.out)
    cells = list(missing(options, rows))
    columns = (TextColumn("{task.description}"), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as bar, ProcessPoolExecutor(options.jobs) as pool:
        shown = bar.add_task("cells", total=len(cells))
        for done in as_completed([pool.submit(measured, *cell) for cell in cells]):
            rows.append(done.result())
            write_rows(options.out, rows)
            bar.advance(shown)
    show(rows, read_rows(options.against) or rows)


if __name__ == "__main__":
    main()

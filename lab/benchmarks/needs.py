"""What of the next ten actions' needs is still in each method's prompt, without a language model.

At points drawn by lot, on the validation half of the recorded runs (of Claude Code on all sessions,
which nothing here is trained on). Looked at is what stands outside the floor, and neither in it nor
in what came since: *names* that a later action uses, *copied* runs of eight words of a later
action, *lines* of a later result that an old one had too (read again). Shares kept are means over
points that need something, differences are paired, with 95 % intervals over runs. Presence is not
use: what only this supports is not chosen.

    python -m lab.benchmarks.needs coding --methods agora_forms_worth,agora_forms_command
"""

import argparse
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness.properties.markers import quoted_command
from harness.recordings import CLAUDE_CODE as SESSIONS
from harness.recordings import unpacked

from agora.adapters import Parsed
from agora.core.floor import floor
from agora.core.reading.actions import fenced
from agora.core.reading.names import identifiers
from agora.core.recall import recalled
from agora.core.tokens import EstimatedTokens
from agora.core.trajectory import Step, Trajectory
from agora.logs import Tally, read_logs
from agora_lab.chats import K_RECENT, text_of
from agora_lab.environments.data import data_file
from agora_lab.fidelity.anchors import Recorded, half_of, lot, parsed_of
from agora_lab.fidelity.sources import SOURCES, recorded
from agora_lab.labelling.hindsight import stands_in
from agora_lab.methods import MethodSettings, method

CALLS = 10
RUN = 8
LEAST_OUTSIDE = 3
_LINE_CHARACTERS = 12
_WORD = re.compile(r"\w+|[^\w\s]")
_NUMBERED = re.compile(r"^\d+ .*\".*", re.MULTILINE)
_COUNTER = EstimatedTokens()
Needs = Mapping[str, frozenset[Any]]


class Point:
    """A place in a recorded run, what was needed after it, and its prompt."""

    def __init__(self, one: Recorded, trajectory: Trajectory, step: int, at: int) -> None:
        self.task = one.task
        self.observations = one.observations
        self.messages = list(one.messages[:at])
        past, later = trajectory.steps[: step - 1], trajectory.steps[step - 1 :][:CALLS]
        held = floor(past, k_recent=K_RECENT, recalled=recalled(past))
        said = [utterance.text for utterance in trajectory.said_before(step)]
        kept = [trajectory.preamble, *said, *[_text(one) for one in past if one.number in held]]
        outside = [one for one in past if one.number not in held]
        self.outside_tokens = sum(one.tokens for one in outside)
        self.needs = _needs(outside, "\n".join(kept), later)


def _needs(outside: Sequence[Step], kept: str, later: Sequence[Step]) -> Needs:
    """Return what later steps take up of what is outside the floor, by kind."""
    old = "\n".join(map(_text, outside))
    old_runs = runs_of(old)
    old_lines = _lines("\n".join(step.observation for step in outside))
    kept_runs, kept_lines = runs_of(kept), _lines(kept)
    found: dict[str, set[Any]] = {"names": set(), "copied": set(), "lines": set()}
    for step in later:
        uses = _does(step)
        found["names"] |= {
            name
            for name in dict.fromkeys(identifiers(uses))
            if stands_in(name, old) and not stands_in(name, kept)
        }
        found["copied"] |= (runs_of(uses) & old_runs) - kept_runs
        found["lines"] |= (_lines(step.observation) & old_lines) - kept_lines
        # What came since is in the prompt by then.
        came = _text(step)
        kept = f"{kept}\n{came}"
        kept_runs |= runs_of(came)
        kept_lines |= _lines(came)
    return {kind: frozenset(needs) for kind, needs in found.items()}


def kept_of(needs: Needs, prompt: str) -> dict[str, float]:
    """Return the share of each kind of need that a prompt still has."""
    runs, lines = runs_of(prompt), _lines(prompt)
    has = {
        "names": lambda name: stands_in(name, prompt),
        "copied": runs.__contains__,
        "lines": lines.__contains__,
    }
    return {
        kind: sum(map(has[kind], wanted)) / len(wanted) for kind, wanted in needs.items() if wanted
    }


def _text(step: Step) -> str:
    return f"{step.thought}\n{step.action}\n{step.observation}"


def _does(step: Step) -> str:
    return "\n".join(call.arguments for call in step.calls) or fenced(step.action)


def runs_of(text: str) -> set[tuple[str, ...]]:
    """Return all runs of eight words of a text."""
    words = _WORD.findall(text)
    return {tuple(words[at : at + RUN]) for at in range(len(words) - RUN + 1)}


def _lines(text: str) -> set[str]:
    """Return the lines of a text that say something, without the numbers that views put there."""
    bare = (re.sub(r"^\s*\d{1,6}[\t:|-]?\s?", "", line).strip() for line in text.splitlines())
    return {line for line in bare if len(line) >= _LINE_CHARACTERS}


CLAUDE_CODE = "claude-code"


def claude_code() -> Iterator[Recorded]:
    """Yield the recorded sessions of Claude Code, in OpenAI's chat format.

    Raises:
        DataError: the data are not there.
    """
    path = data_file(str(SESSIONS), origin="the sessions of the data README")
    with unpacked(path) as folder:
        for one in read_logs([folder], Tally()):
            yield Recorded(
                source=CLAUDE_CODE,
                kind="coding",
                task=one.id,
                group=one.id,
                id=one.id,
                messages=tuple(_chat(one.messages)),
            )


def _chat(messages: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield Anthropic's messages in OpenAI's format, without what was thought."""
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        calls = [
            {
                "id": block["id"],
                "type": "function",
                "function": {"name": block["name"], "arguments": json.dumps(block["input"])},
            }
            for block in blocks
            if block["type"] == "tool_use"
        ]
        for block in blocks:
            if block["type"] == "tool_result":
                said = text_of(block)
                yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": said}
        text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
        if text or calls:
            more = {"tool_calls": calls} if calls else {}
            yield {"role": message["role"], "content": text, **more}


def _played(source: str) -> list[Recorded]:
    """Return the runs that points are drawn from."""
    if source == CLAUDE_CODE:
        return list(claude_code())
    found = recorded(SOURCES[source])
    return [one for one in found if half_of(source, one.group) == "validation"]


def places(source: str, a_run: int) -> Iterator[tuple[Recorded, Parsed, int]]:
    """Yield steps of recorded runs, by lot, at most so many of each."""
    for one in sorted(_played(source), key=lambda one: lot("needs", one.id)):
        parsed = parsed_of(one)
        if parsed is None:
            continue
        steps = range(LEAST_OUTSIDE + K_RECENT + 1, len(parsed.trajectory.steps) + 1)
        for step in sorted(steps, key=lambda step: lot("needs", one.id, step))[:a_run]:
            yield one, parsed, step


def points(source: str, most: int, a_run: int) -> Iterator[Point]:
    """Yield so many points that need something."""
    found = 0
    for one, parsed, step in places(source, a_run):
        point = Point(one, parsed.trajectory, step, parsed.owners.index(step))
        if any(point.needs.values()):
            yield point
            found += 1
        if found == most:
            return


def measure(several: Sequence[Point], names: Sequence[str], shares: Sequence[float]) -> Any:
    """Return for each share and method what it keeps at each point, and what it sends."""
    results: dict[tuple[float, str], list[dict[str, float]]] = defaultdict(list)
    for share in shares:
        for name in names:
            for point in several:
                options = {"share": share, "observations": point.observations}
                made = method(name, MethodSettings(options=options))
                sent = made.shorten(point.messages).messages
                prompt = "\n".join(map(_read, sent))
                fixed = sum(map(_tokens, point.messages)) - point.outside_tokens
                kept = kept_of(point.needs, prompt)
                kept["sent"] = (sum(map(_tokens, sent)) - fixed) / max(1, point.outside_tokens)
                results[share, name].append(kept)
            print(f"  {share:.0%} {name}", flush=True)
    return results


def _said(message: Mapping[str, Any]) -> str:
    calls = message.get("tool_calls") or ()
    return "\n".join([text_of(message), *[str(call["function"]["arguments"]) for call in calls]])


def _read(message: Mapping[str, Any]) -> str:
    """Return what a message says, with the commands in our lines as they were given."""
    return _NUMBERED.sub(lambda found: _unquoted(found[0]), _said(message))


def _unquoted(line: str) -> str:
    number, _, words = line.partition(" ")
    return f"{number} {' '.join(quoted_command(words))}"


def _tokens(message: Mapping[str, Any]) -> int:
    return _COUNTER.count(_said(message)) + 4


def report(results: Any, several: Sequence[Point], against: str) -> list[dict[str, Any]]:
    """Print and return means, and differences to one method with their intervals."""
    rows = []
    for (share, name), kept in results.items():
        row: dict[str, Any] = {"share": share, "method": name, "points": len(kept)}
        for kind in ("names", "copied", "lines", "sent"):
            shares = [one[kind] for one in kept if kind in one]
            if not shares:
                continue
            row[kind] = round(float(np.mean(shares)), 4)
            if name != against and (share, against) in results:
                row[f"{kind} ahead"] = _ahead(kept, results[share, against], several, kind)
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def _ahead(ours: Any, theirs: Any, several: Sequence[Point], kind: str) -> list[float]:
    """Return the mean difference and its interval, whole runs resampled."""
    by_task: dict[str, list[float]] = defaultdict(list)
    for point, one, other in zip(several, ours, theirs, strict=True):
        if kind in one:
            by_task[point.task].append(one[kind] - other[kind])
    tasks = list(by_task.values())
    drawn = random.Random(0)
    means = sorted(
        float(np.mean([x for own in drawn.choices(tasks, k=len(tasks)) for x in own]))
        for _ in range(1_000)
    )
    mean = float(np.mean([x for own in tasks for x in own]))
    return [round(x, 4) for x in (mean, means[25], means[974])]


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("source", choices=[*SOURCES, CLAUDE_CODE])
    parser.add_argument("--methods", default="agora_forms_worth,agora_forms_command")
    parser.add_argument("--shares", default="0.15,0.25")
    parser.add_argument("--points", type=int, default=220)
    parser.add_argument("--a-run", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the figures here")
    chosen = parser.parse_args()
    several = list(points(chosen.source, chosen.points, chosen.a_run))
    names = chosen.methods.split(",")
    runs = len({point.task for point in several})
    print(f"{chosen.source}: {len(several)} points of {runs} runs", flush=True)
    shares = [float(share) for share in chosen.shares.split(",")]
    rows = report(measure(several, names, shares), several, names[0])
    if chosen.json:
        chosen.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

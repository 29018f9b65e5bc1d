"""The card of a student: what it was taught, and what it can do in which world."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import agora
from agora_lab.bootstrap import interval, task_counts
from agora_lab.teaching.lessons import LessonError, read_lessons
from agora_lab.teaching.played import played

RECORD = "training.json"
_RESAMPLES = 2_000


def write_record(
    folder: Path, *, start: Path, files: Iterable[Path], trained: Mapping[str, Any]
) -> None:
    """Write what a student was taught next to it, with what its start was taught before."""
    record = {
        "agora": agora.__version__,
        "start": taught(start) or start.name,
        "lessons": [_about(file) for file in files],
        **trained,
    }
    (folder / RECORD).write_text(
        json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )


def taught(folder: Path) -> dict[str, Any] | None:
    """Return what the model in a folder was taught, if it is a student."""
    path = folder / RECORD
    if not path.exists():
        return None
    found = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)  # noqa: S101
    return found


def card(folder: Path, runs: Iterable[Path], *, player: str = "") -> dict[str, Any]:
    """Return the card of a student, with a line for each cell of the runs.

    With `player`, only for the cells of the backbone of that name. Where the reader played the
    same tasks in one of the runs with everything sent, a line says what it reached.

    Raises:
        LessonError: the folder holds no student.
        RunError: a folder holds no run.
    """
    record = taught(folder)
    if record is None:
        raise LessonError(str(folder), f"has no {RECORD}; `agora lab teach train` writes it")
    rewards: dict[tuple[str, str, str, str], dict[str, float]] = defaultdict(dict)
    steps: dict[tuple[str, str, str, str], dict[str, int]] = defaultdict(dict)
    for run in runs:
        for episode, cell in played(run):
            backbone = "reader" if cell.reads else cell.backbone
            key = (cell.environment, cell.split, backbone, cell.method)
            rewards[key][episode.task] = episode.reward
            steps[key][episode.task] = len(episode.moves)
    lines = []
    for key, by_task in rewards.items():
        world, split, backbone, method = key
        if backbone == "reader" or (player and backbone != player):
            continue
        line: dict[str, Any] = {
            "world": world,
            "split": split,
            "backbone": backbone,
            "method": method,
            **_mean(list(by_task.values())),
            "steps": float(np.mean(list(steps[key].values()))),
        }
        reader = rewards.get((world, split, "reader", "none"), {})
        if by_task.keys() <= reader.keys():
            line["reader"] = float(np.mean([reader[task] for task in by_task]))
        lines.append(line)
    return {"training": record, "played": lines}


def markdown(found: Mapping[str, Any]) -> str:
    """Return a card as a page."""
    lines = ["# A student", "", "A causal language model, taught to play by the readers.", ""]
    lines += ["| stage | lessons | tokens read | minutes | of them with a processor | settings |"]
    lines += ["|---|---|---|---|---|---|"]
    for number, stage in enumerate(_stages(found["training"]), start=1):
        kinds = ", ".join(
            f"{count} {kind} ({one['world']})"
            for one in stage["lessons"]
            for kind, count in one["kinds"].items()
        )
        progress, settings = stage["progress"], stage["settings"]
        said = ", ".join(f"{name} {value}" for name, value in sorted(settings.items()))
        lines.append(
            f"| {number} | {kinds} | {progress['tokens']:,} | {progress['minutes']:.0f} "
            f"| {progress['cpu_minutes']:.0f} | {said} |"
        )
    lines += ["", "| world | split | method | tasks | reward | reader, same tasks | steps |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for one in found["played"]:
        reader = f"{one['reader']:.2f}" if "reader" in one else ""
        low, high = one["interval"]
        lines.append(
            f"| {one['world']} | {one['split']} | {one['method']} | {one['tasks']} "
            f"| {one['reward']:.2f} [{low:.2f}, {high:.2f}] | {reader} | {one['steps']:.1f} |"
        )
    lines += ["", "Intervals: 95 %, tasks resampled.", ""]
    return "\n".join(lines)


def _stages(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    start = record["start"]
    return [*(_stages(start) if isinstance(start, Mapping) else ()), record]


def _about(file: Path) -> dict[str, Any]:
    kinds: Counter[str] = Counter()
    worlds: set[str] = set()
    for lesson in read_lessons([file], split="train"):
        kinds[lesson.kind] += 1
        worlds.add(lesson.world)
    return {
        "file": file.name,
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "kinds": dict(sorted(kinds.items())),
        "world": ", ".join(sorted(worlds)),
    }


def _mean(values: list[float]) -> dict[str, Any]:
    found = np.asarray(values)
    means: list[float] = []
    for counts in task_counts(len(values), _RESAMPLES, seed=0):
        means += (counts @ found / len(values)).tolist()
    low, high = interval(means)
    return {"tasks": len(values), "reward": float(found.mean()), "interval": [low, high]}

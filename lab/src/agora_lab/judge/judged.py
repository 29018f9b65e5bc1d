"""What a run of the judge wrote, read back: its plan, its anchors, one row per scored prompt."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agora.errors import AgoraError
from agora_lab.judge.records import (
    PLAN,
    DrawnAnchor,
    Measured,
    read_anchors,
    read_measured,
)

NEWEST, FORMS = "newest", "forms_now"
"""The newest steps, and what AGORA sends."""
MAIN_KEEP = 0.25
"""The share of the tokens outside the floor at which methods are compared first."""

Target = Literal["action", "needed", "message"]
TARGETS: tuple[Target, ...] = ("action", "needed", "message")
MARKS: Mapping[Target, frozenset[str] | None] = {
    "action": frozenset({"action", "needed"}),
    "needed": frozenset({"needed"}),
    "message": None,
}
"""Which tokens of the message a target is made of; None is all of them."""


class RunError(AgoraError):
    """A folder does not hold what a report needs."""

    def __init__(self, folder: str, problem: str) -> None:
        super().__init__(folder, problem)
        self.folder = folder
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.folder}: {self.problem}"


def nats(row: Measured, target: Target) -> float:
    """Return the surprise summed over the tokens of a target."""
    marks = MARKS[target]
    return math.fsum(value for _, value, mark in row.pieces if marks is None or mark in marks)


def has(row: Measured, target: Target) -> bool:
    """Return whether the message has tokens of this target at all."""
    marks = MARKS[target]
    return any(marks is None or mark in marks for _, _, mark in row.pieces)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two methods to be compared on one source, named before the run."""

    source: str
    ours: str
    theirs: str
    keep: float


@dataclass(frozen=True, slots=True)
class Judged:
    """Everything in a run folder but the prompts."""

    folder: Path
    plan: Mapping[str, Any]
    anchors: Mapping[str, DrawnAnchor]
    rows: tuple[Measured, ...]

    @property
    def model(self) -> str:
        """The judge's name."""
        return str(self.plan.get("model", ""))

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources, in the plan's order, then as they were drawn."""
        planned = dict.fromkeys(str(name) for name in self.plan.get("sources", ()))
        drawn = dict.fromkeys(anchor.source for anchor in self.anchors.values())
        return tuple(name for name in {**planned, **drawn} if name in drawn)

    @property
    def headline(self) -> tuple[Comparison, ...]:
        """The comparisons fixed before the run.

        A plan that names none has the one every run is made for: AGORA against the newest
        steps, on each source that it names.
        """
        named = self.plan.get("headline")
        if isinstance(named, Sequence) and not isinstance(named, str) and named:
            return tuple(
                Comparison(
                    str(one["source"]),
                    str(one.get("ours", FORMS)),
                    str(one.get("theirs", NEWEST)),
                    float(one.get("keep", MAIN_KEEP)),
                )
                for one in named
            )
        planned = [str(name) for name in self.plan.get("sources", ())]
        return tuple(Comparison(name, FORMS, NEWEST, MAIN_KEEP) for name in planned or self.sources)


def read_run(folder: Path, half: str = "") -> Judged:
    """Return a run, of one half of the tasks or of all.

    A key that was written twice counts as it was written last; rows with an error are
    still to be measured.

    Raises:
        RunError: there is no run in the folder, or a line of it cannot be read.
    """
    plan_file = folder / PLAN
    if not plan_file.is_file():
        raise RunError(str(folder), f"has no {PLAN}; is it the --out of `agora lab fidelity run`?")
    try:
        plan = json.loads(plan_file.read_text(encoding="utf-8"))
        anchors = {one.anchor: one for one in read_anchors(folder) if half in ("", one.half)}
        rows = tuple(one for one in read_measured(folder) if half in ("", one.half))
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(str(folder), f"has a line that is no record of a run: {error}") from error
    return Judged(folder, plan, anchors, rows)

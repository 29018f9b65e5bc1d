"""Outcomes from a log: a file with a conversation and a number in each row."""

import csv
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agora.errors import AgoraError
from agora.experiment.assignment import Arm
from agora.experiment.sequences import Comparison
from agora.experiment.tally import ARMS, Tally

_FIGURE = "outcome"


class OutcomesError(AgoraError):
    """A file of outcomes that cannot be read."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(file, problem)
        self.file = file
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.file}: {self.problem}"


def read_outcomes(path: Path) -> Iterator[tuple[str, str, float]]:
    """Yield conversation, tenant and outcome of each row of a CSV or JSONL file.

    The columns are `conversation`, `outcome` and, where conversations are named as a client named
    them and not by the id of an answer, `tenant`.

    Raises:
        OutcomesError: a row has no conversation, or no number.
    """
    with path.open(encoding="utf-8", newline="") as file:
        rows: Iterable[Any] = csv.DictReader(file)
        if path.suffix != ".csv":
            rows = (_parsed(line) for line in file if line.strip())
        for at, row in enumerate(rows, start=1):
            told: Mapping[str, Any] = row if isinstance(row, dict) else {}
            try:
                conversation, outcome = str(told["conversation"]), float(told[_FIGURE])
            except (KeyError, TypeError, ValueError):
                outcome = math.nan
            if not math.isfinite(outcome):
                raise OutcomesError(
                    str(path), f"row {at} needs a `conversation` and a number as its `outcome`"
                )
            yield conversation, str(told.get("tenant") or ""), outcome


def with_outcomes(
    tally: Tally, rows: Iterable[tuple[str, str, float]], arm_of: Callable[[str, str], Arm]
) -> int:
    """Put outcomes into a tally in place of those that were posted; return how many are in no arm.

    All conversations of the file are compared, also those that were too short to be edited: which
    they are is not known any more. That dilutes an effect, and biases nothing.
    """
    pair, left = Comparison(), 0
    for arm in ARMS:
        tally.arms[arm].counts[_FIGURE], tally.arms[arm].sums[_FIGURE] = 0, 0.0
    for conversation, tenant, outcome in rows:
        arm = arm_of(conversation, tenant)
        if arm not in ARMS:
            left += 1
            continue
        pair.observe(outcome, treated=arm is Arm.AGORA)
        tally.arms[arm].counts[_FIGURE] += 1
        tally.arms[arm].sums[_FIGURE] += outcome
    tally.compared[_FIGURE] = pair
    return left


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None

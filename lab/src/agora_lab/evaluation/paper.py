"""The paper's own numbers, printed next to ours and never as ours."""

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

ENVIRONMENTS = ("alfworld", "scienceworld", "webshop")
BACKBONES = ("qwen3.5-flash", "gpt-4o-mini", "gpt-5-mini")
OURS: Mapping[str, tuple[str, ...]] = {
    "none": ("none",),
    "agora": ("agora_paper",),
    "truncate": ("truncate",),
    "floor": ("floor", "agora_paper_no_scorer"),
    "observation_mask": ("observation_mask", "observation_mask_matched"),
    "longllmlingua": ("longllmlingua",),
    "selective_context": ("selective_context", "selective_context_words"),
    "hiagent": ("hiagent",),
    "agentdiet": ("agentdiet", "agentdiet_matched"),
    "acon": ("acon", "acon_matched"),
    "agora_no_floor": ("agora_paper_no_floor",),
    "agora_hard_labels": ("agora_paper_hard_labels",),
    "random_step": ("random_step", "agora_paper_random_scores"),
}
"""For each of the paper's methods, the closest one here."""


@cache
def numbers() -> Mapping[str, Any]:
    """Return the tables from the data file."""
    text = resources.files("agora_lab.evaluation").joinpath("paper.json").read_text("utf-8")
    found: Mapping[str, Any] = json.loads(text)
    return found


def of(table: str, **wanted: str) -> list[Mapping[str, Any]]:
    """Return the rows of a table that match the given fields.

    >>> [row["reward"] for row in of("table_1", environment="alfworld", method="floor")]
    [0.6, 0.233, 0.5]
    """
    return [
        row
        for row in numbers()[table]["rows"]
        if all(row.get(name) == value for name, value in wanted.items())
    ]


def mean(table: str, field: str, **wanted: str) -> float | None:
    """Return the mean of a field over the paper's backbones, if it has such rows.

    >>> round(mean("table_1", "reward", environment="alfworld", method="none"), 3)
    0.611
    """
    values = [float(row[field]) for row in of(table, **wanted) if row.get(field) is not None]
    return sum(values) / len(values) if values else None


def inconsistent_retentions(tolerance: float = 1.5) -> list[Mapping[str, Any]]:
    """Return the rows of table 1 whose retention does not follow from their rewards, in percent.

    >>> len(inconsistent_retentions())
    43
    """
    found: list[Mapping[str, Any]] = []
    for row in numbers()["table_1"]["rows"]:
        if row["retention"] is None:
            continue
        [reference] = of(
            "table_1", environment=row["environment"], backbone=row["backbone"], method="none"
        )
        given = 100 * row["reward"] / reference["reward"]
        if abs(given - row["retention"]) > tolerance:
            found.append({**row, "by_its_rewards": round(given)})
    return found

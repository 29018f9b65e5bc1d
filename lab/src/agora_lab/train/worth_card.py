"""The card of a `worth` bundle: what it was trained on, and what it reaches on tasks left out."""

from collections.abc import Mapping
from typing import Any

_MODELS = {
    "action": "the action part is needed",
    "observation": "the observation part is needed",
    "named": "the share of a needed observation that its names carry",
}


def card(metrics: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the card in Markdown, from the metrics of each model."""
    lines = [
        "# A worth scorer",
        "",
        "Boosted trees of two splits each over features of a step's two parts, written as lookup",
        "tables and calibrated (Platt). For each part of a step it gives the probability that one",
        "of the next thirty actions uses a name that outside the floor only this part has, copies",
        "eight tokens or more that only it has, or asks for it again (which counts half). A use",
        "counts .95 to the power of the calls until then: the chance that an edit lasts as long.",
        "It reads no language and runs no code from this folder.",
        "",
        "| source | steps at edits | action needed | observation needed |",
        "|---|---|---|---|",
    ]
    pairs = metrics["action"]["pairs_by_source"]
    for source, count in pairs.items():
        needed = [metrics[part]["needed_by_source"][source] for part in ("action", "observation")]
        lines.append(f"| {source} | {count:,} | {needed[0]:,} | {needed[1]:,} |")
    lines += [
        "",
        "Needed counts labels of .5 and more. On held-out tasks, four folds, which also chose the",
        "number of trees and the calibration:",
        "",
        "| model | pairs | trees | AUC | average precision | calibration error |",
        "|---|---|---|---|---|---|",
    ]
    for model, says in _MODELS.items():
        one = metrics[model]
        figures = " | ".join(
            f"{one[name]:.3f}" for name in ("auc", "average_precision", "calibration_error")
        )
        lines.append(f"| {model}: {says} | {one['pairs']:,} | {one['trees']} | {figures} |")
    lines += [
        "",
        "Labels are hindsight's: what an agent needed without naming or copying it, and what two",
        "old parts both have, count as not needed. Whoever writes an observation can raise its",
        "worth and take room from others; the floor does not depend on it.",
        "",
    ]
    return "\n".join(lines)

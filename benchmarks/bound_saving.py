"""What an edit saves on models that bind thinking: steps masked, or removed with their thinking.

    python -m benchmarks.bound_saving --sessions 40 --out benchmarks/results/bound-saving.json

Drawn coding sessions (those of `harness.bound_sessions`, played call by call), by price, billed by
an exact prefix cache that matches whole messages. *Masked* keeps the message of every step, as on
models with manual thinking, without its thinking; *removed* is what AGORA does.
"""

import argparse
import json
import random
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from rich.progress import track

from agora import Compression, Compressor, EstimatedTokens, sheet_for
from agora.formats import message_format
from agora.formats.steps import StepBuilder
from harness.bound_sessions import MODELS, drawn

_COUNT = EstimatedTokens()
_MARGIN = 2_000
_COLUMNS = ("removed", "masked", "edits", "blocks")


class _Masking(StepBuilder):
    """Masks every step, as where thinking is not bound."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given | {"keep_messages": True})


def calls_of(body: dict[str, Any]) -> Iterator[list[Any]]:
    """Yield the messages of each call."""
    for at, message in enumerate(body["messages"], start=1):
        if message["role"] == "user":
            yield body["messages"][:at]


def bill(body: dict[str, Any], *, edits: bool) -> tuple[float, int, int]:
    """Return a session's cost in tokens at the price of input, its edits and its removed blocks."""
    sheet = sheet_for(body["model"])
    compressor = Compressor(edits="by_price" if edits else "never")
    fixed = _COUNT.count(json.dumps([body["system"], body["tools"]]))
    cost, changes, blocks, epoch = 0.0, 0, 0, 0
    before: list[tuple[str, int]] = []
    for messages in calls_of(body):
        found: Compression = compressor.compress(
            messages, model=body["model"], system=body["system"], tools=body["tools"]
        )
        sizes = [(json.dumps(m), _COUNT.count(json.dumps(m))) for m in found.messages]
        same = 0
        for old, new in zip(before, sizes, strict=False):
            if old != new:
                break
            same += 1
        read = sum(size for _, size in sizes[:same]) + (fixed if before else 0)
        written = sum(size for _, size in sizes[same:]) + (0 if before else fixed)
        cost += read * sheet.read + written * sheet.write
        if found.last_edit != epoch:
            epoch, changes, blocks = found.last_edit, changes + 1, found.thinking.blocks
        before = sizes
    return cost, changes, blocks


def interval(values: list[float]) -> tuple[float, float, float]:
    """Return the mean with a bootstrap interval of 95 %."""
    source = random.Random(7)
    means = sorted(statistics.fmean(source.choices(values, k=len(values))) for _ in range(_MARGIN))
    return statistics.fmean(values), means[_MARGIN // 40], means[-_MARGIN // 40]


def main() -> None:
    """Play the sessions and write the table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--sessions", type=int, default=40)
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    rows: dict[str, dict[str, list[float]]] = {}
    for seed in track(range(given.sessions), description="sessions"):
        body = drawn(10_000 + seed)
        never, _, _ = bill(body, edits=False)
        removed, edits, blocks = bill(body, edits=True)
        with mock.patch.object(message_format, "StepBuilder", _Masking):
            masked, _, _ = bill(body, edits=True)
        row = rows.setdefault(
            body["model"], {k: [] for k in ("removed", "masked", "edits", "blocks")}
        )
        row["removed"].append(removed / never)
        row["masked"].append(masked / never)
        row["edits"].append(edits)
        row["blocks"].append(blocks / edits if edits else 0.0)
    table = {
        model: {"sessions": len(rows[model]["removed"])}
        | {name: [round(x, 3) for x in interval(values)] for name, values in rows[model].items()}
        for model in MODELS
        if model in rows
    }
    text = json.dumps(table, indent=1)
    print(text)
    if given.out:
        given.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Time against size, and against `json.loads` of the same bytes.

    python -m benchmarks.time                                      all tables
    python -m benchmarks.time --quick                              a tenth of the sizes
    python -m benchmarks.time --only edit --json figures.json      one table, into a file too

Does time grow no faster than the history? How much does compressing a body cost
compared with reading its JSON? Is hostile text linear? CPU time of this process, best of several.
And what does an edit cost per 10,000 tokens, of texts never seen before and of texts that were read
at the call before? The median of 15 there.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from harness.times import (
    HOSTILE,
    MIB,
    PRESETS,
    SHAPES,
    body,
    growth,
    milliseconds_per_10_000_tokens,
    ratio_to_json,
    records,
    sources,
    steps,
)


def _table(title: str, head: str, rows: Iterator[str]) -> None:
    print(f"\n{title}\n{head}")
    for row in rows:
        print(row, flush=True)


def _growth_rows(quick: bool) -> Iterator[str]:
    for name, compressor in PRESETS.items():
        for count in (100, 250, 500) if quick else (1_000, 2_500, 5_000):
            found = growth(compressor, steps, count)
            yield (
                f"{name:>8} {count:>6} -> {2 * count:>6}  {found.seconds * 1e3:8.1f} ms "
                f"{found.doubled_seconds * 1e3:8.1f} ms  {found.ratio:5.2f}"
            )


def _beside_rows(size: int) -> Iterator[str]:
    for shape in SHAPES:
        raw = body(shape, size)
        found = ratio_to_json(raw)
        yield (
            f"{shape:>26} {len(raw) / 1e6:6.1f} MB  {found.loads_seconds * 1e3:7.1f} ms  "
            f"{found.stages:6.2f} {found.whole:10.2f} {found.forms:10.2f}"
        )


def _hostile_rows(size: int) -> Iterator[str]:
    for name, make in HOSTILE.items():
        found = growth(PRESETS["default"], make, size // 2, times=2)
        yield f"{name:>20} {found.doubled_seconds:8.2f} s  {found.ratio:6.2f}"


def _edits(quick: bool) -> dict[str, dict[str, list[float]]]:
    made = {"JSON": (records, 300), "source code": (sources, 60)}
    return {
        kind: milliseconds_per_10_000_tokens(make, size // 10 if quick else size, 15)
        for kind, (make, size) in made.items()
    }


def _edit_rows(edits: dict[str, dict[str, list[float]]]) -> Iterator[str]:
    for kind, found in edits.items():
        for name, (new, known) in found.items():
            yield f"{kind:>12} {name:>10}  {new:6.1f} ms  {known:6.1f} ms"


def main() -> None:
    """Print the tables."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--quick", action="store_true", help="a tenth of the sizes")
    reader.add_argument("--only", choices=("growth", "json", "hostile", "edit"))
    reader.add_argument("--json", type=Path, help="write the figures of edits here")
    options = reader.parse_args()
    size = 1 if options.quick else 10
    if options.only in (None, "growth"):
        _table(
            "Time to compress when the number of steps doubles (bar: 2.30)",
            "  preset  steps              at once      doubled  ratio",
            _growth_rows(options.quick),
        )
    if options.only in (None, "json"):
        _table(
            f"A body of {size} MB compared with json.loads of it (bar: 3.00 for the stages)",
            "              observations   body       loads  stages      paper    default",
            _beside_rows(size * 1_000_000),
        )
    if options.only in (None, "hostile"):
        _table(
            f"Hostile text, default preset, {0.8 * size:.1f} MiB (bars: 2.00 s, ratio 2.30)",
            "                text      time   ratio",
            _hostile_rows(8 * MIB * size // 10),
        )
    if options.only in (None, "edit"):
        edits = _edits(options.quick)
        _table(
            "CPU time of an edit per 10,000 tokens, median of 15",
            "        kind     editor  never seen   seen before",
            _edit_rows(edits),
        )
        if options.json:
            options.json.write_text(json.dumps(edits, indent=1) + "\n")


if __name__ == "__main__":
    main()

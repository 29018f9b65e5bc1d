"""The properties of every history, checked on as many drawn ones as asked for.

    python -m benchmarks.properties --histories 100000               all seven formats
    python -m benchmarks.properties --histories 1000 --format gemini --format bedrock
    python -m benchmarks.properties --format gemini --seed 4711      one history, with the traceback
    python -m benchmarks.properties --format anthropic-bound --format bedrock-bound
                conversations with models that bind thinking, played before a provider that signs

Every property is checked on each history. A history is drawn from its seed, so a run can be
stopped at any time and continued by the same command: what is done stands, chunk by chunk, in the
file `--chunks`. A violation is printed with its seed and counted; the run goes on, and ends with
status 1. The same checks run under hypothesis, which shrinks what it finds, in
`tests/test_properties.py`.
"""

import argparse
import gc
import json
import platform
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import agora
from agora.adapters import FORMATS
from harness.properties.bound import BOUND, play
from harness.properties.checks import PROPERTIES
from harness.properties.draw import drawn
from harness.properties.tally import (
    Chunk,
    Total,
    append,
    check_chunk,
    failures,
    missing,
    read,
    sources,
    totals,
)

CHUNKS = Path("build/properties.jsonl")
_FORMATS = (*FORMATS, *BOUND)


def checked(
    wanted: Sequence[tuple[str, int, int]], processes: int, console: Console
) -> Iterator[Chunk]:
    """Yield the chunks as they are done, and show how far the run is."""
    columns = (
        TextColumn("{task.description:>12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        bars = {}
        for name, _, size in wanted:
            if name not in bars:
                bars[name] = progress.add_task(name, total=0)
            progress.update(
                bars[name], total=(progress.tasks[bars[name]].total or 0) + size, refresh=False
            )
        for chunk in _chunks(wanted, processes):
            progress.advance(bars[chunk.format], chunk.histories)
            yield chunk


def _chunks(wanted: Sequence[tuple[str, int, int]], processes: int) -> Iterator[Chunk]:
    if processes <= 1:
        yield from (check_chunk(*one) for one in wanted)
        return
    with ProcessPoolExecutor(processes) as pool:
        for future in as_completed([pool.submit(check_chunk, *one) for one in wanted]):
            yield future.result()


def summary(found: dict[str, Total], of: str) -> dict[str, object]:
    """Return what the run file holds."""
    return {
        "version": agora.__version__,
        "sources": of,
        "python": platform.python_version(),
        "properties": list(PROPERTIES),
        "formats": {
            name: {
                "histories": total.histories,
                "with_steps": total.with_steps,
                "shortened": total.shortened,
                "cpu_seconds": round(total.cpu_seconds, 1),
                "violations": dict(total.violations),
                **({"figures": dict(total.figures)} if total.figures else {}),
            }
            for name, total in found.items()
        },
        "histories": sum(total.histories for total in found.values()),
        "violations": sum(total.violations.total() for total in found.values()),
    }


def table(found: dict[str, Total]) -> Iterable[str]:
    """Yield one line for each format."""
    yield f"{'format':>12} {'histories':>10} {'shortened':>10} {'violations':>11} {'CPU s':>8}"
    for name, total in found.items():
        yield (
            f"{name:>12} {total.histories:>10,} {total.shortened:>10,} "
            f"{total.violations.total():>11,} {total.cpu_seconds:>8,.0f}"
        )


def look_at(format_name: str, seed: int) -> int:
    """Check the properties on one history and print where each that fails does."""
    if format_name in BOUND:
        print(play(BOUND[format_name], seed))
        return 0
    case = drawn(format_name, seed)
    print(json.dumps(case.history.messages, indent=1, ensure_ascii=False))
    print(case.setup)
    failed = 0
    for name, error in failures(case):
        failed += 1
        print(f"\nproperty {name}")
        traceback.print_exception(error)
    print(f"\n{failed} of {len(PROPERTIES)} properties do not hold")
    return failed


def main() -> None:
    """Check what is missing, and print and write the totals."""
    if not __debug__:
        sys.exit("The properties are assertions, which `python -O` leaves out: run without -O.")
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--histories", type=int, default=100_000, help="per format")
    options.add_argument("--format", action="append", choices=_FORMATS, help="all by default")
    options.add_argument("--processes", type=int, default=1)
    options.add_argument("--out", type=Path, help="where the totals are written as JSON")
    options.add_argument("--chunks", type=Path, default=CHUNKS, help=f"{CHUNKS} by default")
    options.add_argument("--seed", type=int, help="look at one history of one format")
    given = options.parse_args()
    formats: Sequence[str] = given.format or _FORMATS
    if given.seed is not None:
        if len(formats) != 1:
            options.error("--seed needs one --format")
        sys.exit(bool(look_at(formats[0], given.seed)))
    # What is loaded now stays; most of what a case makes is gone before a collection would find it.
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    of = sources()
    chunks = list(read(given.chunks, of))
    console = Console(stderr=True)
    for chunk in checked(list(missing(formats, given.histories, chunks)), given.processes, console):
        append(given.chunks, chunk)
        chunks.append(chunk)
        for violation in chunk.violations:
            print(violation, flush=True)
    found = totals(chunks)
    for line in table(found):
        print(line)
    if given.out:
        text = json.dumps(summary(found, of), indent=1) + "\n"
        given.out.write_text(text, encoding="utf-8")
    sys.exit(any(total.violations for total in found.values()))


if __name__ == "__main__":
    main()

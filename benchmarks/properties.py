"""Check the properties of every history on drawn ones.

    python -m benchmarks.properties                                  100,000 of each format
    python -m benchmarks.properties --seed 4711                      the same ones again
    python -m benchmarks.properties --histories 1000 --format gemini --format bedrock
    python -m benchmarks.properties --format gemini --history 4711   one history, with the traceback

`anthropic-bound` and `bedrock-bound` are conversations with models that bind thinking, played
before a provider that signs. A run draws a seed and prints it; each history has the seed after the
one before. With the seed of a stopped run it continues from the file `--out`. A violation is
printed and counted; the run goes on and ends with status 1. The same checks run under hypothesis,
which shrinks examples, in `tests/test_properties.py`.
"""

import argparse
import gc
import json
import random
import sys
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from rich.progress import Progress

import agora
from agora.formats import FORMATS
from harness.properties.bound import BOUND, play
from harness.properties.checks import PROPERTIES
from harness.properties.draw import drawn
from harness.properties.tally import Tally, check, failures

OUT = Path("benchmarks/results/properties.json")
CHUNK = 500
"""Histories between two writes of the file."""


def read(path: Path, seed: int) -> dict[str, Tally]:
    """Return the results so far of the run with this seed, by format."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if known.get("seed") != seed or known.get("version") != agora.__version__:
        return {}
    return {
        name: Tally(**{**found, "figures": Counter(found["figures"])})
        for name, found in known["formats"].items()
    }


def write(path: Path, seed: int, found: dict[str, Tally]) -> None:
    """Write the results so far."""
    formats = {
        name: {
            "histories": tally.histories,
            "shortened": tally.shortened,
            "figures": dict(tally.figures),
            "violations": tally.violations,
        }
        for name, tally in found.items()
    }
    state = {"version": agora.__version__, "seed": seed, "formats": formats}
    path.parent.mkdir(parents=True, exist_ok=True)
    # A run that stops during a write leaves the old file.
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
    fresh.replace(path)


def run(
    formats: list[str], histories: int, seed: int, processes: int, out: Path
) -> dict[str, Tally]:
    """Check the missing histories, write and print the results, and return them by format."""
    found = read(out, seed)
    with ProcessPoolExecutor(processes) as pool, Progress() as progress:
        for name in formats:
            tally = found.setdefault(name, Tally())
            first = range(seed + tally.histories, seed + histories, CHUNK)
            sizes = [min(CHUNK, seed + histories - start) for start in first]
            task = progress.add_task(name, total=histories, completed=tally.histories)
            for more in pool.map(check, [name] * len(first), first, sizes):
                tally.add(more)
                progress.update(task, completed=tally.histories)
                for violation in more.violations:
                    progress.console.print(violation, highlight=False, soft_wrap=True)
                write(out, seed, found)
    return found


def look_at(format_name: str, seed: int) -> int:
    """Check the properties on one history, print where each fails, and return how many do."""
    if format_name in BOUND:
        print(play(BOUND[format_name], seed))
        return 0
    case = drawn(format_name, seed)
    print(json.dumps(case.history.messages, indent=1, ensure_ascii=False))
    print(case.setup)
    failed = list(failures(case))
    for name, error in failed:
        print(f"\nproperty {name}")
        traceback.print_exception(error)
    print(f"\n{len(failed)} of {len(PROPERTIES)} properties do not hold")
    return len(failed)


def main() -> None:
    """Check the histories of the command line."""
    if not __debug__:
        sys.exit("The properties are assertions, which `python -O` leaves out: run without -O.")
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = (*FORMATS, *BOUND)
    options.add_argument("--histories", type=int, default=100_000, help="per format")
    options.add_argument("--format", action="append", choices=names, help="all by default")
    options.add_argument("--seed", type=int, help="of the first history; drawn by default")
    options.add_argument("--processes", type=int, default=1)
    options.add_argument("--out", type=Path, default=OUT, help=f"{OUT} by default")
    options.add_argument("--history", type=int, help="look at one history of one format")
    given = options.parse_args()
    formats = given.format or list(names)
    if given.history is not None:
        if len(formats) != 1:
            options.error("--history needs one --format")
        sys.exit(bool(look_at(formats[0], given.history)))
    seed = random.SystemRandom().randrange(2**40) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    # Modules stay; most objects of a case are gone before a collection would run.
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)
    found = run(formats, given.histories, seed, given.processes, given.out)
    for name, tally in found.items():
        print(
            f"{name:>15} {tally.histories:>9,} histories, {tally.shortened:>9,} shortened, "
            f"{len(tally.violations)} violations"
        )
    print(f"again: --seed {seed}")
    sys.exit(any(tally.violations for tally in found.values()))


if __name__ == "__main__":
    main()

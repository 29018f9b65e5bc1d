"""How many small faults in core and adapters the tests notice.

    python -m benchmarks.mutants --count 200 --seed 1 [--jobs 2]

Draws places in `src/agora/core` and `src/agora/adapters`, changes one at a time in a copy of the
sources (a comparison, `and` for `or`, a constant, what is returned, `any` for `all`, a statement
removed), and runs the tests that run its line, the nearest first: which they are is measured once
at the start. A line that is run when its module is loaded has to pass all fast tests of core and
adapters. What is done stands in the file `--out`, a line each: the same command goes on where it
was stopped, and a greater count draws on. A mutant whose source has changed is tried anew.
Some mutants change nothing that could be seen, so that not every one that survives is a gap.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue

from coverage import CoverageData
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from harness.mutants import ROOT, SOURCES, WIDE, Place, covering, drawn, near, wilson

OUT = Path("build/mutants.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A mutant and what became of it."""

    key: str
    kind: str
    was: str
    now: str
    fate: str
    """`killed`, `survived` or `timed out`."""
    seconds: float
    source: str
    """A hash of the file that was changed."""


def passes(tests: Sequence[str], source: Path, timeout: float, examples: int = 20) -> bool:
    """Run tests on a copy of the sources, so many examples of each, up to the first that fails.

    Raises:
        subprocess.TimeoutExpired: they took too long.
    """
    environment = {
        **os.environ,
        "AGORA_EXAMPLES": str(examples),
        "CI": "true",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join([str(source), str(ROOT)]),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-m", "not long and not timing", *tests],
        cwd=ROOT,
        env=environment,
        timeout=timeout,
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def fate_of(place: Place, source: Path, tests: Sequence[str], timeout: float) -> str:
    """Return what becomes of a mutant that these tests run; the copy is afterwards as it was."""
    file = source / place.path
    file.write_text(place.mutant.of(place.text), encoding="utf-8")
    # Its own doctests first: they stand nearest of all.
    first = (str(file), *(tests or near(place.path)))
    try:
        for stage in [first] if tests else [first, WIDE]:
            if not passes(stage, source, timeout):
                return "killed"
    except subprocess.TimeoutExpired:
        return "timed out"
    finally:
        file.write_text(place.text, encoding="utf-8")
    return "survived"


def _traced(source: Path) -> Path:
    """Write what is to be measured, beside the sources, and return where."""
    file = source.parent / "coverage.ini"
    data = source.parent / "coverage"
    folders = "\n    ".join(str(source / folder) for folder in SOURCES)
    file.write_text(f"[run]\nsource =\n    {folders}\ndata_file = {data}\n", encoding="utf-8")
    return file


def tried(places: Sequence[Place], timeout: float, jobs: int, console: Console) -> Iterator[Tried]:
    """Yield what becomes of each mutant, and show how far the run is."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with tempfile.TemporaryDirectory() as folder, Progress(*columns, console=console) as progress:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        bar = progress.add_task("tests without a fault", total=len(places))
        known = CoverageData(str(Path(folder) / "coverage"))
        traced = ("--cov", "--cov-config", str(_traced(source)), "--cov-context=test")
        if places and not passes((*WIDE, *traced, "--cov-report="), source, 20 * timeout, 2):
            sys.exit(f"the tests fail without any fault: pytest {' '.join(WIDE)}")
        known.read()
        progress.update(bar, description="mutants")
        trying = Trying(known, source, timeout)
        with ThreadPoolExecutor(jobs) as pool:
            under_way = [pool.submit(trying.one, place) for place in places]
            try:
                for done in as_completed(under_way):
                    yield done.result()
                    progress.advance(bar)
            finally:
                pool.shutdown(cancel_futures=True)


class Trying:
    """Tries mutants side by side, each in a copy of the sources of its own."""

    def __init__(self, known: CoverageData, measured: Path, timeout: float) -> None:
        self.known, self.measured, self.timeout = known, measured, timeout
        self.free: SimpleQueue[Path] = SimpleQueue()
        self.asking = threading.Lock()
        self.copies = 0

    def one(self, place: Place) -> Tried:
        """Return what becomes of a mutant."""
        # One at a time: the measured lines stand in a database.
        with self.asking:
            copy = self._copy() if self.free.empty() else self.free.get()
            near_by = covering(self.known, self.measured, place)
        begun = time.monotonic()
        try:
            fate = fate_of(place, copy, near_by, self.timeout)
        finally:
            self.free.put(copy)
        return Tried(
            key=place.key,
            kind=place.mutant.kind,
            was=place.mutant.was(place.text),
            now=place.mutant.now,
            fate=fate,
            seconds=round(time.monotonic() - begun, 1),
            source=place.source,
        )

    def _copy(self) -> Path:
        self.copies += 1
        copy = self.measured.parent / f"copy{self.copies}"
        shutil.copytree(self.measured, copy)
        return copy


def read(path: Path) -> dict[tuple[str, str], Tried]:
    """Return what was tried before, by mutant and source."""
    if not path.is_file():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [Tried(**json.loads(line)) for line in lines if line]
    return {(one.key, one.source): one for one in found}


def report(found: Sequence[Tried]) -> Iterator[str]:
    """Yield every mutant that survived, and the share of those that did not."""
    for one in found:
        if one.fate == "survived":
            yield f"{one.key}\n    - {one.was}\n    + {one.now}"
    fates = Counter(one.fate for one in found)
    noticed = len(found) - fates["survived"]
    low, high = wilson(noticed, len(found))
    share = noticed / len(found) if found else 0.0
    yield f"{len(found)} mutants: " + ", ".join(f"{n} {fate}" for fate, n in sorted(fates.items()))
    yield f"noticed {share:.1%} [{low:.1%}, {high:.1%}]"


def main() -> None:
    """Try as many mutants as asked for, and print how many the tests notice."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--count", type=int, default=200, help="how many mutants")
    options.add_argument("--seed", type=int, default=1, help="of the draw")
    options.add_argument(
        "--timeout", type=float, default=300.0, help="seconds for each run of tests"
    )
    options.add_argument("--jobs", type=int, default=1, help="how many side by side")
    options.add_argument("--out", type=Path, default=OUT, help="the file with what is done")
    given = options.parse_args()
    places = drawn(given.count, given.seed)
    before = read(given.out)
    missing = [place for place in places if (place.key, place.source) not in before]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    with given.out.open("a", encoding="utf-8") as file:
        for one in tried(missing, given.timeout, given.jobs, console):
            file.write(json.dumps(asdict(one), ensure_ascii=False) + "\n")
            file.flush()
    after = read(given.out)
    for line in report([after[place.key, place.source] for place in places]):
        print(line)


if __name__ == "__main__":
    main()

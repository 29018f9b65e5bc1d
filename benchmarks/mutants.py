"""How many small faults in core and adapters the tests notice.

    python -m benchmarks.mutants --count 200 --seed 1

Draws places in `src/agora/core` and `src/agora/adapters`, changes one at a time in a copy of the
sources (a comparison, `and` for `or`, a constant, what is returned, `any` for `all`, a statement
removed), and runs the tests nearest to the module; what these let pass has to pass all fast tests
of core and adapters. What is done stands in the file `--out`, a line each: the same command goes on
where it was stopped, and a greater count draws on. A mutant whose source has changed is tried anew.
Some mutants change nothing that could be seen, so that not every one that survives is a gap.
"""

import argparse
import hashlib
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from harness.mutation import Mutant, mutants_of

ROOT = Path(__file__).parents[1]
SOURCES = ("agora/core", "agora/adapters")
OUT = Path("build/mutants.jsonl")
_CORE = "tests/core"
_SAID = ("truth", "truth_lists", "deeds", "forms", "renditions", "records", "observation")
NEAR = {
    "agora/core/reading/outcome": ("observation", "deeds", "truth_lists", "truth"),
    "agora/core/reading/observation": ("observation", "deeds", "truth"),
    "agora/core/reading/actions": ("actions", "deeds", "truth_lists", "forms"),
    "agora/core/reading/shell": ("deeds", "truth_lists"),
    "agora/core/reading/records": ("records", "observation", "truth"),
    "agora/core/reading/values": ("records", "observation", "truth"),
    "agora/core/reading/literals": ("literals", "records"),
    "agora/core/reading/names": ("names", "names_reference", "records"),
    "agora/core/reading/": ("mentions", "actions", *_SAID),
    "agora/core/renditions/": ("deeds", "renditions", "forms", "records", "truth"),
    "agora/core/selection/": ("forms", "whole_or_gone", "renditions", "truth"),
    "agora/core/schedule": ("schedule", "prefix_cache"),
    "agora/core/prices": ("prices", "schedule"),
    "agora/core/prefix_cache": ("prefix_cache", "schedule"),
    "agora/core/memo": ("memo",),
    "agora/core/tokens": ("tokens",),
    "agora/core/floor": ("floor",),
    "agora/core/binding": ("binding",),
    "agora/core/recall": ("recall",),
    "agora/core/worth": ("worth",),
    "agora/core/trajectory": ("trajectory", "recall"),
    "agora/core/compression": ("compression", "budget"),
}
"""The tests of tests/core that stand nearest to a module, the first beginning that fits."""
WIDE = (_CORE, "tests/adapters", "tests/test_forms.py", "tests/test_compressor.py")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A mutant in its file."""

    path: str
    """Below `src`."""
    text: str
    mutant: Mutant

    @property
    def source(self) -> str:
        """A hash of the file."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @property
    def key(self) -> str:
        """What tells it apart from every other."""
        one = self.mutant
        return f"{self.path}:{one.line}:{one.start}-{one.end}:{one.kind}"


def drawn(count: int, seed: int) -> list[Place]:
    """Return so many places, one change each, in an order that a greater count only adds to."""
    chance = random.Random(seed)
    found: list[Place] = []
    for folder in SOURCES:
        for file in sorted((ROOT / "src" / folder).rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            path = file.relative_to(ROOT / "src").as_posix()
            found += [Place(path=path, text=text, mutant=one) for one in mutants_of(text)]
    chance.shuffle(found)
    return found[:count]


def near(path: str) -> tuple[str, ...]:
    """Return the tests to run first for a module, as paths.

    >>> near("agora/core/memo.py")
    ('tests/core/test_memo.py',)
    >>> near("agora/adapters/texts.py")
    ('tests/adapters',)
    """
    for beginning, names in NEAR.items():
        if path.startswith(beginning):
            return tuple(f"{_CORE}/test_{name}.py" for name in names)
    return ("tests/adapters",) if path.startswith("agora/adapters") else (_CORE,)


def passes(tests: Sequence[str], source: Path, timeout: float) -> bool:
    """Run tests on a copy of the sources, up to the first that fails.

    Raises:
        subprocess.TimeoutExpired: they took too long.
    """
    environment = {
        "AGORA_EXAMPLES": "20",
        **os.environ,
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


def fate_of(place: Place, source: Path, timeout: float) -> str:
    """Return what becomes of a mutant; the copy is afterwards as it was."""
    file = source / place.path
    file.write_text(place.mutant.of(place.text), encoding="utf-8")
    try:
        for tests in (near(place.path), WIDE):
            if not passes(tests, source, timeout):
                return "killed"
    except subprocess.TimeoutExpired:
        return "timed out"
    finally:
        file.write_text(place.text, encoding="utf-8")
    return "survived"


def tried(places: Sequence[Place], timeout: float, console: Console) -> Iterator[Tried]:
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
        if places and not passes(WIDE, source, timeout):
            sys.exit(f"the tests fail without any fault: pytest {' '.join(WIDE)}")
        for place in places:
            progress.update(bar, description=f"{place.path}:{place.mutant.line}")
            begun = time.monotonic()
            fate = fate_of(place, source, timeout)
            yield Tried(
                key=place.key,
                kind=place.mutant.kind,
                was=place.mutant.was(place.text),
                now=place.mutant.now,
                fate=fate,
                seconds=round(time.monotonic() - begun, 1),
                source=place.source,
            )
            progress.advance(bar)


def read(path: Path) -> dict[tuple[str, str], Tried]:
    """Return what was tried before, by mutant and source."""
    if not path.is_file():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [Tried(**json.loads(line)) for line in lines if line]
    return {(one.key, one.source): one for one in found}


def wilson(part: int, of: int) -> tuple[float, float]:
    """Return the 95 % interval of a share.

    >>> [round(end, 3) for end in wilson(90, 100)]
    [0.826, 0.945]
    """
    if not of:
        return 0.0, 1.0
    z = 1.959964
    share = part / of
    middle = share + z * z / (2 * of)
    width = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return (middle - width) / (1 + z * z / of), (middle + width) / (1 + z * z / of)


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
    options.add_argument("--out", type=Path, default=OUT, help="the file with what is done")
    given = options.parse_args()
    places = drawn(given.count, given.seed)
    before = read(given.out)
    missing = [place for place in places if (place.key, place.source) not in before]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True)
    with given.out.open("a", encoding="utf-8") as file:
        for one in tried(missing, given.timeout, console):
            file.write(json.dumps(asdict(one), ensure_ascii=False) + "\n")
            file.flush()
    after = read(given.out)
    for line in report([after[place.key, place.source] for place in places]):
        print(line)


if __name__ == "__main__":
    main()

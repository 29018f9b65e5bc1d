"""How many of a sample of mutants of core and formats the tests kill; mutmut makes and runs them.

python -m benchmarks.mutation                        300 mutants of a seed that it draws and prints
python -m benchmarks.mutation --seed 7               those of a seed; goes on where it was stopped
python -m benchmarks.mutation --only core.schedule   the part of the sample in some modules

Mutants are in `mutants/`; `mutmut show NAME` prints one. It fails below 85 % killed.
"""

import argparse
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

FOLDER = Path("mutants")
GOAL = 0.85
_NO_TEST = 33
_KILLED = frozenset({1, 3, 24, -24, 36, 152, 255, -11, -9})
"""Exit codes of a test run that failed, hung or crashed."""


def results() -> dict[str, int | None]:
    """Return the exit code of each mutant, None for those that have not run."""
    found: dict[str, int | None] = {}
    for path in sorted(FOLDER.rglob("*.meta")):
        found |= json.loads(path.read_text("utf-8"))["exit_code_by_key"]
    return found


def untested(names: Iterable[str]) -> set[str]:
    """Return the mutants of functions that no test calls."""
    stats = json.loads((FOLDER / "mutmut-stats.json").read_text("utf-8"))
    tests = stats["tests_by_mangled_function_name"]
    return {name for name in names if not tests.get(name.rpartition("__mutmut_")[0])}


def module_of(name: str) -> str:
    """Return the module of a mutant, as `core.schedule`."""
    return ".".join(name.split(".")[1:3])


def _mutmut(*names: str) -> int:
    command = (sys.executable, "-m", "mutmut", "run", "--max-children", "2", *names)
    return subprocess.run(command, check=False).returncode


def main() -> None:
    """Run the sample and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--sample", type=int, default=300, help="how many mutants")
    parser.add_argument("--only", nargs="*", default=(), help="modules, as core.schedule")
    parser.add_argument("--out", type=Path, help="a JSON file for the results")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    # No mutant has this name: mutmut makes them all, notes which tests call what, and ends.
    _mutmut("none")
    every = sorted(results())
    random.Random(options.seed).shuffle(every)
    sample = every[: options.sample]
    wanted = [name for name in sample if not options.only or module_of(name) in options.only]
    alone = untested(wanted)
    known = results()
    if waiting := [name for name in wanted if name not in alone and known[name] is None]:
        _mutmut(*waiting)
    known = results() | dict.fromkeys(alone, _NO_TEST)
    codes = {name: known[name] for name in wanted if known[name] is not None}
    killed = [name for name, code in codes.items() if code in _KILLED]
    survivors = sorted(set(codes) - set(killed))
    show(codes, killed, survivors, of=len(every))
    if options.out:
        found = {
            "seed": options.seed,
            "mutants": len(every),
            "sample": len(codes),
            "killed": len(killed),
            "survivors": survivors,
        }
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    sys.exit(len(codes) < len(wanted) or len(killed) < GOAL * len(codes))


def show(codes: dict[str, int | None], killed: list[str], survivors: list[str], *, of: int) -> None:
    """Print a row for each module, and the names of the survivors."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    table = Table("Module", "Mutants", "Killed", title=f"{len(codes)} of {of:,} mutants")
    died = Counter(map(module_of, killed))
    for module, count in sorted(Counter(map(module_of, codes)).items()):
        table.add_row(module, str(count), str(died[module]))
    table.add_section()
    table.add_row("all", str(len(codes)), f"{len(killed)} ({len(killed) / max(1, len(codes)):.0%})")
    console.print(table)
    for name in survivors:
        console.print(name, "no test calls it" if codes[name] == _NO_TEST else "")


if __name__ == "__main__":
    main()

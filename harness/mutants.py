"""Which faults the tests are tried with, and which tests stand nearest to each."""

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path

from coverage import CoverageData

from harness.mutation import Mutant, mutants_of

ROOT = Path(__file__).parents[1]
SOURCES = ("agora/core", "agora/adapters")
_CORE = "tests/core"
_SAID = ("truth", "truth_lists", "short_action", "forms", "renditions", "records", "observation")
NEAR = {
    "agora/core/reading/outcome": ("observation", "short_action", "truth_lists", "truth"),
    "agora/core/reading/observation": ("observation", "short_action", "truth"),
    "agora/core/reading/actions": ("actions", "short_action", "truth_lists", "forms"),
    "agora/core/reading/shell": ("short_action", "truth_lists"),
    "agora/core/reading/records": ("records", "observation", "truth"),
    "agora/core/reading/values": ("records", "observation", "truth"),
    "agora/core/reading/literals": ("literals", "records"),
    "agora/core/reading/names": ("names", "names_reference", "records"),
    "agora/core/reading/": ("mentions", "actions", *_SAID),
    "agora/core/renditions/": ("short_action", "renditions", "forms", "records", "truth"),
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
_ALSO = (
    "arrival",
    "bound_thinking",
    "by_price",
    "compressor",
    "edits",
    "forgery",
    "forms",
    "one_question",
    "properties",
    "rows",
    "text_agents",
)
WIDE = (_CORE, "tests/adapters", *(f"tests/test_{name}.py" for name in _ALSO))
"""All fast tests of core and adapters."""


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
    """Return so many places, one change each, in an order that a greater count only adds to.

    Nor does it change for a file when another one does.
    """
    found: list[Place] = []
    for folder in SOURCES:
        for file in sorted((ROOT / "src" / folder).rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            path = file.relative_to(ROOT / "src").as_posix()
            found += [Place(path=path, text=text, mutant=one) for one in mutants_of(text)]
    return sorted(found, key=lambda place: _lot(f"{seed} {place.key}"))[:count]


def _lot(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


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


def covering(data: CoverageData, source: Path, place: Place) -> tuple[str, ...]:
    """Return the tests that run a mutant's lines, those nearest to its module first.

    A line that is run when its module is loaded is every test's: then there are none in particular.
    """
    by_line = data.contexts_by_lineno(str(source / place.path))
    first = place.mutant.line
    last = first + place.mutant.was(place.text).count("\n")
    contexts = {test for line in range(first, last + 1) for test in by_line.get(line, ())}
    if not contexts or "" in contexts:
        return ()
    tests = {context.split("|", 1)[0].split("[", 1)[0] for context in contexts}
    close = near(place.path)
    return tuple(sorted(tests, key=lambda test: (not test.startswith(close), test)))


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

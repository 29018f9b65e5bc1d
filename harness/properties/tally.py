"""Properties checked on many drawn histories, counted chunk by chunk in a file that only grows."""

import hashlib
import json
import logging
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import agora
from harness.properties.bound import BOUND, play
from harness.properties.case import Case
from harness.properties.checks import PROPERTIES
from harness.properties.draw import drawn

CHUNK = 500
"""Histories in a chunk: the most that an interrupted run does again."""
_CHECKED = (
    *("core", "adapters", "scorers", "testing", "compressor.py"),
    *("bound_thinking.py", "sent_thinking.py", "gateway/editing/thinking.py"),
)


@dataclass(frozen=True, slots=True)
class Violation:
    """A property that did not hold, and the seed that draws the history again."""

    format: str
    seed: int
    property: str
    error: str

    def __str__(self) -> str:
        return f"{self.format}, seed {self.seed}, property {self.property!r}: {self.error}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """What the properties found on so many histories of a format from one seed on."""

    format: str
    first_seed: int
    histories: int
    sources: str
    """A digest of the code that was checked; a chunk of other code does not count."""
    with_steps: int = 0
    shortened: int = 0
    seconds: float = 0.0
    violations: tuple[Violation, ...] = ()
    figures: Mapping[str, int] = field(default_factory=dict)
    """What was counted in conversations that were played."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "Chunk":
        """Return the chunk that a line of the file describes."""
        violations = tuple(Violation(**one) for one in record["violations"])
        return cls(**{**record, "violations": violations})


def check_chunk(
    format_name: str,
    first_seed: int,
    histories: int = CHUNK,
    *,
    draw: Callable[[str, int], Case] = drawn,
) -> Chunk:
    """Check every property on each history of a chunk; a violation is noted and stops nothing."""
    # A scorer that fails is one of the setups, and would log a warning for each history.
    logging.getLogger("agora.compressor").disabled = True
    if format_name in BOUND:
        return _play_chunk(format_name, first_seed, histories)
    with_steps = shortened = 0
    violations: list[Violation] = []
    begun = time.process_time()
    for seed in range(first_seed, first_seed + histories):
        case = draw(format_name, seed)
        for name, error in failures(case):
            violations.append(Violation(format_name, seed, name, _described(error)))
        with_steps += case.history.steps > 0
        shortened += case.shortened
    return Chunk(
        format=format_name,
        first_seed=first_seed,
        histories=histories,
        sources=sources(),
        with_steps=with_steps,
        shortened=shortened,
        seconds=round(time.process_time() - begun, 2),
        violations=tuple(violations),
    )


def _play_chunk(format_name: str, first_seed: int, histories: int) -> Chunk:
    """Play each conversation of a chunk before a provider that binds thinking."""
    violations: list[Violation] = []
    figures: Counter[str] = Counter()
    edited = 0
    begun = time.process_time()
    for seed in range(first_seed, first_seed + histories):
        try:
            played = play(BOUND[format_name], seed)
        except Exception as error:
            violations.append(Violation(format_name, seed, "9 thinking holds", _described(error)))
            continue
        figures.update(played.figures())
        edited += played.edits > 0
    return Chunk(
        format=format_name,
        first_seed=first_seed,
        histories=histories,
        sources=sources(),
        with_steps=histories,
        shortened=edited,
        seconds=round(time.process_time() - begun, 2),
        violations=tuple(violations),
        figures=dict(figures),
    )


def failures(case: Case) -> Iterator[tuple[str, Exception]]:
    """Yield each property that does not hold for a case, with what was raised."""
    for name, check in PROPERTIES.items():
        try:
            check(case)
        except Exception as error:
            # Anything that is raised is a finding, not only what a check asserts.
            yield name, error


def _described(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).name}:{last.lineno}"
    return f"{type(error).__name__} at {where}: {str(error)[:300] or last.line}"


def sources() -> str:
    """Return a digest of the code that the properties are about, and of the properties."""
    package = Path(agora.__file__).parent
    digest = hashlib.sha256()
    for root in (*(package / name for name in _CHECKED), Path(__file__).parent):
        for file in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
            digest.update(f"{file.name}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def read(path: Path, of: str) -> Iterator[Chunk]:
    """Yield the chunks in a file that were made from these sources; half a last line is not one."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                record = json.loads(line)
                if record["sources"] == of:
                    yield Chunk.of(record)


def append(path: Path, chunk: Chunk) -> None:
    """Add a chunk to the file, in one write; a line that was cut off is ended first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, 2)
            if file.read(1) != b"\n":
                file.truncate(_end_of_last_line(path))
        file.write(json.dumps(asdict(chunk)).encode() + b"\n")


def _end_of_last_line(path: Path) -> int:
    return path.read_bytes().rfind(b"\n") + 1


def missing(
    formats: Iterable[str], histories: int, done: Iterable[Chunk]
) -> Iterator[tuple[str, int, int]]:
    """Yield format, first seed and size of each chunk that is still to be checked."""
    there = {(chunk.format, chunk.first_seed, chunk.histories) for chunk in done}
    for name in formats:
        for first in range(0, histories, CHUNK):
            wanted = (name, first, min(CHUNK, histories - first))
            if wanted not in there:
                yield wanted


@dataclass(slots=True)
class Total:
    """What all chunks of one format found."""

    histories: int = 0
    with_steps: int = 0
    shortened: int = 0
    cpu_seconds: float = 0.0
    violations: Counter[str] = field(default_factory=Counter)
    figures: Counter[str] = field(default_factory=Counter)

    def add(self, chunk: Chunk) -> None:
        """Count a chunk in."""
        self.histories += chunk.histories
        self.with_steps += chunk.with_steps
        self.shortened += chunk.shortened
        self.cpu_seconds += chunk.seconds
        self.violations.update(one.property for one in chunk.violations)
        self.figures.update(chunk.figures)


def totals(chunks: Iterable[Chunk]) -> dict[str, Total]:
    """Return the totals by format. Each seed counts once, however the chunks were cut."""
    found: dict[str, Total] = {}
    seen: dict[str, int] = {}
    for chunk in sorted(chunks, key=lambda c: (c.format, c.first_seed, -c.histories)):
        if chunk.first_seed >= seen.get(chunk.format, 0):
            found.setdefault(chunk.format, Total()).add(chunk)
            seen[chunk.format] = chunk.first_seed + chunk.histories
    return found

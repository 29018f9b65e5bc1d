"""Properties checked on many drawn histories, and what came of them format by format."""

import logging
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.properties.bound import BOUND, play
from harness.properties.case import Case
from harness.properties.checks import PROPERTIES
from harness.properties.draw import drawn


@dataclass(slots=True)
class Tally:
    """What the properties found on the histories of one format."""

    histories: int = 0
    shortened: int = 0
    """Histories of which something was elided."""
    figures: Counter[str] = field(default_factory=Counter)
    """What was counted in conversations that were played."""
    violations: list[str] = field(default_factory=list)
    """Property, format, seed and error of each violation."""

    def add(self, other: "Tally") -> None:
        """Add what was found on other histories."""
        self.histories += other.histories
        self.shortened += other.shortened
        self.figures.update(other.figures)
        self.violations += other.violations


def check(format_name: str, first_seed: int, histories: int) -> Tally:
    """Check every property on each history from a seed on; a violation stops nothing."""
    # A scorer that fails is one of the setups, and would log a warning for each history.
    logging.getLogger("agora.compressor").disabled = True
    tally = Tally(histories=histories)
    for seed in range(first_seed, first_seed + histories):
        place = f"--format {format_name} --history {seed}"
        if format_name in BOUND:
            try:
                played = play(BOUND[format_name], seed)
            except Exception as error:
                tally.violations.append(f"10 thinking holds, {place}: {_described(error)}")
                continue
            tally.figures.update(played.figures())
            tally.shortened += played.edits > 0
            continue
        case = drawn(format_name, seed)
        for name, raised in failures(case):
            tally.violations.append(f"{name}, {place}: {_described(raised)}")
        tally.shortened += case.shortened
    return tally


def failures(case: Case) -> Iterator[tuple[str, Exception]]:
    """Yield each property that does not hold for a case, with what was raised."""
    for name, holds in PROPERTIES.items():
        try:
            holds(case)
        except Exception as error:
            # Anything that is raised is a finding, not only what a check asserts.
            yield name, error


def _described(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).name}:{last.lineno}"
    return f"{type(error).__name__} at {where}: {str(error)[:300] or last.line}"

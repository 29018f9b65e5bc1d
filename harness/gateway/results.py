"""Figures of several parts in one JSON file, each part written on its own."""

import json
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Figures = dict[str, Any]


def put(file: str, part: str, figures: Figures) -> None:
    """Write the figures of one part into the file and keep those of the other parts."""
    path = Path(file)
    known = _read(path)
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    known[part] = {**figures, "date": date, "python": platform.python_version()}
    text = json.dumps(dict(sorted(known.items())), indent=1, ensure_ascii=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")


def percentile_ms(seconds: Sequence[float], percent: float) -> float:
    """Return a percentile of durations, in milliseconds.

    >>> percentile_ms([0.003, 0.001, 0.002], 50)
    2.0
    """
    return round(1e3 * sorted(seconds)[int((len(seconds) - 1) * percent / 100)], 2)


def _read(path: Path) -> Figures:
    known: Figures = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return known

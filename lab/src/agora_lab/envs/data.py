"""The folder of the lab's data, and errors that name the origin of missing files."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agora_lab.errors import ProblemError

_HERE = Path(__file__).parent
SPLITS = _HERE / "splits"
"""One JSON file per environment: task ids by split."""


class DataError(ProblemError):
    """Data of an environment that is missing or invalid."""


def data_folder() -> Path:
    """Return the data folder: `AGORA_DATA`, or the one next to the project."""
    named = os.environ.get("AGORA_DATA")
    return Path(named) if named else _HERE.parents[4] / "shared" / "data"


def data_file(name: str, *, origin: str) -> Path:
    """Return the path of a data file.

    Raises:
        DataError: It is missing. The error names its origin.
    """
    path = data_folder() / name
    if not path.exists():
        raise DataError(
            str(path), f"does not exist; it comes from {origin}; set AGORA_DATA to the folder above"
        )
    return path


def cache_folder(name: str) -> Path:
    """Return a cache folder for unpacked or built files, created if needed."""
    root = os.environ.get("AGORA_CACHE") or Path.home() / ".cache" / "agora"
    folder = Path(root) / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def read_splits(name: str) -> Mapping[str, Sequence[str]]:
    """Return task ids by split, in order.

    Raises:
        DataError: A task is in two splits, or twice in one.
    """
    found: Any = json.loads((SPLITS / f"{name}.json").read_text(encoding="utf-8"))
    seen: dict[str, str] = {}
    for split, tasks in found.items():
        for task in tasks:
            if task in seen:
                raise DataError(f"{name}.json", f"has {task!r} in {seen[task]} and in {split}")
            seen[task] = split
    return {split: tuple(tasks) for split, tasks in found.items()}

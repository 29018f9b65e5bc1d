"""Modules whose extra is not installed have no doctests to run; everything else is collected."""

import importlib
from pathlib import Path

from agora.errors import MissingExtraError

_SOURCE = Path(__file__).parent / "src"

# Run inside the environments of the packages they speak for, and only there.
collect_ignore_glob = ["src/agora_lab/methods/workers/*"]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out a module that cannot be imported for want of an extra, and for nothing else."""
    if collection_path.suffix != ".py" or _SOURCE not in collection_path.parents:
        return None
    parts = collection_path.relative_to(_SOURCE).with_suffix("").parts
    try:
        importlib.import_module(".".join(part for part in parts if part != "__init__"))
    except MissingExtraError:
        return True
    return None

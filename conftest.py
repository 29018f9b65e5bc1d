"""What every test run shares: which doctests are collected, and the profile for mutants."""

import importlib
from pathlib import Path

from hypothesis import HealthCheck, settings

from agora.errors import MissingExtraError

# How long an example takes says how busy the machine is; tests marked `timing` measure.
settings.register_profile("default", settings.get_profile("default"), deadline=None)
# The same few examples for every mutant, so that it is killed or survives again.
settings.register_profile(
    "mutation",
    max_examples=15,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

_SOURCE = Path(__file__).parent / "src"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out a module that cannot be imported for want of an extra, and for nothing else."""
    if collection_path.suffix != ".py" or _SOURCE not in collection_path.parents:
        return None
    parts = collection_path.relative_to(_SOURCE).with_suffix("").parts
    if parts[-1] == "__main__":
        return None
    try:
        importlib.import_module(".".join(part for part in parts if part != "__init__"))
    except MissingExtraError:
        return True
    return None

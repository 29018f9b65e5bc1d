"""What every run of tests shares: hypothesis' profiles, time by layer, doctests to collect."""

import importlib
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from agora.errors import MissingExtraError

# How long an example takes says how busy the machine is; tests marked `timing` measure.
settings.register_profile("default", settings.get_profile("default"), deadline=None)
settings.register_profile("few", settings.get_profile("default"), max_examples=30)
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


LAYERS = {
    "docs": ("tests/docs", "tests/release"),
    "servers": (
        *("tests/service", "tests/proxy", "tests/extproc", "tests/deploy", "tests/wrap"),
        "tests/agents",
    ),
    "frameworks": ("tests/integrations",),
    "lab": ("lab/",),
    "units and properties": ("tests/", "src/"),
}
"""The first folder that fits tells the layer of a test."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the seconds of each layer, summed over the workers."""
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                folders = (
                    name for name, places in LAYERS.items() if report.nodeid.startswith(places)
                )
                seconds[next(folders, "other")] += report.duration
    if sum(seconds.values()) > 60:
        layers = ", ".join(f"{name} {time:.0f}" for name, time in seconds.most_common())
        terminalreporter.write_line(f"seconds by layer: {layers}")


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

"""A steady server and plans of plain trajectories, for the tests of a run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from lab.harness.labelling import steady, tally, toy_plan

from agora_lab.label.asking import Backbone
from agora_lab.label.plan import Plan, read_plan

__all__ = ["backbone", "fail_next", "made_plan", "serving", "tally"]


@contextmanager
def serving(latency_ms: float = 1.0) -> Iterator[str]:
    with steady(latency_ms) as address:
        yield address


def backbone(address: str) -> Backbone:
    return Backbone(address=f"{address}/v1", model="steady", max_retries=2)


def made_plan(folder: Path, *, pairs: int = 90, both: bool = False) -> Plan:
    toy_plan(folder, pairs, kinds=("counterfactual", "likelihood") if both else ("counterfactual",))
    return read_plan(folder)


def fail_next(address: str, calls: int) -> None:
    """Have the server refuse the next calls as one that is too busy does."""
    urlopen(f"{address}/fail?next={calls}", data=b"{}").close()  # noqa: S310

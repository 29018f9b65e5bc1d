"""Labels in Parquet: how much an action needed a past step, with the texts that a scorer reads.

A row holds the observation and the step as the environment wrote them. Atoms are made of them when
a scorer is trained, by the code that serves. Parquet stores a text that many rows share once.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from agora_lab.errors import ProblemError


class LabelsError(ProblemError):
    """A file without labels, or labels that nothing can be learned from."""

    form = "{subject!r} {problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """How much one action needed one past step."""

    source: str
    """The environment or the log."""
    task: str
    """The unit that must be on one side of a split. Unique within a source."""
    trajectory: str
    anchor: int
    """The number of the step whose action is labelled."""
    candidate: int
    """The number of the past step."""
    current: str
    """The observation before the action: the paper's c_now."""
    action: str
    """The action of the past step."""
    observation: str
    """The observation of the past step."""
    label: float
    kind: str
    """`counterfactual`, or `counterfactual-hard` for the ablation Hard-CF."""


_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("source", "task", "trajectory")),
        *((name, pa.int32()) for name in ("anchor", "candidate")),
        *((name, pa.string()) for name in ("current", "action", "observation")),
        ("label", pa.float32()),
        ("kind", pa.string()),
    ]
)


def write_labels(path: Path, labels: Iterable[Label]) -> int:
    """Write labels to a file, replacing its content; return their number."""
    table = pa.Table.from_pylist([asdict(label) for label in labels], schema=_SCHEMA)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="zstd")
    return int(table.num_rows)


def read_labels(path: Path) -> list[Label]:
    """Return the labels in a file, in its order.

    Raises:
        LabelsError: It is not a file of labels.
    """
    names = [field.name for field in fields(Label)]
    try:
        with pq.ParquetFile(path) as file:
            if not set(names) <= set(file.schema_arrow.names):
                raise LabelsError(str(path), f"lacks some of the columns {', '.join(names)}")
            return [Label(**row) for row in file.read(columns=names).to_pylist()]
    except (OSError, pa.ArrowException) as error:
        raise LabelsError(str(path), f"is not readable Parquet: {error}") from error

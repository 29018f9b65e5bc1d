"""Label records, and the two Parquet files that hold them with the trajectories they are about.

A label says which step of which trajectory it is about, and nothing of what the
step says. The trajectories stand once each in a second file beside it. Features
and atoms are computed from those when a scorer is trained or reported on, by
the code that serves: stored beside the labels they would go stale with the next
version of that code, and hold every step as often as it has anchors.
"""

import hashlib
import json
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from agora.core.trajectory import Call, Step, Trajectory, Utterance
from agora.errors import LabelsError, MissingExtraError


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """How much one action needed one past step."""

    trajectory: str
    data: str
    """The hash of the trajectory, by which it is found."""
    source: str
    """Where it was recorded: the environment, the agent, the log."""
    task: str
    """What must not stand on both sides of a split. Told apart within a source."""
    anchor: int
    """The number of the step whose action it is."""
    candidate: int
    label: float
    kind: str
    """How the label was found: hindsight, likelihood, counterfactual."""


def data_hash(trajectory: Trajectory) -> str:
    """Return the SHA-256 of what the trajectory says, the same on every machine."""
    text = json.dumps(asdict(trajectory), ensure_ascii=True, sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def beside(labels: Path) -> Path:
    """Return where the trajectories lie that belong to a file of labels.

    >>> beside(Path("labels.parquet")).name
    'labels.trajectories.parquet'
    """
    return labels.with_suffix(".trajectories.parquet")


_GROUP = 64
"""How many trajectories are held before they are written."""


class Writer:
    """Writes labels and trajectories as they come, and holds eight bytes of each pair."""

    def __init__(self, path: Path) -> None:
        """Open both files; what was in them is replaced."""
        pa, pq = _arrow()
        self._pa = pa
        self._label_schema, self._schema = _schemas(pa)
        self._seen: dict[str, dict[str, array[int]]] = {}
        self._labels = pq.ParquetWriter(path, self._label_schema, compression="zstd")
        self._trajectories = pq.ParquetWriter(beside(path), self._schema, compression="zstd")
        self._label_rows: list[dict[str, Any]] = []
        self._rows: list[dict[str, Any]] = []

    def add(self, trajectory: Trajectory, labels: Iterable[Label]) -> int:
        """Write the labels of one trajectory; return how many were new.

        A trajectory may come again with other pairs, as from a second plan, and
        is written once. Of two labels of one kind for a pair the first stands.
        A trajectory without labels is left out.
        """
        rows = [asdict(label) for label in labels]
        if not rows:
            return 0
        data = rows[0]["data"]
        if data not in self._seen:
            self._seen[data] = {}
            self._rows.append({"data": data, **asdict(trajectory)})
        new = self._new(self._seen[data], rows)
        self._label_rows += new
        if len(self._rows) >= _GROUP:
            self._flush()
        return len(new)

    def _new(
        self, seen: dict[str, "array[int]"], rows: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return the rows whose pair was not written yet, and remember their pairs."""
        known = {kind: set(places) for kind, places in seen.items()}
        new = []
        for row in rows:
            place = row["anchor"] << 32 | row["candidate"]
            written = known.setdefault(row["kind"], set())
            if place not in written:
                written.add(place)
                seen.setdefault(row["kind"], array("Q")).append(place)
                new.append(row)
        return new

    def _flush(self) -> None:
        table = self._pa.Table.from_pylist
        self._labels.write_table(table(self._label_rows, schema=self._label_schema))
        self._trajectories.write_table(table(self._rows, schema=self._schema))
        self._label_rows, self._rows = [], []

    def close(self) -> None:
        """Finish both files. Without it they cannot be read."""
        self._flush()
        self._labels.close()
        self._trajectories.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_labels(path: Path) -> list[Label]:
    """Return the labels in a file, in its order.

    Raises:
        LabelsError: it is no file of labels.
    """
    names = [field.name for field in fields(Label)]
    return [Label(**row) for row in _rows(path, names)]


def read_trajectories(labels: Path) -> Iterator[tuple[str, Trajectory]]:
    """Return the trajectories that the labels in a file are about, each with its hash.

    Raises:
        LabelsError: the file beside it is absent or holds something else.
    """
    names = ["data", *(field.name for field in fields(Trajectory))]
    for row in _rows(beside(labels), names):
        data = row.pop("data")
        row["steps"] = tuple(_step(step) for step in row["steps"])
        row["utterances"] = tuple(Utterance(**said) for said in row["utterances"])
        yield data, Trajectory(**row)


def _step(row: dict[str, Any]) -> Step:
    row["calls"] = tuple(Call(**call) for call in row["calls"])
    return Step(**row)


def _rows(path: Path, names: list[str]) -> Iterator[dict[str, Any]]:
    pa, pq = _arrow()
    try:
        with pq.ParquetFile(path) as file:
            if not set(names) <= set(file.schema_arrow.names):
                raise LabelsError(str(path), f"has not the columns {', '.join(names)}")
            for batch in file.iter_batches(columns=names):
                yield from batch.to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise LabelsError(str(path), f"cannot be read as Parquet: {error}") from error


def _schemas(pa: Any) -> tuple[Any, Any]:
    text, number = pa.string(), pa.int32()
    labels = pa.schema(
        [
            ("trajectory", text),
            ("data", text),
            ("source", text),
            ("task", text),
            ("anchor", number),
            ("candidate", number),
            ("label", pa.float32()),
            ("kind", text),
        ]
    )
    call = pa.struct([("name", text), ("arguments", text)])
    step = pa.struct(
        [
            ("number", number),
            ("action", text),
            ("observation", text),
            ("tokens", number),
            ("calls", pa.list_(call)),
            ("thought", text),
            ("form", text),
            ("residue_tokens", number),
            ("fixed", text),
        ]
    )
    said = pa.struct(
        [("after", number), ("text", text), ("tokens", number), ("by_user", pa.bool_())]
    )
    trajectories = pa.schema(
        [
            ("data", text),
            ("task", text),
            ("preamble", text),
            ("preamble_tokens", number),
            ("steps", pa.list_(step)),
            ("utterances", pa.list_(said)),
            ("pending_tokens", number),
        ]
    )
    return labels, trajectories


def _arrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError(__name__, "train") from error
    return pa, pq

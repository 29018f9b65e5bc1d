"""Label records, and the two Parquet files for labels and their trajectories.

A label refers to a step of a trajectory without repeating its text. Each
trajectory is stored once, in a second file. Features and atoms are computed from
it when a scorer is trained or reported on, by the code that serves: stored with
the labels they would go stale with the next version of that code, and repeat
every step for each of its anchors.
"""

import hashlib
import json
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from agora.core.trajectory import Call, Result, Step, Trajectory, Utterance
from agora.errors import AgoraError

_TOOLS = ("reading_tools", "changing_tools")


class LabelsError(AgoraError):
    """A file without labels, or labels that nothing can be learned from."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(file, problem)
        self.file = file
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.file!r} {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """How much one action needed one past step."""

    trajectory: str
    data: str
    """The hash of the trajectory, its key in the second file."""
    source: str
    """Where it was recorded: the environment, the agent, the log."""
    task: str
    """What must not be on both sides of a split. Unique within a source."""
    anchor: int
    """The number of the step whose action is labelled."""
    candidate: int
    label: float
    kind: str
    """How the label was made: hindsight, likelihood, counterfactual."""


def record(trajectory: Trajectory) -> dict[str, Any]:
    """Return a trajectory as plain data, each step by the names of its fields."""
    # `asdict` leaves named tuples as they are, with plain data in them; a step is one.
    plain = asdict(trajectory)
    return plain | {"steps": tuple(step._asdict() for step in plain["steps"])}


def trajectory_from(values: Mapping[str, Any]) -> Trajectory:
    """Return the trajectory in a `record`, or in a row of the second file."""
    utterances = tuple(Utterance(**said) for said in values["utterances"])
    steps = tuple(_step(step) for step in values["steps"])
    tools = {name: tuple(values[name]) for name in _TOOLS if name in values}
    return Trajectory(**{**values, **tools, "steps": steps, "utterances": utterances})


def _step(row: Mapping[str, Any]) -> Step:
    calls = tuple(Call(**call) for call in row["calls"])
    several = tuple(Result(*result) for result in row.get("several", ()))
    return Step(**{**row, "calls": calls, "several": several})


def data_hash(trajectory: Trajectory) -> str:
    """Return the SHA-256 of the trajectory's content, the same on every machine."""
    text = json.dumps(record(trajectory), ensure_ascii=True, sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def beside(labels: Path) -> Path:
    """Return the path of the trajectories that belong to a file of labels.

    >>> beside(Path("labels.parquet")).name
    'labels.trajectories.parquet'
    """
    return labels.with_suffix(".trajectories.parquet")


_GROUP = 64
"""How many trajectories are buffered before they are written."""


class Writer:
    """Writes labels and trajectories as they come, keeping eight bytes per pair in memory."""

    def __init__(self, path: Path) -> None:
        """Open both files, replacing their contents."""
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

        A trajectory may come again with other pairs, as from a second plan, and is
        written once. Of two labels of one kind for a pair, the first wins. A
        trajectory without labels is left out.
        """
        rows = [asdict(label) for label in labels]
        if not rows:
            return 0
        data = rows[0]["data"]
        if data not in self._seen:
            self._seen[data] = {}
            self._rows.append({"data": data, **record(trajectory)})
        new = self._new(self._seen[data], rows)
        self._label_rows += new
        if len(self._rows) >= _GROUP:
            self._flush()
        return len(new)

    def _new(
        self, seen: dict[str, "array[int]"], rows: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return the rows whose pair has not been written yet, and remember their pairs."""
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
        """Finish both files. Without this they cannot be read."""
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
        LabelsError: it is not a file of labels.
    """
    names = [field.name for field in fields(Label)]
    return [Label(**row) for row in _rows(path, names)]


def read_trajectories(labels: Path) -> Iterator[tuple[str, Trajectory]]:
    """Return the trajectories of the labels in a file, each with its hash.

    Raises:
        LabelsError: the trajectory file is missing or holds something else.
    """
    # Whether thinking is bound, where a cache is marked and what tools say of themselves are
    # matters of the request that is sent.
    request = ("bound", "unmarked_tokens", *_TOOLS)
    names = ["data", *(one.name for one in fields(Trajectory) if one.name not in request)]
    for row in _rows(beside(labels), names):
        yield row.pop("data"), trajectory_from(row)


def _rows(path: Path, names: list[str]) -> Iterator[dict[str, Any]]:
    pa, pq = _arrow()
    try:
        with pq.ParquetFile(path) as file:
            if not set(names) <= set(file.schema_arrow.names):
                raise LabelsError(str(path), f"lacks some of the columns {', '.join(names)}")
            for batch in file.iter_batches(columns=names):
                yield from batch.to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise LabelsError(str(path), f"is not readable Parquet: {error}") from error


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
            ("removable", pa.bool_()),
            ("action_tokens", number),
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
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pa, pq

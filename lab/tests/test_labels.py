from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lab.tests.tiny_encoder import make_labels

from agora_lab.labels import LabelsError, read_labels, write_labels


def test_labels_come_back_as_they_were(tmp_path: Path) -> None:
    labels = make_labels(3)
    file = tmp_path / "new" / "labels.parquet"

    assert write_labels(file, labels) == len(labels)
    assert read_labels(file) == labels


def test_a_text_that_many_labels_share_is_stored_once(tmp_path: Path) -> None:
    [label, *_] = make_labels(1)
    long = replace(label, current="x y z " * 5_000)

    write_labels(tmp_path / "one.parquet", [long])
    write_labels(tmp_path / "many.parquet", [long] * 500)

    sizes = [(tmp_path / f"{name}.parquet").stat().st_size for name in ("one", "many")]
    assert sizes[1] < 2 * sizes[0]


def test_a_file_that_holds_no_labels_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "labels.parquet"
    path.write_text("no")
    with pytest.raises(LabelsError, match="Parquet"):
        read_labels(path)
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(LabelsError, match="columns"):
        read_labels(path)

"""Labels by scripted agents: counterfactual, on training tasks only."""

from pathlib import Path

import pytest

from agora_lab.envs import world
from agora_lab.envs.data import DataError
from agora_lab.label.scripted import Settings, label_scripted
from agora_lab.labels import read_labels
from agora_lab.train.questions import read_questions


def test_scripted_agents_label_training_tasks_the_same_way_each_time(tmp_path: Path) -> None:
    settings = Settings(pairs=60, pairs_per_trajectory=12)
    files = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    try:
        counts = [label_scripted(("webshop",), file, settings)["webshop"] for file in files]
    except DataError as error:
        pytest.skip(str(error))

    labels = read_labels(files[0])

    assert labels == read_labels(files[1])
    assert counts[0] == counts[1]
    assert counts[0].pairs == len(labels) == 60
    assert counts[0].critical == sum(one.label for one in labels) > 0
    assert {one.label for one in labels} == {0.0, 1.0}
    assert {one.task for one in labels} <= set(world("webshop").splits()["train"])
    # The newest two steps are always kept, so they have no labels.
    assert all(one.candidate < one.anchor - 2 for one in labels)
    assert sum(question.pairs for question in read_questions(files[:1], newest=True)) == 60

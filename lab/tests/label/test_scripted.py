"""Labels by scripted agents: counterfactual, on training tasks only."""

import pytest

from agora_lab.envs import world
from agora_lab.envs.data import DataError
from agora_lab.label.scripted import Settings, label_scripted


def test_scripted_agents_label_training_tasks_the_same_way_each_time() -> None:
    settings = Settings(pairs=60, pairs_per_trajectory=12)
    counts: list[tuple[int, int]] = []
    try:
        labels = label_scripted("webshop", settings, progress=lambda *now: counts.append(now))
        again = label_scripted("webshop", settings)
    except DataError as error:
        pytest.skip(str(error))

    assert labels == again
    assert len(labels) == 60
    assert counts[-1] == (60, 60)
    assert {label.label for label in labels} == {0.0, 1.0}
    assert {label.task for label in labels} <= set(world("webshop").splits()["train"])
    # The newest two steps are always kept, so they have no labels.
    assert all(label.candidate < label.anchor - 2 for label in labels)
    assert all(label.current and label.action and label.observation for label in labels)

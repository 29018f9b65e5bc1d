import pytest
from lab.tests.tiny_encoder import make_labels

from agora_lab.train.cross_encoder import held_out
from agora_lab.train.metrics import auc


def test_an_interval_holds_its_figure_and_is_drawn_by_task() -> None:
    labels = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    scores = [0.9, 0.1, 0.2, 0.3, 0.5, 0.1]

    figure = auc(labels, scores, ["a", "a", "a", "b", "b", "b"])

    assert figure.value == pytest.approx(0.875)
    assert figure.low <= figure.value <= figure.high
    assert auc(labels, scores, ["a"] * 6).low == pytest.approx(0.875)


def test_without_needed_steps_there_is_no_figure() -> None:
    figure = auc([0.0, 0.0], [0.1, 0.2], ["a", "b"])

    assert figure.value != figure.value
    assert figure.low != figure.low


def test_the_share_held_out_is_of_the_tasks_of_each_source() -> None:
    labels = make_labels(30)

    outside = held_out(labels, share=0.2, seed=42)

    assert len([task for task in outside if task.startswith("large/")]) == 4
    assert len([task for task in outside if task.startswith("small/")]) == 2
    assert outside == held_out(reversed(labels), share=0.2, seed=42)
    assert outside != held_out(labels, share=0.2, seed=43)


def test_ties_count_half() -> None:
    assert auc([1.0, 0.0], [0.5, 0.5], ["a", "b"]).value == 0.5
    assert auc([1.0, 0.0, 0.0, 1.0], [0.9, 0.1, 0.9, 0.2], ["a"] * 4).value == 0.625

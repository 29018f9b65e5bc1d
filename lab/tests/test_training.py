import random

import numpy as np
import pytest

from agora.core.trajectory import Anchor
from agora_lab.train.metrics import Ranking, measure
from agora_lab.train.questions import Question, bounds_of, fold, groups, held_out


def test_a_task_is_always_in_the_same_fold() -> None:
    assert {fold(f"task {n}", 4, 42) for n in range(100)} == {0, 1, 2, 3}
    assert fold("task 1", 4, 42) == fold("task 1", 4, 42)


def test_the_figures_are_those_of_scikit_learn() -> None:
    from sklearn.metrics import average_precision_score, roc_auc_score

    chance = random.Random(1)
    labels = [float(chance.random() < 0.2) for _ in range(500)]
    scores = [round(chance.random() * 0.5 + 0.3 * label, 1) for label in labels]
    weights = np.array([float(chance.randrange(4)) for _ in labels])
    ranking = Ranking(labels, scores)

    for given in (None, weights):
        assert ranking.auc(given) == pytest.approx(
            roc_auc_score(labels, scores, sample_weight=given)
        )
        assert ranking.average_precision(given) == pytest.approx(
            average_precision_score(labels, scores, sample_weight=given)
        )


def test_a_score_that_is_the_share_of_needed_steps_is_calibrated() -> None:
    labels = [1.0, 0.0, 0.0, 0.0] * 50

    assert Ranking(labels, [0.25] * 200).calibration_error() == pytest.approx(0)
    assert Ranking(labels, [0.75] * 200).calibration_error() == pytest.approx(0.5)


def test_an_interval_holds_its_figure() -> None:
    labels = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    found = measure(labels, [0.9, 0.1, 0.2, 0.3, 0.5, 0.1], ["a", "a", "a", "b", "b", "b"])

    assert found.auc.low <= found.auc.value <= found.auc.high
    assert str(found.auc).startswith("0.875")


def test_without_needed_steps_there_is_no_figure() -> None:
    found = measure([0.0, 0.0], [0.1, 0.2], ["a", "b"], resamples=10)

    assert found.auc.value != found.auc.value
    assert found.auc.low != found.auc.low


def test_each_pair_has_to_have_a_label_a_score_and_a_task() -> None:
    with pytest.raises(ValueError, match="2 labels, 1 scores and 2 tasks"):
        measure([1.0, 0.0], [0.5], ["a", "b"])
    with pytest.raises(ValueError, match="2 labels, 2 scores and 1 tasks"):
        measure([1.0, 0.0], [0.5, 0.1], ["a"])
    with pytest.raises(ValueError, match="1 labels were given for 2 scores"):
        Ranking([1.0], [0.5, 0.1])


def make_question(source: str, task: int, kind: str = "hindsight") -> Question:
    return Question(
        anchor=Anchor("", ""),
        past=(),
        candidates=(),
        labels=(),
        task=f"{source}/{task}",
        source=source,
        kind=kind,
    )


def test_a_source_with_labels_of_two_kinds_is_counted_as_two() -> None:
    asked = [make_question("a", 1), make_question("b", 1), make_question("b", 1, "exact")]

    assert groups(asked) == ["a", "b (hindsight)", "b (exact)"]


def test_the_share_held_out_is_of_the_tasks_of_each_source() -> None:
    asked = [make_question(source, task) for source in "ab" for task in range(50)]

    held = held_out(asked, share=0.2, seed=42)

    assert sum(held[:50]) == sum(held[50:]) == 10


def test_what_a_training_held_out_is_known_from_some_of_its_questions_alone() -> None:
    asked = [make_question("a", task) for task in range(50)]
    names = [(one.source, one.task) for one in asked]
    held = held_out(asked, share=0.2, seed=42)
    bounds = bounds_of(names, share=0.2, seed=42)

    for part in (slice(0, 7), slice(10, 50, 3)):
        assert held_out(asked[part], share=0.2, seed=42, bounds=bounds) == held[part]
    assert held_out([make_question("new", 1)], share=0.2, seed=42, bounds=bounds) == [True]

import random

import numpy as np
import pytest

from agora.core.trajectory import Anchor
from agora.scorers.tables import read, write
from agora_lab.labels import LabelsError
from agora_lab.train.features import Examples, TreeSettings, train
from agora_lab.train.metrics import Ranking, measure
from agora_lab.train.questions import Question, bounds_of, fold, groups, held_out

NAMES = ("a", "b", "c", "d")


def make_examples(pairs: int = 3_000) -> Examples:
    chance = random.Random(0)
    rows = [[chance.randrange(8) for _ in NAMES] for _ in range(pairs)]
    labels = [
        float(chance.random() < (0.5 if row[0] > 4 and row[1] < 3 else 0.02 * row[2]))
        for row in rows
    ]
    return Examples(
        rows=rows,
        labels=labels,
        tasks=[f"task {n % 50}" for n in range(pairs)],
        sources=["large" if n % 3 else "small" for n in range(pairs)],
    )


def test_the_exported_tables_say_what_the_trained_model_says() -> None:
    examples = make_examples()

    trained = train(examples, features=NAMES, values=8, settings=TreeSettings(rounds=60))

    margins = np.ravel(trained.model.decision_function(np.array(examples.rows, dtype=float)))
    wanted = 1 / (1 + np.exp(-(trained.tables.slope * margins + trained.tables.intercept)))
    exported = read(write(trained.tables, {}), features=NAMES, values=8)
    assert (
        np.abs(wanted - exported.probabilities(list(zip(*examples.rows, strict=True)))).max() < 1e-6
    )
    assert trained.metrics["auc"] > 0.7


def test_training_twice_gives_the_same_file() -> None:
    examples = make_examples(900)
    settings = TreeSettings(rounds=20, most_pairs=300)

    first, second = (train(examples, features=NAMES, values=8, settings=settings) for _ in range(2))

    assert write(first.tables, {}) == write(second.tables, {})


def test_labels_of_one_kind_or_one_task_cannot_be_trained_on() -> None:
    one_kind = Examples(rows=[[0] * 4] * 9, labels=[0.0] * 9, tasks=["a"] * 9, sources=["s"] * 9)
    with pytest.raises(LabelsError, match="are the same"):
        train(one_kind, features=NAMES, values=8)
    one_task = Examples(
        rows=[[n % 8] * 4 for n in range(99)],
        labels=[float(n % 2) for n in range(99)],
        tasks=["a"] * 99,
        sources=["s"] * 99,
    )
    with pytest.raises(LabelsError, match="too few"):
        train(one_task, features=NAMES, values=8)


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


def test_balanced_sources_weigh_alike_however_many_needed_pairs_they_have() -> None:
    # The two sources disagree about what `a` means, and one is twenty times as large.
    chance = random.Random(3)
    rows = [[chance.randrange(8), 0, 0, 0] for _ in range(8_400)]
    sources = ["small" if n % 21 == 0 else "large" for n in range(8_400)]
    labels = [
        float(chance.random() < (0.4 if (row[0] > 3) == (source == "small") else 0.02))
        for row, source in zip(rows, sources, strict=True)
    ]
    tasks = [f"{source} {n % 40}" for n, source in enumerate(sources)]
    examples = Examples(rows=rows, labels=labels, tasks=tasks, sources=sources)

    def leaning(most_needed: int | None) -> float:
        settings = TreeSettings(rounds=30, most_needed=most_needed)
        tables = train(examples, features=NAMES, values=8, settings=settings).tables
        low, high = tables.margins([(0, 7), (0, 0), (0, 0), (0, 0)])
        return low - high

    assert abs(leaning(50)) < leaning(None) / 2


def test_soft_labels_tell_apart_what_is_the_same_once_cut_at_one_half() -> None:
    chance = random.Random(5)
    rows = [[chance.randrange(8), 0, 0, 0] for _ in range(2_000)]
    # All of them are below one half but for a few by chance: cut, `a` says next to nothing.
    labels = [0.1 if row[0] < 4 else 0.45 for row in rows]
    labels[:100] = [float(chance.random() < 0.5) for _ in range(100)]
    examples = Examples(
        rows=rows, labels=labels, tasks=[str(n % 40) for n in range(2_000)], sources=["s"] * 2_000
    )

    def apart(soft: bool) -> float:
        settings = TreeSettings(rounds=30, soft=soft)
        tables = train(examples, features=NAMES, values=8, settings=settings).tables
        high, low = tables.probabilities([(7, 0), (0, 0), (0, 0), (0, 0)])
        return float(high - low)

    assert apart(soft=True) > 0.2
    assert apart(soft=True) > 3 * abs(apart(soft=False))


def test_labels_that_are_shares_already_count_the_same_either_way() -> None:
    examples = make_examples()

    soft, hard = (
        train(examples, features=NAMES, values=8, settings=TreeSettings(rounds=20, soft=soft))
        for soft in (True, False)
    )

    assert soft.metrics["needed"] == hard.metrics["needed"]
    assert soft.metrics["auc"] == pytest.approx(hard.metrics["auc"], abs=0.02)

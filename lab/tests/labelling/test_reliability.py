import random
from math import log
from pathlib import Path

import numpy as np
import pytest
from lab.tests.labelling.making import plain_case

from agora_lab.labelling.answered_pairs import by_key, match_answers
from agora_lab.labelling.answers import Answered
from agora_lab.labelling.plan import PlanSettings, asks, read_plan, write_plan
from agora_lab.labelling.reliability import (
    Figure,
    Pair,
    as_json,
    collect,
    costs,
    merged,
    quality,
    read_alone,
)


def drawn_pairs(count: int, *, noise: bool = False, seed: int = 0) -> list[Pair]:
    """Pairs with a true chance of change each, of which samples and likelihoods are made."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        change = 0.5 if noise else chance.random()
        without = tuple("go" if chance.random() < change else "look" for _ in range(8))
        found.append(
            Pair(
                source="log",
                task=f"task {number // 5}",
                data=f"{number // 5}",
                anchor=9,
                candidate=number % 5 + 1,
                full=("look",) * 8,
                without=without,
                logprobs=(0.0, log(max(1e-9, 1 - change))),
                others={"hindsight": float(change > 0.7)},
            )
        )
    return found


def by_name(figures: list[Figure]) -> dict[str, Figure]:
    return {one.name: one for one in figures}


def test_more_samples_are_more_reliable_and_doubling_is_what_spearman_and_brown_say() -> None:
    found = by_name(quality(drawn_pairs(400), resamples=50)["reliability"])

    hard, soft = found["hard (one sample a side): Pearson"], found["Eq. 4, K = 8: Pearson"]
    assert hard.value < soft.value < 1
    # With change uniform in [0, 1]: var p = 1/12, var of one sample 1/4, of the mean of four
    # 1/12 + 1/24; reliabilities 1/3 and 2/3.
    assert hard.value == pytest.approx(1 / 3, abs=0.08)
    assert soft.value == pytest.approx(2 / 3, abs=0.06)
    assert soft.low < soft.value < soft.high
    doubled = found["Eq. 4, K = 8: Pearson, doubled"].value
    assert doubled == pytest.approx(2 * soft.value / (1 + soft.value))


def test_labels_of_pure_chance_are_not_reliable() -> None:
    found = by_name(quality(drawn_pairs(400, noise=True), resamples=50)["reliability"])

    assert abs(found["Eq. 4, K = 8: Pearson"].value) < 0.15


def test_a_likelihood_of_the_truth_foretells_better_than_samples_do() -> None:
    found = by_name(quality(drawn_pairs(400), resamples=20)["foretells"])

    likely = found["likelihood: Spearman with an unseen K = 8"].value
    assert likely > found["Eq. 4, K = 8: Spearman with an unseen K = 8"].value
    assert likely > found["hard: Spearman with an unseen K = 8"].value


def test_kinds_that_mean_the_same_agree() -> None:
    found = by_name(quality(drawn_pairs(400), resamples=20)["agreement"])

    assert found["likelihood for hindsight >= 0.5: AUC"].value == 1.0
    assert found["likelihood for counterfactual >= 0.5: AUC"].value > 0.9
    assert found["counterfactual and likelihood: Spearman"].value > 0.8


def test_the_same_answers_in_another_form_are_fully_alike() -> None:
    pairs = drawn_pairs(60)

    found = by_name(quality(pairs, other_form=pairs, resamples=10)["reliability"])

    assert found["likelihood, two forms of the prompt: Pearson"].value == pytest.approx(1)
    assert found["Eq. 4, K = 8, two forms of the prompt: Spearman"].value == pytest.approx(1)


def test_a_backbone_that_never_wavers_has_no_disagreement_with_itself() -> None:
    found = by_name(quality(drawn_pairs(50), resamples=10)["labels"])

    own = "disagreement with itself, every two samples"
    assert found[own].value == 0
    assert found["mean label, Eq. 4"].value == found["mean label net of it"].value


def test_a_report_is_the_same_each_time_and_plain_values() -> None:
    first, again = (as_json(quality(drawn_pairs(30), resamples=10)) for _ in range(2))

    assert np.array_equal(str(first), str(again))


def test_pairs_without_samples_are_compared_by_what_they_have() -> None:
    scored = [
        Pair(source="s", task=f"{n}", data=f"{n}", anchor=4, candidate=1, logprobs=(0.0, -n / 9),
             others={"hindsight": float(n > 4)})
        for n in range(10)
    ]  # fmt: skip

    report = quality(scored, resamples=10)

    assert not report["labels"]
    assert not report["reliability"]
    assert by_name(report["agreement"])["likelihood for hindsight >= 0.5: AUC"].value == 1.0


def test_pairs_of_two_plans_are_put_together() -> None:
    sampled = Pair(
        source="s", task="t", data="d", anchor=4, candidate=1, full=("a",), without=("b",)
    )
    scored = Pair(source="s", task="t", data="d", anchor=4, candidate=1, logprobs=(0.0, -1.0))

    (pair,) = merged([sampled, scored])

    assert (pair.full, pair.logprobs) == (("a",), (0.0, -1.0))


def test_an_answer_that_serves_many_pairs_is_paid_once(tmp_path: Path) -> None:
    settings = PlanSettings(backbone="b", samples=2)
    case = plain_case([f"a{n}" for n in range(6)], [f"key {n}" for n in range(6)])
    answers = [
        Answered(
            key=ask.key,
            kind="sample",
            case=0,
            anchor=ask.anchor,
            candidate=ask.candidate,
            texts=("go", "go"),
            input_tokens=100,
            cached_tokens=40,
            output_tokens=6,
        )
        for ask in asks(0, case, settings)
    ]
    answered = list(match_answers([case], by_key(answers), settings))

    summary = write_plan(tmp_path, [case], settings)
    read = read_alone(read_plan(tmp_path), by_key(answers))
    cost = costs(answered, read)["counterfactual"]
    found = list(collect(answered, {(case.data, 4, 1): {"exact": 1.0}}))

    assert (cost.pairs, cost.calls) == (6, 9)
    assert cost.per_pair() == {
        "prompt": 150,
        "read": 90,
        "read_alone": summary.new_tokens / 6,
        "written": 9,
    }
    assert [(pair.anchor, pair.candidate) for pair in found] == [
        (4, 1), (5, 1), (5, 2), (6, 1), (6, 2), (6, 3)
    ]  # fmt: skip
    assert found[0].others == {"exact": 1.0, "hindsight": 0.0}

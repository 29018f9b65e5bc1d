from collections.abc import Callable, Sequence
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab.tests.label.making import plain_case

from agora_lab.label.answers import Answered
from agora_lab.label.forms import Form, Tally, by_likelihood, canonical, hard, labels_of, soft
from agora_lab.label.plan import PlanSettings, Shard

FOUR = st.lists(st.sampled_from(["look", "go", "take"]), min_size=4, max_size=4)
CASE = plain_case([f"go {n}" for n in range(6)], [f"room {n}" for n in range(6)])
SHARD = Shard(case=CASE, anchors={5: (1, 2), 6: (3,)})
SAMPLED = PlanSettings(backbone="openai:m")
SCORED = PlanSettings(backbone="openai:m", kind="likelihood")


def answer(
    settings: PlanSettings, texts: Callable[[bool], Sequence[str]], logprob: float = 0.0
) -> dict[str, Answered]:
    """Answer each question; the log-probability is that of the prompts without the step."""
    return {
        ask.key: Answered(
            key=ask.key,
            anchor=ask.anchor,
            candidate=ask.candidate,
            whole=ask.whole,
            texts=tuple(texts(ask.whole)),
            logprob=-1.0 if ask.whole else logprob,
        )
        for ask in SHARD.asks(settings)
    }


@given(FOUR, FOUR)
def test_a_soft_label_is_the_share_of_paired_samples_that_differ(
    full: list[str], without: list[str]
) -> None:
    same = [n for n in range(4) if full[n] == without[n]]

    assert soft(full, without) == 1 - len(same) / 4
    assert hard(full, without) == (0 not in same)


@given(st.floats(-500, 0), st.floats(-500, 0))
def test_a_likelihood_label_is_what_is_lost_of_the_probability(full: float, without: float) -> None:
    label = by_likelihood(full, without)

    assert 0 <= label <= 1
    assert label == pytest.approx(1 - min(1.0, exp(min(0.0, without - full))))


@pytest.mark.parametrize(("form", "value"), [("soft", 0.75), ("hard", 0.0)])
def test_each_answered_pair_has_a_label_of_the_form(form: Form, value: float) -> None:
    answers = answer(SAMPLED, lambda whole: ["go"] * 4 if whole else ["go", "a", "b", "c"])
    tally = Tally()

    labels = list(labels_of(SHARD, answers, SAMPLED, tally, form))

    assert [(one.anchor, one.candidate) for one in labels] == [(5, 1), (5, 2), (6, 3)]
    assert {one.label for one in labels} == {value}
    assert {one.kind for one in labels} == {
        "counterfactual" if form == "soft" else "counterfactual-hard"
    }
    assert (tally.pairs, tally.missing, tally.apart) == (3, 0, 3)


def test_a_backbone_that_disagrees_with_itself_is_told() -> None:
    tally = Tally()
    answers = answer(SAMPLED, lambda _: ["a", "b", "a", "b"])

    assert [one.label for one in labels_of(SHARD, answers, SAMPLED, tally)] == [0.0] * 3
    assert tally.self_disagreement == 3.0


def test_likelihood_labels_come_from_scores() -> None:
    labels = list(labels_of(SHARD, answer(SCORED, lambda _: (), -2.0), SCORED, Tally()))

    assert [one.label for one in labels] == pytest.approx([1 - exp(-1)] * 3)


def test_a_pair_without_both_answers_has_no_label() -> None:
    answers = answer(SAMPLED, lambda _: ["go"] * 4)
    answers.popitem()
    tally = Tally()

    assert len(list(labels_of(SHARD, answers, SAMPLED, tally))) == 2
    assert tally.missing == 1


def test_actions_are_compared_in_the_form_of_their_environment() -> None:
    assert canonical("")("  look   around\nbecause") == "look around"
    same = canonical("webshop")
    assert same("Action: search[Red Shoes]") == same("search[red shoes]")

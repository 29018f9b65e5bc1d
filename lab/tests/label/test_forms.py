from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st
from lab.tests.label.making import plain_case

from agora_lab.label.answers import Answered
from agora_lab.label.forms import Tally, canonical, hard, labels_of, soft
from agora_lab.label.plan import PlanSettings, Shard

FOUR = st.lists(st.sampled_from(["look", "go", "take"]), min_size=4, max_size=4)
CASE = plain_case([f"go {n}" for n in range(6)], [f"room {n}" for n in range(6)])
SHARD = Shard(CASE, ((5, 1), (5, 2), (6, 3)))
PAPER = PlanSettings(backbone="openai:m")


def answer(texts: Callable[[bool], Sequence[str]]) -> dict[str, Answered]:
    """Answer each question; the texts depend on whether the prompt is whole."""
    return {
        ask.key: Answered(
            key=ask.key,
            anchor=ask.anchor,
            candidate=ask.candidate,
            whole=ask.whole,
            texts=tuple(texts(ask.whole)),
        )
        for ask in SHARD.asks(PAPER)
    }


@given(FOUR, FOUR)
def test_a_soft_label_is_the_share_of_paired_samples_that_differ(
    full: list[str], without: list[str]
) -> None:
    same = [n for n in range(4) if full[n] == without[n]]

    assert soft(full, without) == 1 - len(same) / 4
    assert hard(full, without) == (0 not in same)


def test_each_answered_pair_has_a_soft_and_a_hard_label_with_the_texts_a_scorer_reads() -> None:
    answers = answer(lambda whole: ["go"] * 4 if whole else ["go", "a", "b", "c"])
    tally = Tally()

    pairs = list(labels_of(SHARD, answers, PAPER, tally))

    assert [(label.anchor, label.candidate) for label, _ in pairs] == [(5, 1), (5, 2), (6, 3)]
    assert {(a.label, b.label) for a, b in pairs} == {(0.75, 0.0)}
    assert {(a.kind, b.kind) for a, b in pairs} == {("counterfactual", "counterfactual-hard")}
    assert (tally.pairs, tally.missing, tally.apart) == (3, 0, 3)
    label = pairs[-1][0]
    assert (label.current, label.action, label.observation) == ("room 4", "go 2", "room 2")


def test_a_backbone_that_disagrees_with_itself_is_told() -> None:
    tally = Tally()

    pairs = list(labels_of(SHARD, answer(lambda _: ["a", "b", "a", "b"]), PAPER, tally))

    assert [label.label for label, _ in pairs] == [0.0] * 3
    assert tally.self_disagreement == 3.0


def test_a_pair_without_both_answers_has_no_label() -> None:
    answers = answer(lambda _: ["go"] * 4)
    answers.popitem()
    tally = Tally()

    assert len(list(labels_of(SHARD, answers, PAPER, tally))) == 2
    assert tally.missing == 1


def test_actions_are_compared_in_the_form_of_their_environment() -> None:
    assert canonical("")("  look   around\nbecause") == "look around"
    same = canonical("webshop")
    assert same("Action: search[Red Shoes]") == same("search[red shoes]")

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora.core.trajectory import Anchor, Step
from agora.scorers.recency import RecencyScorer
from agora_lab.methods.agora import scorer_named
from agora_lab.methods.orders import ORDERS, Novel, PerToken
from agora_lab.methods.relations import related

words = st.text(alphabet="abc 12", max_size=20)


def stepped(texts: Sequence[tuple[str, str, int]]) -> list[Step]:
    return [
        Step(number=at, action=action, observation=seen, tokens=tokens)
        for at, (action, seen, tokens) in enumerate(texts, 1)
    ]


steps = st.lists(st.tuples(words, words, st.integers(0, 500)), max_size=8).map(stepped)


@pytest.mark.parametrize("name", ORDERS)
@given(given=steps, task=words, seen=words)
def test_every_order_gives_one_score_from_0_to_1_per_step(
    name: str, given: list[Step], task: str, seen: str
) -> None:
    scores = scorer_named(name).score(Anchor(task, seen), given)

    assert len(scores) == len(given)
    assert all(0 <= score <= 1 for score in scores)


@given(tokens=st.integers(1, 100), more=st.integers(1, 100))
def test_of_two_steps_worth_the_same_the_cheaper_comes_first(tokens: int, more: int) -> None:
    class Same:
        def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
            return [0.5] * len(steps)

    cheap, dear = PerToken(Same()).score(
        Anchor("", ""), stepped([("a", "b", tokens), ("a", "b", tokens + more)])
    )

    assert cheap > dear


def test_a_page_that_was_read_again_later_scores_below_one_that_was_not() -> None:
    again, once, newer = Novel(RecencyScorer()).score(
        Anchor("", ""),
        stepped([("open a", "red door", 9), ("open b", "blue key", 9), ("open a", "red door", 9)]),
    )

    assert again < once < newer


@given(text=st.text())
def test_a_text_without_a_marker_is_left_as_it_is(text: str) -> None:
    if " elided" not in text:
        assert related(text, {}) == text


@pytest.mark.parametrize("seen", ["not json", "", "[" * 100_000])
def test_an_observation_that_is_no_json_leaves_its_skeleton_as_it_is(seen: str) -> None:
    marker = "[step 3 elided]\n3 search -> 12A HAT1"

    assert related(marker, {3: seen}) == marker


def test_a_line_behind_the_skeletons_is_no_skeleton() -> None:
    seen = {3: '{"seat": "12A"}'}

    text = related("[step 3 elided]\n3 find -> 12A\n\n3 find -> 12A", seen)

    assert text == "[step 3 elided]\n3 find -> seat=12A\n\n3 find -> 12A"

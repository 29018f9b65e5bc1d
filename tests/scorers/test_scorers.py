from hypothesis import given
from hypothesis import strategies as st

from agora import Query, Step
from agora.scorers import BM25Scorer, RecencyScorer


def make_steps(*observations: str) -> list[Step]:
    return [
        Step(number=n + 1, action="look", observation=text, tokens=1)
        for n, text in enumerate(observations)
    ]


@given(st.lists(st.text()))
def test_newer_steps_score_higher_by_recency(texts: list[str]) -> None:
    scores = list(RecencyScorer().score(Query("", ""), make_steps(*texts)))

    assert scores == sorted(set(scores))
    assert all(0 < score < 1 for score in scores)


@given(st.lists(st.text()), st.text(), st.text())
def test_bm25_scores_lie_between_0_and_1(texts: list[str], task: str, now: str) -> None:
    scores = BM25Scorer().score(Query(task, now), make_steps(*texts))

    assert len(scores) == len(texts)
    assert all(0 <= score <= 1 for score in scores)


def test_the_step_that_shares_a_rare_word_with_the_anchor_scores_highest() -> None:
    steps = make_steps("the red door", "the blue door", "the green window")

    scores = BM25Scorer().score(Query("open it", "a blue door is here"), steps)

    assert scores[1] == max(scores) == 1.0


def test_steps_that_share_nothing_score_nothing() -> None:
    assert BM25Scorer().score(Query("x", "y"), make_steps("a", "b")) == [0.0, 0.0]

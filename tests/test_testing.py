from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from agora import Query, Step
from agora.errors import ScoreError
from agora.scorers import BM25Scorer, RecencyScorer
from agora.testing import FailingScorer, FixedScorer, check_scorer


@pytest.mark.parametrize("scorer", [BM25Scorer(), RecencyScorer(), FixedScorer((0.2, 1.0))])
def test_every_scorer_passes_its_check(
    scorer: BM25Scorer | RecencyScorer | FixedScorer,
) -> None:
    check_scorer(scorer)


@dataclass
class Moody:
    """Gives other scores each time."""

    asked: int = 0

    def score(self, query: Query, steps: Sequence[Step]) -> Sequence[float]:
        self.asked += 1
        return [1 / (1 + self.asked)] * len(steps)


class Greedy:
    """Empties the list it was given."""

    def score(self, query: Query, steps: Sequence[Step]) -> Sequence[float]:
        scores = [0.5] * len(steps)
        assert isinstance(steps, list)
        steps.clear()
        return scores


class Short:
    """Forgets the last step."""

    def score(self, query: Query, steps: Sequence[Step]) -> Sequence[float]:
        return [0.5] * (len(steps) - 1)


@pytest.mark.parametrize(
    ("scorer", "sentence"),
    [
        (Moody(), "the same steps got other scores"),
        (Greedy(), "the scorer changed the steps"),
        (Short(), "there are 0 scores for 1 steps|there are .* scores"),
        (FixedScorer((), otherwise=1.5), "1.5 is not a score"),
        (FixedScorer((), otherwise=float("nan")), "nan is not a score"),
        (FixedScorer((), otherwise=True), "True is not a score"),
    ],
)
def test_a_wrong_scorer_is_told_in_a_sentence(
    scorer: Moody | Greedy | Short | FixedScorer, sentence: str
) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_scorer(scorer)


def test_a_failing_scorer_raises_its_own_error() -> None:
    with pytest.raises(ScoreError, match="no weights"):
        check_scorer(FailingScorer(ScoreError("Fake", "no weights")))

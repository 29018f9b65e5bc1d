"""The interface of scorers."""

from collections.abc import Sequence
from typing import Protocol

from agora.core.trajectory import Query, Step
from agora.errors import ScoreError

NAMES = ("recency", "bm25")
"""The scorers that need no training; `agora.load_scorer` returns one by its name."""


class Scorer(Protocol):
    """Estimates how much the next action would miss each step."""

    def score(self, query: Query, steps: Sequence[Step]) -> Sequence[float]:
        """Return one score in [0, 1] per step, in step order; higher is more useful."""
        ...


def scores_of(scorer: Scorer, query: Query, steps: Sequence[Step]) -> Sequence[float]:
    """Return a scorer's result, checked.

    Raises:
        ScoreError: The scorer did not return one number in [0, 1] per step.
    """
    scores = list(scorer.score(query, steps))
    name = type(scorer).__name__
    if len(scores) != len(steps):
        raise ScoreError(name, f"{len(scores)} scores for {len(steps)} steps")
    for score in scores:
        # NaN fails the comparison, and so does infinity.
        if not (isinstance(score, (int, float)) and 0 <= score <= 1):
            raise ScoreError(name, f"the score {score!r}")
    return scores

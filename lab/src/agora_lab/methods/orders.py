"""Lab scorers that reorder another scorer's scores.

They address episodes that AGORA lost to keeping the newest steps at the same budget
(docs/log.md): a ten-token step that said what the agent carries was replaced by a
skeleton of the same size, and pages that had been read twice were kept twice.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from agora.core.scorer import Scorer
from agora.core.trajectory import Anchor, Step
from agora.scorers.features import FeaturesScorer
from agora.scorers.lexical import terms
from agora.scorers.recency import RecencyScorer

_LEAST_NEW = 0.1
"""The value of a step that brought nothing new: it still happened."""


@dataclass(frozen=True, slots=True)
class PerToken:
    """Scores a step by its value per token: cheap steps come first.

    >>> long = Step(number=1, action="read", observation="much", tokens=90)
    >>> short = Step(number=2, action="take", observation="taken", tokens=9)
    >>> scores = PerToken(RecencyScorer()).score(Anchor("", ""), [long, short])
    >>> [round(score, 2) for score in scores]
    [0.05, 1.0]
    """

    base: Scorer

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
        """Return one score per step, the best of them 1."""
        worth = [
            score / max(1, step.tokens)
            for score, step in zip(self.base.score(anchor, steps), steps, strict=True)
        ]
        best = max(worth, default=0.0)
        return [one / best if best else 0.0 for one in worth]


@dataclass(frozen=True, slots=True)
class Novel:
    """Scores a step lower the more of its words newer steps repeat.

    >>> old = Step(number=1, action="look", observation="a red door", tokens=5)
    >>> new = Step(number=2, action="look", observation="a red door", tokens=5)
    >>> Novel(RecencyScorer()).score(Anchor("", "a hall"), [old, new])[0] < 0.1
    True
    """

    base: Scorer

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
        """Return the other scorer's scores, each multiplied by the novelty of its step."""
        seen = set(_words(anchor.observation))
        new: list[float] = []
        for step in reversed(steps):
            words = _words(step.action) | _words(step.observation)
            share = len(words - seen) / len(words) if words else 0.0
            new.append(_LEAST_NEW + (1 - _LEAST_NEW) * share)
            seen |= words
        scores = self.base.score(anchor, steps)
        return [score * one for score, one in zip(scores, reversed(new), strict=True)]


@dataclass(frozen=True, slots=True)
class Newer:
    """The mean of another scorer's score and a step's recency."""

    base: Scorer

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
        """Return one score per step."""
        places = RecencyScorer().score(anchor, steps)
        return [
            (score + place) / 2
            for score, place in zip(self.base.score(anchor, steps), places, strict=True)
        ]


def _words(text: str) -> Set[str]:
    return terms(text).counts.keys()


_NEWER = Newer(FeaturesScorer())
ORDERS: dict[str, Scorer] = {
    "newer": _NEWER,
    "per_token": PerToken(_NEWER),
    "novel": Novel(_NEWER),
    "novel_per_token": PerToken(Novel(_NEWER)),
}
"""By their name in a grid."""

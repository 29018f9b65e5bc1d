"""Scorers for the lab that turn another's scores into an order of another kind.

Both are remedies for episodes that AGORA lost to the newest steps at the same
budget (docs/log.md): a step of ten tokens that said what the agent carries was
elided for a line about it that cost as much, and pages that had been read
twice were kept twice.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from agora.core.memo import Memo
from agora.core.scorer import Scorer
from agora.core.trajectory import Anchor, Step
from agora.scorers.features import FeaturesScorer
from agora.scorers.recency import RecencyScorer

_WORD = re.compile(r"\w+")
_LEAST_NEW = 0.1
"""What a step that brought nothing new is still worth: it happened."""


@dataclass(frozen=True, slots=True)
class PerToken:
    """Scores a step by what it is worth for each token it costs: cheap steps come first.

    >>> long = Step(number=1, action="read", observation="much", tokens=90)
    >>> short = Step(number=2, action="take", observation="taken", tokens=9)
    >>> scores = PerToken(RecencyScorer()).score(Anchor("", ""), [long, short])
    >>> [round(score, 2) for score in scores]
    [0.05, 1.0]
    """

    base: Scorer = field(default_factory=FeaturesScorer)

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
    """Scores a step lower the more of its words newer steps have brought again.

    >>> old = Step(number=1, action="look", observation="a red door", tokens=5)
    >>> new = Step(number=2, action="look", observation="a red door", tokens=5)
    >>> Novel(RecencyScorer()).score(Anchor("", "a hall"), [old, new])[0] < 0.1
    True
    """

    base: Scorer = field(default_factory=FeaturesScorer)

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
        """Return the other scorer's scores, each times what is new about its step."""
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
    """The mean of another scorer's score and of how new a step is."""

    base: Scorer = field(default_factory=FeaturesScorer)

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
        """Return one score per step."""
        places = RecencyScorer().score(anchor, steps)
        return [
            (score + place) / 2
            for score, place in zip(self.base.score(anchor, steps), places, strict=True)
        ]


def _read_words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))


_words = Memo(_read_words, 4_000_000)

ORDERS: dict[str, Scorer] = {
    "newer": Newer(),
    "per_token": PerToken(Newer()),
    "novel": Novel(Newer()),
    "novel_per_token": PerToken(Novel(Newer())),
}
"""By the name a grid gives them."""

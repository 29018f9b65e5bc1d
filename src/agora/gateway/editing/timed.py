"""A scorer within its share of the deadline."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from agora.core.past import Past
from agora.core.scorer import Scorer
from agora.core.trajectory import Anchor, Step
from agora.core.worth import StepWorth, Worth
from agora.errors import AgoraError, ScoreError

_SCORER_SHARE = 0.6
"""How much of the deadline the scorer may use; what is left is for the rule."""
_BATCH_STEPS = 4
"""Steps between two looks at the clock: at 28 ms a step the most that runs on for nothing."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A scorer that stops when its time is up, or when nobody waits any more.

    Encoders are asked for a few steps at a time, with a look at the clock in between; the others
    need milliseconds for all of them. What it raises sends the compressor to its rule.
    """

    scorer: Scorer
    until: float = float("inf")
    gone: Callable[[], bool] = bool
    pause: Callable[[], object] = bool
    """Called at each look at the clock."""
    clock: Callable[[], float] = time.monotonic
    began: float = field(default_factory=time.monotonic)

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
        """Return the scorer's scores.

        Raises:
            TooLateError: the scorer's share of the deadline is used up.
        """
        try:
            return self._scores(anchor, steps)
        except (Exception, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            # Native code panics with what is no Exception; to the ladder it is one like any other.
            raise ScoreError(type(self.scorer).__name__, type(error).__name__) from None

    def worth(self, past: Past, held: Collection[int]) -> Sequence[StepWorth]:
        """Return what the scorer says the parts of steps are worth, for forms.

        Raises:
            TooLateError: the scorer's share of the deadline is used up.
        """
        if not isinstance(self.scorer, Worth):
            return [StepWorth(s, s) for s in self.score(past.anchor, past.steps)]
        self._look()
        return self.scorer.worth(replace(past, steps=_Watched(past.steps, self._look)), held)

    def _scores(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
        kind = type(self.scorer).__name__
        if kind not in ("CrossEncoderScorer", "EmbeddingScorer"):
            self._look()
            return self.scorer.score(anchor, steps)
        scores: list[float] = []
        for at in range(0, len(steps), _BATCH_STEPS):
            self._look()
            scores += self.scorer.score(anchor, steps[at : at + _BATCH_STEPS])
        if kind == "CrossEncoderScorer":
            return scores
        # Compares steps with each other, so it is asked about all of them together. It has their
        # vectors by now.
        self._look()
        return self.scorer.score(anchor, steps)

    def _look(self) -> None:
        self.pause()
        share = self.began + (self.until - self.began) * _SCORER_SHARE
        if self.clock() > share or self.gone():
            raise TooLateError


class _Watched(tuple[Step, ...]):
    """Steps with a look at the clock before each of them: thousands take seconds to read."""

    def __new__(cls, steps: tuple[Step, ...], look: Callable[[], None]) -> Self:
        """Return the same steps, looked after."""
        made = super().__new__(cls, steps)
        made.look = look
        return made

    look: Callable[[], None]

    def __iter__(self) -> Iterator[Step]:
        for step in super().__iter__():
            self.look()
            yield step


class TooLateError(AgoraError):
    """The scorer's share of the deadline is used up."""

    def __str__(self) -> str:
        return "the scorer's share of the deadline is used up"

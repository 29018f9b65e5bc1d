"""What each part of a step is worth to the actions that follow."""

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from agora.core.past import Past
from agora.core.scorer import Scorer, scores_of
from agora.errors import ScoreError


class StepWorth(NamedTuple):
    """What the two parts of a step are worth, and how much of it names alone carry.

    `action` and `observation` are at least 0 and read as probabilities: that before the next
    edit some later action uses, copies or asks again for something that, outside the floor, only
    this part has. Only their size relative to those of other steps and to the tokens they cost
    matters. `named` is a share from 0 to 1.
    """

    action: float
    observation: float
    named: float = 0.5
    """The share of the observation's worth that a note or a line carries when it gives every
    name that only this observation has. A note with fewer names carries proportionally less."""


@runtime_checkable
class Worth(Protocol):
    """Estimates the worth of both parts of every step at an edit.

    An object given as a compressor's scorer that has this method is asked for it; of one that
    has only `score`, the score counts for both parts.
    """

    def worth(self, past: Past, held: Collection[int]) -> Sequence[StepWorth]:
        """Return the worth of each of `past.steps`, in their order.

        `past` is all that an edit may look at: the preamble, the steps up to the edit, what was
        said in between, the anchor. `held` has the numbers of the steps that stay whole in any
        case (the floor): what they or the preamble repeat is worth nothing elsewhere, and what is
        said about the held steps themselves is not looked at. The same input must give the same
        numbers on every machine, in time linear in the text (`agora.core.memo` remembers what was
        read of a text).
        """
        ...


def worth_of(source: Scorer | Worth, past: Past, held: Collection[int]) -> Sequence[StepWorth]:
    """Return what a source of worth says, checked; of a scorer the score for both parts.

    Raises:
        ScoreError: it is not one `StepWorth` per step, with finite numbers, none below 0.
    """
    if not isinstance(source, Worth):
        return [StepWorth(s, s) for s in scores_of(source, past.anchor, past.steps)]
    found = list(source.worth(past, held))
    name = type(source).__name__
    if len(found) != len(past.steps):
        raise ScoreError(name, f"{len(found)} worths for {len(past.steps)} steps")
    for one in found:
        numbers = (one.action, one.observation, one.named)
        if not all(math.isfinite(number) and number >= 0 for number in numbers) or one.named > 1:
            raise ScoreError(name, f"the worth {one!r}")
    return found

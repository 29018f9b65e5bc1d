"""Infer the parts of prompts that a log hides from the provider's token counts.

A provider's count of a prompt has three parts:

    billed = tokens + scale x counted + grown

`tokens` comes before the first message and never changes: system text, tools. `scale` is how many
of the provider's tokens one token of AGORA's estimate is. `grown` is the growth beyond that:
thinking that the log only summarises, reminders. All but `counted` is always sent and never elided.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agora.core.trajectory import Step, Trajectory
from agora.logs.moments import Moment

_LEAST_SCALE, _MOST_SCALE = 0.7, 2.0
"""Our estimate is within 15 % of one tokenizer; others count up to twice as many on code."""
_FELL = 0.85
_FELL_TOKENS = 4_096
"""A prompt below this share of the previous one, and shorter by this many tokens, was cut."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """Tokens that the provider counted beyond those in the log."""

    tokens: int = 0
    """Before the first message of every call, in the provider's tokens."""
    scale: float = 1.0
    """The provider's tokens for each of ours."""
    grown: tuple[int, ...] = ()
    """Per call: the growth so far beyond both, in the provider's tokens."""

    def onto(self, trajectory: Trajectory, moments: Sequence[Moment]) -> Trajectory:
        """Return the trajectory with all of it in its sizes, in tokens of our estimate.

        The growth between two calls is added to the step between them, and stays when that step is
        elided.
        """
        steps, said = list(trajectory.steps), list(trajectory.utterances)
        owed = 0.0
        for at in range(1, len(self.grown)):
            before, now = moments[at - 1], moments[at]
            owed += (self.grown[at] - self.grown[at - 1]) / self.scale
            extra = int(owed)
            if extra <= 0:
                continue
            owed -= extra
            if now.steps > before.steps:
                steps[now.steps - 1] = _larger(steps[now.steps - 1], extra)
            else:
                last = said[now.said - 1]
                said[now.said - 1] = replace(last, tokens=last.tokens + extra)
        return replace(
            trajectory,
            preamble_tokens=trajectory.preamble_tokens + round(self.tokens / self.scale),
            steps=tuple(steps),
            utterances=tuple(said),
        )


def _larger(step: Step, extra: int) -> Step:
    """Return a step with more tokens, which stay as long as its action does."""
    return step._replace(
        tokens=step.tokens + extra,
        action_tokens=step.action_tokens + extra if step.action_tokens else 0,
    )


def inferred(counted: Sequence[int], billed: Sequence[int]) -> Unseen:
    """Infer the unseen tokens from AGORA's and the provider's count of each call's prompt.

    The scale is the median growth from call to call, weighted by tokens, so that one call with a
    long hidden thought does not change it. The unseen part of the first call is the constant.

    >>> inferred([100, 1_100, 2_100, 3_100], [5_120, 6_320, 7_520, 13_720])
    Unseen(tokens=5000, scale=1.2, grown=(0, 0, 0, 5000))
    """
    scale = min(_MOST_SCALE, max(_LEAST_SCALE, _growth(counted, billed)))
    tokens = round(billed[0] - scale * counted[0])
    if tokens < 0:
        return Unseen(scale=ratio(counted, billed))
    grown = (round(b - tokens - scale * c) for c, b in zip(counted, billed, strict=True))
    return Unseen(tokens, scale, tuple(grown))


def ratio(counted: Sequence[int], billed: Sequence[int]) -> float:
    """Return the provider's tokens for each of ours, of a log that shows all that was sent."""
    return sum(billed) / sum(counted) if any(counted) else 1.0


def was_cut(counted: Sequence[int], billed: Sequence[int]) -> bool:
    """Return True if prompts were shortened after the log had been written.

    Then the provider counted far fewer tokens than the log's text has, or fewer than at the call
    before although the log had grown.
    """
    if any(b < _LEAST_SCALE * c for c, b in zip(counted, billed, strict=True) if c >= _FELL_TOKENS):
        return True
    return any(
        billed[at] < min(_FELL * billed[at - 1], billed[at - 1] - _FELL_TOKENS)
        for at in range(1, len(billed))
        if counted[at] >= counted[at - 1]
    )


def _growth(counted: Sequence[int], billed: Sequence[int]) -> float:
    """Return the median of the provider's growth for each of our tokens; 1 if there is none."""
    ratios = sorted(
        ((billed[at] - billed[at - 1]) / grown, grown)
        for at in range(1, len(counted))
        if (grown := counted[at] - counted[at - 1]) > 0
    )
    half, passed = sum(grown for _, grown in ratios) / 2, 0
    for found, grown in ratios:
        passed += grown
        if passed >= half:
            return found
    return 1.0

"""Likelihood labels: how much less likely the action that was taken is without a step."""

from collections.abc import Iterator
from math import exp

from agora_lab.label.answered_pairs import AnsweredCase
from agora_lab.labels import Label


def label_of(full: float, without: float) -> float:
    """Return 1 - min(1, p without / p whole), from the summed log-probabilities of the action.

    >>> label_of(-1.0, -1.0), label_of(-1.0, -0.5), round(label_of(-1.0, -2.0), 3)
    (0.0, 0.0, 0.632)
    """
    return 1.0 - exp(min(0.0, without - full))


def likelihood(answered: AnsweredCase) -> Iterator[Label]:
    """Return the labels of a case's answered pairs: two prompts read, nothing sampled."""
    case = answered.case
    for pair in answered.scores:
        yield Label(
            trajectory=case.trajectory,
            data=case.data,
            source=case.source,
            task=case.task,
            anchor=pair.anchor,
            candidate=pair.candidate,
            label=label_of(pair.full.logprob, pair.without.logprob),
            kind="likelihood",
        )

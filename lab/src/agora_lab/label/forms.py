"""Labels from answers: counterfactual (Eq. 4 of the paper), soft or hard, and by likelihood."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import exp
from typing import Literal

from agora_lab.envs import world
from agora_lab.label.answers import Answered
from agora_lab.label.plan import PlanSettings, Shard
from agora_lab.labels import Label

Form = Literal["soft", "hard"]


@cache
def canonical(name: str) -> Callable[[str], str]:
    r"""Return what brings answers into the form they are compared in: the world's, or plain text.

    Plain text is compared by its first line, spaces folded.

    >>> canonical("")(" ls  -a \n\nI list the files.")
    'ls -a'
    """
    if not name:
        return _first_line
    environment = world(name)
    return lambda text: environment.canonical(environment.extract(text))


def _first_line(text: str) -> str:
    return " ".join(text.strip().partition("\n")[0].split())


def soft(full: Sequence[str], without: Sequence[str]) -> float:
    """Return Eq. 4: the share of pairs, k-th with k-th, whose actions differ.

    At temperature 1 a backbone differs from itself too; `self_disagreement` is that share.

    >>> soft(["look", "go", "go", "look"], ["look", "look", "go", "look"])
    0.25
    """
    return sum(a != b for a, b in zip(full, without, strict=True)) / len(full)


def hard(full: Sequence[str], without: Sequence[str]) -> float:
    """Return the paper's Hard-CF label: whether the first sample of each side differs.

    >>> hard(["look", "go"], ["look", "look"])
    0.0
    """
    return float(full[0] != without[0])


def by_likelihood(full: float, without: float) -> float:
    """Return 1 - min(1, p without / p whole), from log-probabilities of the recorded action.

    >>> by_likelihood(-1.0, -1.0), by_likelihood(-1.0, -0.5), round(by_likelihood(-1.0, -2.0), 3)
    (0.0, 0.0, 0.632)
    """
    return 1.0 - exp(min(0.0, without - full))


@dataclass(slots=True)
class Tally:
    """What became of a plan's pairs."""

    pairs: int = 0
    missing: int = 0
    """Pairs without both answers."""
    total: float = 0.0
    positive: int = 0
    """Labels above 0.5."""
    apart: int = 0
    """Pairs whose soft label is not the hard one."""
    self_disagreement: float = 0.0
    """Sum over pairs: how often two samples of the whole prompt differ."""


def labels_of(
    shard: Shard,
    answers: Mapping[str, Answered],
    settings: PlanSettings,
    tally: Tally,
    form: Form = "soft",
) -> Iterator[Label]:
    """Yield the label of each pair that has both answers."""
    case = shard.case
    compared = canonical(case.world)
    for anchor, candidates in sorted(shard.anchors.items()):
        for candidate in candidates:
            sides = [
                answers.get(shard.ask(anchor, candidate, whole=whole, settings=settings).key)
                for whole in (True, False)
            ]
            full, without = sides
            if full is None or without is None:
                tally.missing += 1
                continue
            if settings.kind == "likelihood":
                value = by_likelihood(full.logprob, without.logprob)
            else:
                actions = [compared(text) for text in full.texts]
                others = [compared(text) for text in without.texts]
                value = (soft if form == "soft" else hard)(actions, others)
                tally.apart += soft(actions, others) != hard(actions, others)
                tally.self_disagreement += soft(actions, actions[1:] + actions[:1])
            tally.pairs += 1
            tally.total += value
            tally.positive += value > 0.5
            yield Label(
                trajectory=case.trajectory,
                data=case.data,
                source=case.source,
                task=case.task,
                anchor=anchor,
                candidate=candidate,
                label=value,
                kind=settings.kind if form == "soft" else f"{settings.kind}-{form}",
            )

"""Labels from answers: counterfactual (Eq. 4 of the paper), soft or hard."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from agora_lab.envs import world
from agora_lab.label.answers import Answered
from agora_lab.label.cases import Case
from agora_lab.label.plan import PlanSettings, Shard
from agora_lab.labels import Label

SOFT, HARD = "counterfactual", "counterfactual-hard"


@cache
def canonical(name: str) -> Callable[[str], str]:
    r"""Return the function that maps answers to the form in which they are compared.

    A world has its own. Plain text is compared by its first line, with spaces folded.

    >>> canonical("")(" ls  -a \n\nI list the files.")
    'ls -a'
    """
    if not name:
        return lambda text: " ".join(text.strip().partition("\n")[0].split())
    environment = world(name)
    return lambda text: environment.canonical(environment.extract(text))


def soft(full: Sequence[str], without: Sequence[str]) -> float:
    """Return Eq. 4: the share of pairs, k-th with k-th, whose actions differ.

    At temperature 1 a backbone differs from itself too; `self_disagreement` is that share.

    >>> soft(["look", "go", "go", "look"], ["look", "look", "go", "look"])
    0.25
    """
    return sum(a != b for a, b in zip(full, without, strict=True)) / len(full)


def hard(full: Sequence[str], without: Sequence[str]) -> float:
    """Return the paper's Hard-CF label: True if the first samples of the two sides differ.

    >>> hard(["look", "go"], ["look", "look"])
    0.0
    """
    return float(full[0] != without[0])


@dataclass(slots=True)
class Tally:
    """Counts of a plan's pairs."""

    pairs: int = 0
    missing: int = 0
    """Pairs without both answers."""
    total: float = 0.0
    """Sum of the soft labels."""
    positive: int = 0
    """Soft labels above 0.5."""
    apart: int = 0
    """Pairs whose soft label is not the hard one."""
    self_disagreement: float = 0.0
    """Sum over pairs: how often two samples of the whole prompt differ."""


def labels_of(
    shard: Shard, answers: Mapping[str, Answered], settings: PlanSettings, tally: Tally
) -> Iterator[tuple[Label, Label]]:
    """Yield the soft and the hard label of each pair that has both answers."""
    compared = canonical(shard.case.world)
    for anchor, candidate in shard.pairs:
        full, without = (
            answers.get(shard.ask(anchor, candidate, whole=whole, settings=settings).key)
            for whole in (True, False)
        )
        if full is None or without is None:
            tally.missing += 1
            continue
        actions = [compared(text) for text in full.texts]
        others = [compared(text) for text in without.texts]
        values = soft(actions, others), hard(actions, others)
        tally.pairs += 1
        tally.total += values[0]
        tally.positive += values[0] > 0.5
        tally.apart += values[0] != values[1]
        tally.self_disagreement += soft(actions, actions[1:] + actions[:1])
        yield (
            label_of(shard.case, anchor, candidate, values[0], SOFT),
            label_of(shard.case, anchor, candidate, values[1], HARD),
        )


def label_of(case: Case, anchor: int, candidate: int, value: float, kind: str = SOFT) -> Label:
    """Return the label of a pair of a case."""
    action, observation = case.steps[candidate - 1]
    return Label(
        source=case.source,
        task=case.task,
        trajectory=case.trajectory,
        anchor=anchor,
        candidate=candidate,
        current=case.steps[anchor - 2][1],
        action=action,
        observation=observation,
        label=value,
        kind=kind,
    )

"""Counterfactual labels: how often the next action changes when a step is left out (Eq. 4).

Half of what changes is the backbone disagreeing with itself: at temperature 1
two answers to one and the same prompt differ as well. So each anchor's own
disagreement is measured on its whole prompt, and a label net of it is offered.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import combinations, product
from typing import Literal

from agora_lab.environments import world
from agora_lab.labelling.answered_pairs import AnsweredCase
from agora_lab.labels import Label

Form = Literal["paired", "net", "all-pairs", "all-pairs-net", "half", "hard"]
"""Which of the labels that the same answers give:

- `paired`: Eq. 4 over all samples, the k-th of one side against the k-th of the other
- `net`: the same less the anchor's disagreement with itself
- `all-pairs`: every sample of one side against every one of the other; the same mean with less
  noise, since samples come in no order
- `all-pairs-net`: that less the disagreement of every two samples of the whole prompt
- `half`: Eq. 4 over the first half of the samples: of 8 a side, the paper's K = 8
- `hard`: the first sample of each side, 0 or 1: the paper's Hard-CF
"""
DEFAULT: Form = "paired"


@cache
def canonical(name: str) -> Callable[[str], str]:
    r"""Return what puts answers into the form they are compared in: the world's, or plain text.

    Plain text is compared by its first line, spaces folded.

    >>> canonical("")(" ls  -a \n\nI list the files.")
    'ls -a'
    """
    if not name:
        return _first_line
    chosen = world(name)

    def compared(text: str) -> str:
        return chosen.canonical(chosen.extract(text))

    return compared


def _first_line(text: str) -> str:
    return " ".join(text.strip().partition("\n")[0].split())


def disagreement(full: Sequence[str], without: Sequence[str]) -> float:
    """Return Eq. 4: the share of pairs, k-th with k-th, that differ.

    >>> disagreement(["look", "go", "go", "look"], ["look", "look", "go", "look"])
    0.25
    """
    return sum(a != b for a, b in zip(full, without, strict=True)) / len(full)


def disagreement_of_all(full: Sequence[str], without: Sequence[str]) -> float:
    """Return the share of all pairs, each of one side with each of the other, that differ.

    >>> disagreement_of_all(["look", "go"], ["look", "look"])
    0.5
    """
    return sum(a != b for a, b in product(full, without)) / (len(full) * len(without))


def self_disagreement(full: Sequence[str]) -> float:
    """Return how much the first half of the samples differs from the second.

    >>> self_disagreement(["look", "go", "look", "look"])
    0.5
    """
    half = len(full) // 2
    return disagreement(full[:half], full[half : 2 * half]) if half else 0.0


def self_disagreement_of_all(full: Sequence[str]) -> float:
    """Return the share of every two samples that differ.

    >>> self_disagreement_of_all(["look", "go", "look"]) == 2 / 3
    True
    """
    two = list(combinations(full, 2))
    return sum(a != b for a, b in two) / len(two) if two else 0.0


def label_of(full: Sequence[str], without: Sequence[str], form: Form = DEFAULT) -> float:
    """Return the label that canonical actions of both sides give, in [0, 1]."""
    if form == "paired":
        return disagreement(full, without)
    if form == "net":
        return max(0.0, disagreement(full, without) - self_disagreement(full))
    if form == "all-pairs":
        return disagreement_of_all(full, without)
    if form == "all-pairs-net":
        return max(0.0, disagreement_of_all(full, without) - self_disagreement_of_all(full))
    if form == "half":
        half = max(1, len(full) // 2)
        return disagreement(full[:half], without[:half])
    return disagreement(full[:1], without[:1])


def counterfactual(
    answered: AnsweredCase, compared: Callable[[str], str], form: Form
) -> Iterator[Label]:
    """Return the labels of a case's answered pairs.

    The kind says the form, so that labels of two forms are told apart:
    `counterfactual` for Eq. 4, `counterfactual-net` and so on for the others.
    """
    kind = "counterfactual" if form == "paired" else f"counterfactual-{form}"
    case = answered.case
    for pair in answered.samples:
        full = [compared(text) for text in pair.full.texts]
        without = [compared(text) for text in pair.without.texts]
        yield Label(
            trajectory=case.trajectory,
            data=case.data,
            source=case.source,
            task=case.task,
            anchor=pair.anchor,
            candidate=pair.candidate,
            label=label_of(full, without, form),
            kind=kind,
        )

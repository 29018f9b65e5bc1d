"""Counterfactual labels: how often the next action changes when a step is left out (Eq. 4).

Half of what changes is the backbone disagreeing with itself: at temperature 1
two answers to one and the same prompt differ as well. Labels net of that were
tried, and five other forms (lab/notebook/2026-11.md): none trained a better scorer.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache

from agora_lab.envs import world
from agora_lab.label.answered_pairs import AnsweredCase
from agora_lab.labels import Label


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


def counterfactual(answered: AnsweredCase, compared: Callable[[str], str]) -> Iterator[Label]:
    """Return the labels of a case's answered pairs."""
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
            label=disagreement(full, without),
            kind="counterfactual",
        )

"""Labels as the questions a scorer is asked: an anchor, the past, the steps to score.

Every trainer and the report start from these, so all are trained and measured on the
same pairs, in the form a compressor would show them.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agora.core.trajectory import Anchor, Step
from agora_lab.labels import Label, LabelsError, beside, read_labels, read_trajectories


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One anchor of one trajectory, with every past step that has a label for it."""

    anchor: Anchor
    past: tuple[Step, ...]
    candidates: tuple[int, ...]
    """Indices into `past`, not step numbers."""
    labels: tuple[float, ...]
    task: str
    """What must not be on both sides of a split; the source is part of the name."""
    source: str
    kind: str = ""
    """How its labels were made: hindsight, exact, likelihood, counterfactual."""

    @property
    def pairs(self) -> int:
        """The number of labelled pairs in the question."""
        return len(self.labels)


def read_questions(files: Iterable[Path], *, newest: bool | None = None) -> Iterator[Question]:
    """Return the questions behind files of labels, trajectory by trajectory.

    Where the user spoke between a step and the action after it, the anchor
    depends on the schedule: what the user said, or what the step observed. A
    scorer meets both, so by default both are asked; `newest` picks one.

    Raises:
        LabelsError: a file holds no labels, or its trajectory file is missing.
    """
    for path in files:
        wanted: dict[str, dict[int, list[Label]]] = defaultdict(lambda: defaultdict(list))
        for one in read_labels(path):
            wanted[one.data][one.anchor].append(one)
        for data, trajectory in read_trajectories(path):
            for number, labels in wanted.pop(data, {}).items():
                spoken, silent = (
                    trajectory.anchor(number - 1, newest=side) for side in (True, False)
                )
                sides = {None: (spoken, silent), True: (spoken,), False: (silent,)}[newest]
                for anchor in dict.fromkeys(sides):
                    yield Question(
                        anchor=anchor,
                        past=trajectory.steps[: number - 1],
                        candidates=tuple(label.candidate - 1 for label in labels),
                        labels=tuple(label.label for label in labels),
                        task=f"{labels[0].source}/{labels[0].task}",
                        source=labels[0].source,
                        kind=labels[0].kind,
                    )
        if wanted:
            raise LabelsError(
                str(beside(path)), f"lacks {len(wanted):,} of the labelled trajectories"
            )


_PLACES = 2**32
"""The range of the hash that orders tasks for holding out."""


def groups(questions: Sequence[Question]) -> list[str]:
    """Return the group of each question: its source, and its kind if the source has several.

    Labels of two kinds say different things, and one source may have both.
    """
    kinds: dict[str, set[str]] = defaultdict(set)
    for question in questions:
        kinds[question.source].add(question.kind)
    return [
        f"{one.source} ({one.kind})" if len(kinds[one.source]) > 1 else one.source
        for one in questions
    ]


def fold(task: str, folds: int, seed: int) -> int:
    """Return the fold of a task, derived from its name and so the same everywhere.

    >>> fold("airline/3", 5, 42) == fold("airline/3", 5, 42)
    True
    """
    digest = hashlib.sha256(f"{seed}\n{task}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") % folds


def held_out(
    questions: Sequence[Question],
    *,
    share: float,
    seed: int,
    bounds: Mapping[str, int] | None = None,
) -> list[bool]:
    """Return which questions are held out: about that share of the tasks of each source.

    With the `bounds` of an earlier training, those it held out, whatever else is in the
    questions; a source it never saw is held out entirely.

    >>> held_out([], share=0.2, seed=42)
    []
    """
    if bounds is None:
        names = ((question.source, question.task) for question in questions)
        bounds = bounds_of(names, share=share, seed=seed)
    return [
        fold(question.task, _PLACES, seed) < bounds.get(question.source, _PLACES)
        for question in questions
    ]


def bounds_of(tasks: Iterable[tuple[str, str]], *, share: float, seed: int) -> dict[str, int]:
    """Return, per source, the hash value below which a task is held out.

    >>> bounds_of([("s", "s/1"), ("s", "s/2")], share=0.0, seed=42)["s"] <= fold("s/1", 2**32, 42)
    True
    """
    names: dict[str, set[str]] = defaultdict(set)
    for source, task in tasks:
        names[source].add(task)
    bounds = {}
    for source, several in names.items():
        places = sorted(fold(name, _PLACES, seed) for name in several)
        bounds[source] = [*places, _PLACES][round(share * len(places))]
    return bounds

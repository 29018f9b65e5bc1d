"""Trains the `worth` scorer: three ensembles of small trees over the features of a step's parts."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agora.core.past import Past
from agora.scorers.parts import FEATURES, VALUES, columns
from agora_lab.labels import OF_WORTH, Label, LabelsError, beside, read_labels, read_trajectories
from agora_lab.train.features import Examples, Trained, TreeSettings, train

MODELS = tuple(OF_WORTH)
SETTINGS: Mapping[str, TreeSettings] = {
    "action": TreeSettings(soft=True, true_shares=True, most_needed=800, most_pairs=30_000),
    "observation": TreeSettings(soft=True, true_shares=True, most_needed=800, most_pairs=30_000),
    "named": TreeSettings(soft=True, true_shares=True, most_needed=400, rounds=60, pairs=6),
}
"""How each of the three is trained. A large source counts no more than so many needed parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One edit of one trajectory: every step that it may shorten, with its features and labels."""

    source: str
    task: str
    """What must not be on both sides of a split; the source is part of the name."""
    data: str
    """The hash of the trajectory."""
    past: Past
    candidates: tuple[int, ...]
    """Indices into the steps of the past."""
    rows: Sequence[Sequence[int]]
    labels: Mapping[str, Sequence[float]]
    """By the name of the model, in the order of the candidates."""


def read_edits(
    files: Iterable[Path], *, without: Collection[str] = (), newest: bool | None = None
) -> Iterator[Edit]:
    """Return the edits behind files of worth labels, without those of some tasks.

    Where the user spoke after the last step the anchor depends on the schedule, and a scorer meets
    both: what the user said, and what the step observed. `newest` picks one of them.

    Raises:
        LabelsError: a file holds no labels of worth, or its trajectory file is missing.
    """
    models = {kind: model for model, kind in OF_WORTH.items()}
    for path in files:
        wanted: dict[str, dict[int, list[Label]]] = defaultdict(lambda: defaultdict(list))
        for one in read_labels(path):
            if one.kind not in models:
                raise LabelsError(
                    str(path), f"has labels of the kind {one.kind!r}; write it by agora label worth"
                )
            if f"{one.source}/{one.task}" not in without:
                wanted[one.data][one.anchor].append(one)
        for data, trajectory in read_trajectories(path):
            for number, labels in wanted.pop(data, {}).items():
                sides = (True, False) if newest is None else (newest,)
                pasts = {
                    past.anchor: past
                    for past in (Past.of(trajectory, number - 1, newest=side) for side in sides)
                }
                for past in pasts.values():
                    yield _edit(past, labels, models)
        if wanted:
            raise LabelsError(
                str(beside(path)), f"lacks {len(wanted):,} of the labelled trajectories"
            )


def _edit(past: Past, labels: Sequence[Label], models: Mapping[str, str]) -> Edit:
    found: dict[str, dict[int, float]] = {model: {} for model in MODELS}
    for one in labels:
        found[models[one.kind]][one.candidate] = one.label
    numbers = sorted(found["action"])
    held = {step.number for step in past.steps}.difference(numbers)
    rows = list(zip(*columns(past, held), strict=True))
    return Edit(
        source=labels[0].source,
        task=f"{labels[0].source}/{labels[0].task}",
        data=labels[0].data,
        past=past,
        candidates=tuple(number - 1 for number in numbers),
        rows=[rows[number - 1] for number in numbers],
        labels={model: [found[model].get(number, 0.0) for number in numbers] for model in MODELS},
    )


def examples_of(edits: Sequence[Edit], model: str) -> Examples:
    """Return what one of the models is trained on.

    How much of an observation's worth its names carry is asked of needed observations only.
    """
    rows: list[Sequence[int]] = []
    labels: list[float] = []
    tasks: list[str] = []
    sources: list[str] = []
    for edit in edits:
        needed = edit.labels["observation"]
        for at, label in enumerate(edit.labels[model]):
            if model != "named" or needed[at] > 0:
                rows.append(edit.rows[at])
                labels.append(label)
                tasks.append(edit.task)
                sources.append(edit.source)
    return Examples(rows=rows, labels=labels, tasks=tasks, sources=sources)


def train_worth(edits: Sequence[Edit], *, seed: int = 42) -> dict[str, Trained]:
    """Return the three models, calibrated on tasks that each fold leaves out.

    Raises:
        LabelsError: there are too few tasks, or all labels of a model are the same.
    """
    return {model: train_model(edits, model, seed=seed) for model in MODELS}


def train_model(edits: Sequence[Edit], model: str, *, seed: int = 42) -> Trained:
    """Return one of the models.

    Raises:
        LabelsError: there are too few tasks, or all labels are the same.
    """
    return train(
        examples_of(edits, model),
        features=FEATURES,
        values=VALUES,
        settings=replace(SETTINGS[model], seed=seed),
    )

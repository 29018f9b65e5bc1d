"""Logs labelled by what actions until the next edit take from old parts, into a file of labels."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from agora.errors import AgoraError
from agora.logs import Recording
from agora_lab.cli.by_hindsight import Labelled
from agora_lab.cli.label_sources import name_of, recordings_in, task_of, trajectory_of
from agora_lab.halves import Half, group_of, half_of

if TYPE_CHECKING:
    from agora.core.trajectory import Trajectory
    from agora_lab.labelling.worth import WorthSettings
    from agora_lab.labels import Label


def label_by_worth(
    paths: Iterable[Path],
    out: Path,
    *,
    settings: "WorthSettings | None" = None,
    half: Half | None = None,
    log_kind: str | None = None,
    source: str | None = None,
    index: int | None = None,
) -> Labelled:
    """Label what `agora replay` reads and write it to `out`; with `half` only tasks of that half.

    Raises:
        AgoraError: what is needed to write labels is not installed.
        OSError: they cannot be written.
    """
    from agora_lab.labels import Writer

    done = Labelled()
    with Writer(out) as writer:
        for path in paths:
            name = source or name_of(path)
            for recording in recordings_in(path, done.tally, kind=log_kind, index=index):
                try:
                    trajectory = trajectory_of(recording)
                except (AgoraError, RecursionError):
                    done.failed += 1
                    continue
                group = group_of(name, task_of(recording, trajectory), recording.id)
                if half is not None and half_of(name, group) != half:
                    continue
                labels = list(_labels(recording, trajectory, name, group, settings))
                written = writer.add(trajectory, labels)
                done.pairs += written
                done.trajectories += bool(written)
                done.needed += sum(one.label > 0 for one in labels) if written else 0
    return done


def _labels(
    recording: Recording,
    trajectory: "Trajectory",
    source: str,
    task: str,
    settings: "WorthSettings | None",
) -> "Iterator[Label]":
    from agora_lab.labelling.worth import label_parts
    from agora_lab.labels import OF_WORTH, Label, data_hash

    data = data_hash(trajectory)
    for needed in label_parts(trajectory, settings):
        found = {"action": needed.action, "observation": needed.observation}
        if needed.observation:
            found["named"] = needed.named
        for model, label in found.items():
            yield Label(
                trajectory=recording.id,
                data=data,
                source=source,
                task=task,
                anchor=needed.epoch + 1,
                candidate=needed.candidate,
                label=label,
                kind=OF_WORTH[model],
            )

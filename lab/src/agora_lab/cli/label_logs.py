"""Logs labelled without a model, by hindsight, into a file of labels."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agora.errors import AgoraError
from agora.logs import Recording, Tally
from agora_lab.cli.label_sources import name_of, recordings_in, task_of, trajectory_of

if TYPE_CHECKING:
    from agora.core.trajectory import Trajectory
    from agora_lab.labels import Label

    Labeller = Callable[[Recording, Trajectory, str], Iterable[Label] | None]
    """Returns the labels of a trajectory from a source; None if it is not to be labelled."""


@dataclass(slots=True)
class Labelled:
    """What was labelled, and what could not be."""

    pairs: int = 0
    needed: int = 0
    trajectories: int = 0
    failed: int = 0
    """Trajectories that were read and could not be parsed."""
    tally: Tally = field(default_factory=Tally)

    def account(self) -> str:
        """Return what was labelled in a sentence."""
        return (
            f"{self.pairs:,} pairs, {self.needed:,} of them needed, from {self.trajectories:,} of "
            f"{self.tally.recordings:,} trajectories in {self.tally.files:,} files"
        )

    def figures(self) -> dict[str, int]:
        """Return the same for a program."""
        return {
            "pairs": self.pairs,
            "needed": self.needed,
            "trajectories": self.trajectories,
            "trajectories_read": self.tally.recordings,
            "files": self.tally.files,
            "unread": self.unread,
        }

    @property
    def unread(self) -> int:
        """How many records could not be read."""
        return self.tally.bad + self.failed


TOO_SHORT = (
    "nothing to label: a trajectory needs four steps or more, so that there is a past "
    "outside the newest two"
)


def label_logs(
    paths: Iterable[Path],
    out: Path,
    labeller: "Labeller",
    *,
    log_kind: str | None = None,
    source: str | None = None,
    index: int | None = None,
) -> Labelled:
    """Label what `agora replay` reads and write it to `out`; `index` picks one of each log.

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
                found = labeller(recording, trajectory, name)
                if found is None:
                    continue
                labels = list(found)
                written = writer.add(trajectory, labels)
                done.pairs += written
                done.trajectories += bool(written)
                done.needed += sum(one.label > 0 for one in labels) if written else 0
    return done


def by_hindsight(recording: Recording, trajectory: "Trajectory", source: str) -> "Iterator[Label]":
    """Return whether each action needed each past step: a labeller for `label_logs`."""
    from agora_lab.label.hindsight import hindsight
    from agora_lab.labels import Label, data_hash

    data, task = data_hash(trajectory), task_of(recording, trajectory)
    for need in hindsight(trajectory):
        yield Label(
            trajectory=recording.id,
            data=data,
            source=source,
            task=task,
            anchor=need.anchor,
            candidate=need.candidate,
            label=need.label,
            kind="hindsight",
        )

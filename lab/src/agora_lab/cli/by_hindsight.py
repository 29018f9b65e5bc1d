"""Logs labelled by hindsight, into a file of labels."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from agora.errors import AgoraError
from agora.logs import Tally
from agora_lab.cli.label_sources import name_of, recordings_in, task_of, trajectory_of


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


def label_by_hindsight(
    paths: Iterable[Path],
    out: Path,
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
    from agora_lab.labelling.hindsight import hindsight
    from agora_lab.labels import Label, Writer, data_hash

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
                data = data_hash(trajectory)
                labels = [
                    Label(
                        trajectory=recording.id,
                        data=data,
                        source=name,
                        task=task_of(recording, trajectory),
                        anchor=need.anchor,
                        candidate=need.candidate,
                        label=need.label,
                        kind="hindsight",
                    )
                    for need in hindsight(trajectory)
                ]
                written = writer.add(trajectory, labels)
                done.pairs += written
                done.trajectories += bool(written)
                done.needed += sum(one.label > 0 for one in labels) if written else 0
    return done

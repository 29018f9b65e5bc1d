"""The `agora label` commands: labels for scorers, from logs."""

from pathlib import Path

import click

from agora.adapters import ADAPTERS, Context
from agora.core.tokens import EstimatedTokens
from agora.core.trajectory import Trajectory
from agora.errors import AgoraError
from agora.replay.logs import KINDS, Recording, Tally, read_logs


@click.group()
def label() -> None:
    """Find out which past steps were needed, from logs you have."""


@label.command()
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    metavar="LOGS...",
    type=click.Path(exists=True, path_type=Path),
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="The labels, as Parquet. The trajectories go to FILE.trajectories.parquet beside it.",
)
@click.option("--log-kind", type=click.Choice(tuple(KINDS)), help="The kind of log; found out.")
@click.option("--source", metavar="NAME", help="Where they are from.  [default: the log's name]")
def hindsight(paths: tuple[Path, ...], out: Path, log_kind: str | None, source: str | None) -> None:
    """Label by hindsight: a step was needed if the next action uses a name that only it brought.

    LOGS are what `agora replay` reads. No model is asked. The labels and the
    trajectories stay where you write them: they hold what your logs hold.
    """
    tally = Tally()
    needed = pairs = trajectories = failed = 0
    try:
        from agora.lab.labelling.hindsight import hindsight as needs_of
        from agora.lab.labels import Label, Writer, data_hash

        with Writer(out) as writer:
            for path in paths:
                name = source or _name(path)
                for recording in read_logs([path], tally, kind=log_kind):
                    try:
                        trajectory = _parse(recording)
                    except (AgoraError, RecursionError):
                        failed += 1
                        continue
                    data = data_hash(trajectory)
                    labels = [
                        Label(
                            trajectory=recording.id,
                            data=data,
                            source=name,
                            task=recording.task or _task(trajectory) or recording.id,
                            anchor=need.anchor,
                            candidate=need.candidate,
                            label=need.label,
                            kind="hindsight",
                        )
                        for need in needs_of(trajectory)
                    ]
                    written = writer.add(trajectory, labels)
                    pairs += written
                    trajectories += bool(written)
                    needed += sum(one.label > 0 for one in labels) if written else 0
    except (AgoraError, OSError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(
        f"{pairs:,} pairs, {needed:,} of them needed, from {trajectories:,} of "
        f"{tally.recordings:,} trajectories in {tally.files:,} files"
    )
    if tally.bad or failed:
        click.echo(f"{tally.bad + failed:,} records could not be read", err=True)
    if not pairs:
        raise click.ClickException(
            "nothing to label: a trajectory needs four steps or more, so that there is a past "
            "outside the newest two"
        )


def _parse(recording: Recording) -> Trajectory:
    context = Context(
        counter=EstimatedTokens(),
        system=recording.system,
        tools=recording.tools,
        observations=recording.observations,
    )
    return ADAPTERS[recording.format].parse(recording.messages, context).trajectory


def _task(trajectory: Trajectory) -> str:
    """Return the task's own words where the log has no name for it."""
    return trajectory.task.strip()[:200]


def _name(path: Path) -> str:
    return path.name if path.is_dir() else path.name.partition(".")[0]

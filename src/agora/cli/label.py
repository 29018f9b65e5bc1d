"""The `agora label` commands: labels for scorers, from logs, readers and language models."""

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import click

from agora.cli.label_llm import make, plan, quality, run
from agora.cli.label_sources import environment_of, name_of, parse, progress, task_of
from agora.errors import AgoraError
from agora.replay.logs import KINDS, Tally, read_logs

if TYPE_CHECKING:
    from agora.lab.labelling.cases import Case
    from agora.lab.labelling.plan import Settings
    from agora.lab.labels import Label


@click.group()
def label() -> None:
    """Find out which past steps were needed: from logs, from readers, from a language model."""


for command in (plan, run, make, quality):
    label.add_command(command)

_out = click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="The labels, as Parquet. The trajectories go to FILE.trajectories.parquet beside it.",
)


@label.command()
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    metavar="LOGS...",
    type=click.Path(exists=True, path_type=Path),
)
@_out
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
                name = source or name_of(path)
                for recording in read_logs([path], tally, kind=log_kind):
                    try:
                        trajectory = parse(recording)
                    except (AgoraError, RecursionError):
                        failed += 1
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


@label.command()
@click.argument(
    "runs",
    nargs=-1,
    required=True,
    metavar="RUNS...",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@_out
@click.option("--anchors", type=click.IntRange(1), help="At most so many of each episode.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--k-recent", type=click.IntRange(0), default=2, show_default=True)
@click.option("--any-split", is_flag=True, help="Take runs of the test split too: not to train.")
def exact(
    runs: tuple[Path, ...],
    out: Path,
    anchors: int | None,
    seed: int,
    k_recent: int,
    any_split: bool,
) -> None:
    """Label exactly: leave a step out and see whether a reader acts otherwise.

    RUNS are runs of `agora lab play` with a reader and the method none.
    """
    start = perf_counter()
    needed = written = episodes = 0
    try:
        from agora.lab.labelling.plan import Settings
        from agora.lab.labels import Writer

        settings = Settings(backbone="reader", anchors=anchors, seed=seed, k_recent=k_recent)
        with Writer(out) as writer:
            for folder in runs:
                for case, labels in _exactly(folder, settings, any_split=any_split):
                    count = writer.add(case.whole, labels)
                    written += count
                    episodes += bool(count)
                    needed += sum(one.label > 0 for one in labels) if count else 0
    except (AgoraError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    seconds = perf_counter() - start
    click.echo(
        f"{written:,} pairs, {needed:,} of them needed, from {episodes:,} episodes; "
        f"{written / seconds:,.0f} pairs a second"
    )
    if not written:
        raise click.ClickException(
            f"nothing to label: an episode needs {k_recent + 2} steps or more, so that there is a "
            f"past outside the newest {k_recent}"
        )


def _exactly(
    folder: Path, settings: "Settings", *, any_split: bool
) -> Iterator[tuple["Case", list["Label"]]]:
    from agora.lab.backbones import readers
    from agora.lab.environments import world
    from agora.lab.episodes.run import read_episodes, read_settings
    from agora.lab.labelling.cases import from_episode
    from agora.lab.labelling.exact import acts
    from agora.lab.labelling.exact import exact as label_exactly

    name = environment_of(folder, any_split=any_split)
    about = read_settings(folder)
    if (about.get("backbone"), about.get("method")) != ("reader", "none"):
        raise click.ClickException(f"{folder} is not a run of a reader with the method none")
    chosen = world(name)
    act = acts(readers.reader(name), canonical=chosen.canonical, extract=chosen.extract)
    with progress(f"{name}: leaving steps out", len(about.get("tasks", ()))) as advance:
        for episode in read_episodes(folder):
            case = from_episode(episode)
            if case is not None:
                yield case, list(label_exactly(case, act, settings))
            advance()

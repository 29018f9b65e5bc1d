"""The `agora label` commands: labels for scorers, from logs, readers and language models."""

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import click

from agora.cli.figures import json_option, write_json
from agora.errors import AgoraError
from agora.logs import KINDS
from agora_lab.cli.by_hindsight import TOO_SHORT, Labelled, label_by_hindsight
from agora_lab.cli.by_worth import label_by_worth
from agora_lab.cli.label_llm import make, plan, quality, run
from agora_lab.cli.label_sources import index_option, progress, trainable_cells
from agora_lab.halves import HALVES, Half

if TYPE_CHECKING:
    from agora_lab.labelling.cases import Case
    from agora_lab.labelling.plan import PlanSettings
    from agora_lab.labels import Label


@click.group()
def label() -> None:
    """Label which past steps were needed, from logs, readers or a language model."""


for command in (plan, run, make, quality):
    label.add_command(command)

_out = click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="Parquet file for the labels. Trajectories go to FILE.trajectories.parquet next to it.",
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
@click.option(
    "--log-kind", type=click.Choice(tuple(KINDS)), help="Log format.  [default: detected]"
)
@index_option
@click.option("--source", metavar="NAME", help="Name of the source.  [default: the log's name]")
@json_option("the counts")
def hindsight(
    paths: tuple[Path, ...],
    out: Path,
    log_kind: str | None,
    index: int | None,
    source: str | None,
    json_out: str | None,
) -> None:
    """Label by hindsight: a step was needed if the next action uses a name only it introduced.

    LOGS are what `agora replay` reads. No model is called. The labels and
    trajectories contain your log data and stay where you write them.
    """
    try:
        done = label_by_hindsight(paths, out, log_kind=log_kind, source=source, index=index)
    except (AgoraError, OSError) as error:
        raise click.ClickException(str(error)) from error
    _account(done, json_out)


def _account(done: Labelled, json_out: str | None) -> None:
    click.echo(done.account(), err=write_json(json_out, done.figures()))
    if done.unread:
        click.echo(f"{done.unread:,} records could not be read", err=True)
    if not done.pairs:
        raise click.ClickException(TOO_SHORT)


@label.command()
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    metavar="LOGS...",
    type=click.Path(exists=True, path_type=Path),
)
@_out
@click.option(
    "--anchors",
    type=click.IntRange(1),
    default=12,
    show_default=True,
    help="Most edits per trajectory, spread evenly.",
)
@click.option(
    "--calls",
    type=click.IntRange(1),
    default=30,
    show_default=True,
    help="How many actions after an edit are looked at.",
)
@click.option(
    "--half",
    type=click.Choice(HALVES),
    help="Only tasks of this half, so that figures on the other are of unseen tasks.",
)
@click.option(
    "--log-kind", type=click.Choice(tuple(KINDS)), help="Log format.  [default: detected]"
)
@index_option
@click.option("--source", metavar="NAME", help="Name of the source.  [default: the log's name]")
@json_option("the counts")
def worth(
    paths: tuple[Path, ...],
    out: Path,
    anchors: int,
    calls: int,
    half: Half | None,
    log_kind: str | None,
    index: int | None,
    source: str | None,
    json_out: str | None,
) -> None:
    """Label both parts of a step by what actions until the next edit take from them.

    A part is needed if one of the next actions uses a name that this part has for
    the fewest tokens, copies eight tokens or more from it, or asks for it again.
    The later that is, the lower the label. LOGS are what `agora replay` reads. No
    model is called. The labels and trajectories contain your log data and stay
    where you write them.
    """
    try:
        from agora_lab.labelling.worth import WorthSettings

        done = label_by_worth(
            paths,
            out,
            settings=WorthSettings(anchors=anchors, calls=calls),
            half=half,
            log_kind=log_kind,
            source=source,
            index=index,
        )
    except (AgoraError, OSError) as error:
        raise click.ClickException(str(error)) from error
    _account(done, json_out)


@label.command()
@click.argument(
    "runs",
    nargs=-1,
    required=True,
    metavar="RUNS...",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@_out
@click.option("--anchors", type=click.IntRange(1), help="Most anchors per episode.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--k-recent", type=click.IntRange(0), default=2, show_default=True)
@click.option(
    "--any-split", is_flag=True, help="Accept runs on the test split; do not train on the result."
)
@json_option("the counts")
def exact(
    runs: tuple[Path, ...],
    out: Path,
    anchors: int | None,
    seed: int,
    k_recent: int,
    any_split: bool,
    json_out: str | None,
) -> None:
    """Label exactly: leave a step out and check whether a reader acts differently.

    RUNS are runs of `agora lab play` or `agora lab grid`; only episodes played by a
    reader with the method none are labelled.
    """
    start = perf_counter()
    needed = written = episodes = 0
    try:
        from agora_lab.labelling.plan import PlanSettings
        from agora_lab.labels import Writer

        settings = PlanSettings(backbone="reader", anchors=anchors, seed=seed, k_recent=k_recent)
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
    figures = {"pairs": written, "needed": needed, "episodes": episodes, "seconds": seconds}
    click.echo(
        f"{written:,} pairs, {needed:,} of them needed, from {episodes:,} episodes; "
        f"{written / seconds:,.0f} pairs/s",
        err=write_json(json_out, figures),
    )
    if not written:
        raise click.ClickException(
            f"nothing to label: an episode needs at least {k_recent + 2} steps, so that there is a "
            f"past outside the newest {k_recent}"
        )


def _exactly(
    folder: Path, settings: "PlanSettings", *, any_split: bool
) -> Iterator[tuple["Case", list["Label"]]]:
    from agora_lab.backbones import readers
    from agora_lab.environments import world
    from agora_lab.episodes.run import read_episodes
    from agora_lab.labelling.cases import from_episode
    from agora_lab.labelling.exact import acts
    from agora_lab.labelling.exact import exact as label_exactly

    cells = {
        (cell.environment, cell.backbone, cell.method): cell
        for cell in trainable_cells(folder, any_split=any_split)
        if cell.reads and not cell.shortens
    }
    if not cells:
        raise click.ClickException(f"{folder} is not a run by a reader with the method none")
    act = {}
    for name in {cell.environment for cell in cells.values()}:
        chosen = world(name)
        act[name] = acts(readers.reader(name), canonical=chosen.canonical, extract=chosen.extract)
    with progress("leaving steps out", sum(len(c.tasks) for c in cells.values())) as advance:
        for episode in read_episodes(folder):
            cell = episode.cell
            if (cell.environment, cell.backbone, cell.method) not in cells:
                continue
            case = from_episode(episode)
            if case is not None:
                yield case, list(label_exactly(case, act[cell.environment], settings))
            advance()

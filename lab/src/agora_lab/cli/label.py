"""The `agora label` commands: labels for scorers, from logs, readers and language models."""

from pathlib import Path

import click

from agora.cli.figures import json_option, write_json
from agora.errors import AgoraError
from agora_lab.cli.label_llm import make, plan, run
from agora_lab.cli.label_logs import TOO_SHORT, Labelled, by_hindsight, label_logs
from agora_lab.cli.label_sources import index_option, log_kind_option


@click.group()
def label() -> None:
    """Label which past steps were needed, from logs, readers or a language model."""


for command in (plan, run, make):
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
@log_kind_option
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
        done = label_logs(paths, out, by_hindsight, log_kind=log_kind, source=source, index=index)
    except (AgoraError, OSError) as error:
        raise click.ClickException(str(error)) from error
    _account(done, json_out)


def _account(done: Labelled, json_out: str | None) -> None:
    click.echo(done.account(), err=write_json(json_out, done.figures()))
    if done.unread:
        click.echo(f"{done.unread:,} records could not be read", err=True)
    if not done.pairs:
        raise click.ClickException(TOO_SHORT)

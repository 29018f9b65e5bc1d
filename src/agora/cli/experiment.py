"""The `agora experiment` command: the result of an experiment from its log."""

from itertools import chain
from typing import TextIO

import click

from agora.cli.figures import json_option, write_json
from agora.experiment.report import IDLE_SECONDS, lines, read_lines, reports


@click.command("experiment")
@click.argument(
    "logs",
    nargs=-1,
    required=True,
    type=click.File(encoding="utf-8", errors="replace"),
    metavar="LOG...",
)
@click.option(
    "--idle-minutes",
    type=click.FloatRange(0, min_open=True),
    default=IDLE_SECONDS / 60,
    show_default=True,
    help="A conversation without a call for so long is over, and counts.",
)
@json_option("the reports")
def experiment(logs: tuple[TextIO, ...], *, idle_minutes: float, json_out: str | None) -> None:
    """Show both arms of an experiment, with intervals that hold at every look.

    LOG files have the lines that filters or proxies with mode = "experiment"
    wrote to standard error, in any order; - is standard input. A file of your
    own may say how conversations ended, in lines such as

    \b
        {"conversation": "92e0b4e533db9bf7", "outcome": 1}

    with the name that answers have in the header x-agora-conversation.
    """  # noqa: D301 - the mark that keeps click from joining the lines
    found = reports(read_lines(chain.from_iterable(logs)), idle_minutes * 60)
    if not found:
        raise click.ClickException(
            "no line of an experiment in these files; they are written with "
            'mode = "experiment" and [log] requests = true'
        )
    taken = write_json(json_out, found)
    for each in found:
        for line in lines(each):
            click.echo(line, err=taken)

"""The `agora explain` command."""

import os
from pathlib import Path

import click

from agora.cli.figures import account_of, json_option, write_json
from agora.cli.options import Setup, compressor_options, source_argument
from agora.cli.source import read_source
from agora.core.action_lines import printable

_MOST_ROWS = 40
"""How many steps are shown without `--all`, from the start and from the end."""


@click.command()
@source_argument
@compressor_options
@click.option("--all", "show_all", is_flag=True, help="Show every step, however many there are.")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write an HTML page instead: a timeline, and the prompt before and after.",
)
@json_option("every decision")
def explain(
    source: str,
    setup: Setup,
    show_all: bool,
    html: Path | None,
    json_out: str | None,
) -> None:
    """Show what happens to every step in SOURCE, and why.

    Each step is a row: its size, its action before, what is left of it after the
    edit, and what decided it. --html shows the whole prompt before and after.
    Of a log, log.jsonl#3 is the fourth conversation.
    Nothing is written except what --html and --json ask for.
    """
    read = read_source(source)
    for note in read.notes:
        click.echo(note, err=True)
    compression = setup.compress(read)
    taken = write_json(json_out, account_of(compression, read.name))
    if html is not None:
        from agora.cli.explain_page import page

        # A lone surrogate stays escaped, so that writing a file never fails.
        html.write_text(page(compression, read, setup), encoding="utf-8")
        click.echo(printable(compression.summary()), err=taken)
        click.echo(f"The page: {html}", err=taken)
        return
    if taken:
        return
    from rich.console import Console

    from agora.cli.picture import show

    log = setup.logged(read)
    show(
        compression,
        Console(highlight=False, markup=False, emoji=False),
        name=os.path.basename(read.name),
        place=read.place,
        budget=setup.compressor.budget,
        unseen_tokens=0 if log is None else log.unseen_tokens,
        most_rows=None if show_all else _MOST_ROWS,
    )

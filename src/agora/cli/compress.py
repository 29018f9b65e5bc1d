"""The `agora compress` command."""

import sys

import click

from agora.cli.figures import account_of, json_option, write_json
from agora.cli.options import Setup, compressor_options, source_options
from agora.cli.source import read_source
from agora.core.action_lines import printable


@click.command()
@source_options()
@compressor_options
@click.option(
    "--paper",
    is_flag=True,
    help="Use the paper's method. It needs --scorer, and takes --keep-ratio, --k-recent,"
    " --observations and --strict.",
)
@json_option("the account", dash=False)
def compress(
    source: str,
    format: str | None,
    log_index: int | None,
    setup: Setup,
    paper: bool,
    json_out: str | None,
) -> None:
    """Print the messages in SOURCE, compressed.

    SOURCE is a file or - for standard input: a JSON list of messages, a whole
    request body, a transcript, or any log that `agora replay` reads.
    The output has the same shape, and a summary of what was kept goes to
    standard error. If nothing is elided, the input comes out byte for byte.
    """
    read = read_source(source, format=format, log_index=log_index)
    for note in read.notes:
        click.echo(note, err=True)
    compression = setup.paper(read) if paper else setup.compress(read)
    if not compression.changed and read.own is not None:
        out = read.own
    else:
        out = read.written(compression.messages, indent=2 if sys.stdout.isatty() else None)
    click.echo(out, nl=False)
    write_json(json_out, account_of(compression, read.name))
    click.echo(printable(compression.summary()), err=True)

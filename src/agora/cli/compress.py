"""The `agora compress` command."""

import sys

import click

from agora.cli.figures import account_of, json_option, write_json
from agora.cli.options import Setup, compressor_options, source_argument
from agora.cli.source import Source, read_source
from agora.core.action_lines import printable
from agora.core.compression import Compression
from agora.errors import AgoraError
from agora.paper import PaperCompressor
from agora.scorers.cross_encoder import CrossEncoderScorer

_PAPER_OPTIONS = ("keep_ratio", "scorer", "observations")


@click.command()
@source_argument
@compressor_options
@click.option(
    "--paper",
    is_flag=True,
    help="Use the paper's method. It needs --scorer, and takes --keep-ratio and --observations.",
)
@json_option("the account", dash=False)
def compress(
    source: str,
    setup: Setup,
    paper: bool,
    json_out: str | None,
) -> None:
    """Print the messages in SOURCE, compressed.

    SOURCE is a file or - for standard input: a JSON list of messages, a whole
    request body, a transcript, or any log that `agora replay` reads. log.jsonl#3
    is the fourth conversation of a log.
    The output has the same shape, and a summary of what was kept goes to
    standard error. If nothing is elided, the input comes out byte for byte.
    """
    read = read_source(source)
    for note in read.notes:
        click.echo(note, err=True)
    compression = _by_paper(setup, read) if paper else setup.compress(read)
    if not compression.changed and read.own is not None:
        out = read.own
    else:
        out = read.written(compression.messages, indent=2 if sys.stdout.isatty() else None)
    click.echo(out, nl=False)
    write_json(json_out, account_of(compression, read.name))
    click.echo(printable(compression.summary()), err=True)


def _by_paper(setup: Setup, source: Source) -> Compression:
    for name in setup.given:
        if name not in _PAPER_OPTIONS:
            flag = name.removesuffix("s") if name == "pins" else name
            raise click.UsageError(f"--paper does not take --{flag.replace('_', '-')}")
    if "scorer" not in setup.given:
        raise click.UsageError("--paper needs --scorer with the folder of a trained scorer")
    scorer = setup.compressor.scorer
    if not isinstance(scorer, CrossEncoderScorer):
        click.echo(
            f"{printable(str(setup.given['scorer']))} is not the paper's kind of scorer: only a"
            " cross-encoder gives the probability that the threshold 0.9 is meant for.",
            err=True,
        )
    ratio = setup.given.get("keep_ratio")
    compressor = PaperCompressor(scorer, **({} if ratio is None else {"rho": ratio}))
    request = source.request
    try:
        return compressor.compress(
            request.messages,
            format=request.format,
            system=request.system,
            tools=request.tools,
            observations=setup.observations or request.observations,
        )
    except AgoraError as error:
        raise click.ClickException(f"{source.name}: {error}") from error

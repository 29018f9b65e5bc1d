"""`agora lab fidelity`: the value of shortened prompts to a language model."""

from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from agora.errors import AgoraError

_FOLDER = click.Path(file_okay=False, path_type=Path)
_FILE = click.Path(dir_okay=False, path_type=Path)
_HALF = click.Choice(["validation", "test"])
_SOURCES = click.option(
    "--sources", default="airline,retail,coding,intercode", show_default=True, help="In turn."
)


@click.group()
def fidelity() -> None:
    """Measure how likely a language model finds the recorded next action, prompt by prompt."""


@fidelity.command()
@click.argument("gguf", type=_FILE)
@click.argument("folder", type=_FOLDER)
def prepare(gguf: Path, folder: Path) -> None:
    """Write the model in GGUF to FOLDER in bfloat16, from where it loads in seconds."""
    from agora_lab.judge.weights import prepare as write

    try:
        write(gguf, folder)
    except AgoraError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"Model: {folder}")


@fidelity.command()
@click.argument("file", type=_FILE)
@click.option("--model", type=_FOLDER, required=True, help="What `prepare` wrote.")
@_SOURCES
@click.option("--half", type=_HALF, default="validation", show_default=True)
@click.option("--anchors", type=click.IntRange(1), default=40, show_default=True, help="A source.")
@click.option("--most-tokens", type=click.IntRange(1), default=6_000, show_default=True)
@click.option("--methods", default="newest,commands_first,agora", show_default=True)
@click.option("--share", type=click.FloatRange(0, 1, min_open=True), default=0.25)
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True)
def run(
    file: Path,
    model: Path,
    sources: str,
    half: str,
    anchors: int,
    most_tokens: int,
    methods: str,
    share: float,
    threads: int,
) -> None:
    """Score the prompts of each method and add the rows to FILE.

    Only what is missing is computed, so a run can be stopped and a method can join later. Anchors
    that FILE has come first. Copy a stored run to compare a new version at the same anchors.
    """
    from agora_lab.judge.run import METHODS, Run, drawn

    names = methods.split(",")
    if unknown := set(names) - METHODS.keys():
        known = ", ".join(METHODS)
        raise click.ClickException(f"unknown method {unknown.pop()!r}; use one of {known}")
    try:
        from agora_lab.judge import likelihood
        from agora_lab.judge.rendering import Rendering

        judge, tokenizer = likelihood.load(model, threads=threads)
        rendering = Rendering(tokenizer)
        measuring = Run(file, judge, rendering, lambda text: click.echo(text, err=True))
        for source in sources.split(","):
            queue = drawn(source, half, rendering, most_tokens=most_tokens, known=measuring.rows)
            measuring.measure(queue, names, share, anchors)
    except (AgoraError, ValueError) as error:
        raise click.ClickException(str(error)) from error


@fidelity.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_SOURCES
@click.option("--half", type=_HALF, default="test", show_default=True)
@click.option("--against", default="", help="A method; the others' difference from it is shown.")
def table(file: Path, sources: str, half: str, against: str) -> None:
    """Print the share of the floor's loss that each method wins back, with 95 % intervals."""
    from agora_lab.judge.run import read_rows, shares

    rows = read_rows(file)
    for target in ("action", "needed"):
        shown = Table("method", "share", f"{target}: won back", f"ahead of {against}", "anchors")
        chosen: Any = {"sources": sources.split(","), "half": half, "target": target}
        for row in shares(rows, against=against, **chosen):
            ahead = "" if row.ahead is None else "{:+.2f} [{:+.2f}, {:+.2f}]".format(*row.ahead)
            won = "{:.2f} [{:.2f}, {:.2f}]".format(*row.share)
            count = f"{row.anchors} of {row.tasks} tasks"
            shown.add_row(row.method, f"{row.keep:.0%}", won, ahead, count)
        Console(width=120).print(shown)


COMMANDS: tuple[Any, ...] = (fidelity,)

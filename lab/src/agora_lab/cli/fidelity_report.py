"""The `agora lab fidelity` commands on a finished or growing run: report and copy."""

from pathlib import Path

import click

from agora.errors import AgoraError
from agora_lab.cli.fidelity import fidelity

_RUN = click.Path(exists=True, file_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)
_HALF = click.Choice(["validation", "test", "both"])


@fidelity.command()
@click.argument("folder", type=_RUN)
@click.option("--out", type=_FOLDER, help="Folder for the report.  [default: FOLDER/report]")
@click.option(
    "--half",
    type=_HALF,
    default="validation",
    show_default=True,
    help="The half of the tasks to report on.",
)
@click.option(
    "--beside",
    type=_RUN,
    multiple=True,
    help="The run of another judge on the same anchors; repeatable.",
)
@click.option(
    "--compare",
    type=(str, str),
    multiple=True,
    metavar="OURS THEIRS",
    help="Two methods to compare, instead of those that the plan fixed; repeatable.",
)
def report(
    folder: Path,
    out: Path | None,
    half: str,
    beside: tuple[Path, ...],
    compare: tuple[tuple[str, str], ...],
) -> None:
    """Write the report on the run in FOLDER, as Markdown and JSON.

    It is made from the run's files alone, while the run goes on if need be.
    """
    try:
        from agora_lab.judge.report import MARKDOWN_FILE, make

        place = out or folder / "report"
        chosen = "" if half == "both" else half
        found = make(folder, place, half=chosen, beside=beside, compare=compare)
    except AgoraError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{found.verdict}.")
    for sentence in found.sentences:
        click.echo(f"- {sentence}")
    click.echo(f"Report: {place / MARKDOWN_FILE}")


@fidelity.command("copy")
@click.argument("run", type=_RUN)
@click.argument("folder", type=_FOLDER)
def copy_run(run: Path, folder: Path) -> None:
    """Copy RUN to FOLDER without any text of its data, to publish it or to go on elsewhere."""
    from agora_lab.judge.records import write_without_texts

    write_without_texts(run, folder)
    click.echo(f"Run: {folder}")


COMMANDS: tuple[click.Command, ...] = (fidelity,)
"""The whole group: its other commands are in agora_lab.cli.fidelity."""

"""The `agora lab fidelity` commands on a finished or growing run: its report and its probes."""

import time
from pathlib import Path

import click

from agora.errors import AgoraError
from agora_lab.cli.fidelity import fidelity
from agora_lab.cli.progress import progress

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
    """Write the report on the run in FOLDER: fidelity.html to look into, .md and .json.

    It is made from the run's files alone, while the run goes on if need be.
    """
    try:
        from agora_lab.fidelity.report import PAGE_FILE, make

        place = out or folder / "report"
        chosen = "" if half == "both" else half
        found = make(folder, place, half=chosen, beside=beside, compare=compare)
    except AgoraError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{found.verdict}.")
    for sentence in found.sentences:
        click.echo(f"- {sentence}")
    click.echo(f"Report: {place / PAGE_FILE}")


@fidelity.command()
@click.argument("folder", type=_RUN)
@click.option("--model", type=_RUN, required=True, help="Folder of the judge's weights.")
@click.option(
    "--methods",
    default="everything,floor,newest@0.25,forms_now@0.25,default@0.25",
    show_default=True,
    help="Prompts to ask under, as method@keep.",
)
@click.option("--probes", type=click.IntRange(1), default=300, show_default=True)
@click.option(
    "--each", type=click.IntRange(1), default=4, show_default=True, help="Probes of one anchor."
)
@click.option(
    "--exact",
    type=click.IntRange(0),
    default=60,
    show_default=True,
    help="Probes that are answered in the model's own words too.",
)
@click.option("--half", type=_HALF, default="validation", show_default=True)
@click.option("--minutes", type=click.FloatRange(0), help="Stop after so long.")
@click.option(
    "--arithmetic",
    type=click.Choice(["auto", "bfloat16", "int8", "float32"]),
    default="auto",
    show_default=True,
    help="What to compute in; auto takes what this machine is fastest in.",
)
@click.option("--threads", type=click.IntRange(1), default=2, show_default=True)
def probes(
    folder: Path,
    model: Path,
    methods: str,
    probes: int,
    each: int,
    exact: int,
    half: str,
    minutes: float | None,
    arithmetic: str,
    threads: int,
) -> None:
    """Ask a run's judge what was seen and done, under each prompt of the run in FOLDER.

    The answers are added to FOLDER/probes.jsonl. Stop it at any time; the same command
    asks what is missing.
    """
    try:
        from agora_lab.fidelity import likelihood
        from agora_lab.fidelity.answering import Answering
        from agora_lab.fidelity.probes import plan, run
        from agora_lab.fidelity.rendering import Rendering

        planned = plan(
            folder, half="" if half == "both" else half, probes=probes, each=each, worded=exact
        )
        names = methods.split(",")
        click.echo(f"{len(planned)} probes, {len(names)} prompts each", err=True)
        if arithmetic == "auto":
            arithmetic = likelihood.arithmetic()
        judge, tokenizer = likelihood.load(model, arithmetic=arithmetic, threads=threads)
        until = time.monotonic() + 60 * minutes if minutes is not None else float("inf")
        asked = run(
            folder,
            planned,
            Answering(judge.model),
            Rendering(tokenizer),
            methods=names,
            ends=frozenset({tokenizer.eos_token_id}),
            enough=lambda: time.monotonic() >= until,
        )
        with progress(len(planned) * len(names), 0, what="asking") as tick:
            for one in asked:
                tick(1, one.source)
    except (AgoraError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"Report on it with: agora lab fidelity report {folder}")


@fidelity.command("copy")
@click.argument("run", type=_RUN)
@click.argument("folder", type=_FOLDER)
def copy_run(run: Path, folder: Path) -> None:
    """Copy RUN to FOLDER without any text of its data, to publish it or to go on elsewhere."""
    from agora_lab.fidelity.records import write_without_texts

    write_without_texts(run, folder)
    click.echo(f"Run: {folder}")


COMMANDS: tuple[click.Command, ...] = (fidelity,)
"""The whole group: its other commands are in agora_lab.cli.fidelity."""

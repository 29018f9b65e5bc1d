"""The `agora lab` commands that play and compare: `paper`, `play`, `report`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agora import AgoraError
from agora_lab.cli.progress import progress

if TYPE_CHECKING:
    from agora_lab.evaluate.experiment import Experiment

_FOLDER = click.Path(file_okay=False, path_type=Path)
_SOURCE = click.Path(exists=True, path_type=Path)
_SHOWN_FAILURES = 10
_PIPED_WIDTH = 150
F = TypeVar("F", bound=Callable[..., Any])


def _run_options(command: F) -> F:
    """Add the options of commands that play."""
    for option in (
        click.option(
            "--backbone",
            "backbones",
            multiple=True,
            default=("scripted",),
            show_default=True,
            metavar="SPEC",
            help="`scripted`, or a model such as `openai:gpt-4o-mini`; repeatable.",
        ),
        click.option("--out", type=_FOLDER, required=True, metavar="RUN", help="The run's folder."),
        click.option(
            "--base-url", default="", metavar="URL", help="Endpoint.  [default: OPENAI_BASE_URL]"
        ),
        click.option(
            "--max-tokens",
            type=click.IntRange(1),
            default=128,
            show_default=True,
            help="Most tokens of an answer.",
        ),
        click.option(
            "--max-dollars",
            type=click.FloatRange(0, min_open=True),
            help="Cap on what models cost, over all starts of the run.",
        ),
        click.option(
            "--dollars-per-million",
            nargs=2,
            type=click.FloatRange(0),
            metavar="INPUT OUTPUT",
            help="Prices of a model without a price sheet.",
        ),
        click.option(
            "--scorer", default="", metavar="FOLDER|NAME", help="The scorer of the paper's method."
        ),
        click.option("--seed", type=int, default=47, show_default=True),
        click.option(
            "--steps",
            type=click.IntRange(1),
            help="Most steps of an episode.  [default: the environment's limit]",
        ),
        click.option(
            "--ray",
            metavar="ADDRESS",
            help="A Ray cluster.  [default: RAY_ADDRESS, or this machine]",
        ),
        click.option(
            "--workers",
            type=click.IntRange(1),
            help="Cores to use on this machine.  [default: all]",
        ),
    ):
        command = option(command)
    return command


@click.command()
@_run_options
@click.option("--tasks", type=click.IntRange(1), default=30, show_default=True)
@click.option(
    "--envs",
    default="alfworld,scienceworld,webshop",
    show_default=True,
    metavar="NAMES",
    help="Environments, with commas between them.",
)
@click.option(
    "--methods",
    multiple=True,
    metavar="NAME[,OPTION=VALUE...]",
    help="Methods; repeatable.  [default: the paper's, and ours beside them]",
)
@click.option(
    "--labels",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="The scorer's training labels, whose tasks must not be played; repeatable.",
)
def paper(
    tasks: int,
    envs: str,
    methods: tuple[str, ...],
    labels: tuple[str, ...],
    steps: int | None,
    out: Path,
    **run: Any,
) -> None:
    """Run the paper's experiment and report on it.

    The protocol is the paper's: temperature 0, at most 30 steps, 30 test tasks, the same tasks in
    every arm, a nominal ratio of 4. Stop it at any time; the same command resumes it.
    """
    try:
        from agora_lab.evaluate.experiment import PAPER_STEPS, Experiment
        from agora_lab.methods import PAPER

        experiment = Experiment(
            environments=tuple(filter(None, envs.split(","))),
            methods=methods or PAPER,
            tasks=tasks,
            steps=steps or PAPER_STEPS,
            labels=labels,
            **_agents(run),
        )
        _play(experiment, out, run)
        _report((out,), out / "report", ())
    except (AgoraError, ValueError) as error:
        raise click.ClickException(str(error)) from error


@click.command()
@_run_options
@click.option("--env", "envs", required=True, multiple=True, metavar="NAME", help="Repeatable.")
@click.option(
    "--method",
    "methods",
    multiple=True,
    default=("none",),
    show_default=True,
    metavar="NAME[,OPTION=VALUE...]",
    help="Repeatable.",
)
@click.option("--tasks", type=click.IntRange(1), default=10, show_default=True)
@click.option(
    "--split",
    type=click.Choice(("train", "validation", "test")),
    default="test",
    show_default=True,
)
def play(
    envs: tuple[str, ...],
    methods: tuple[str, ...],
    tasks: int,
    split: str,
    steps: int | None,
    out: Path,
    **run: Any,
) -> None:
    """Play any tasks under any methods, for example training tasks to be labelled.

    Stop it at any time; the same command resumes it.
    """
    try:
        from agora_lab.evaluate.experiment import Experiment

        experiment = Experiment(
            environments=envs,
            methods=methods,
            tasks=tasks,
            split=split,
            steps=steps,
            **_agents(run),
        )
        failed = _play(experiment, out, run)
    except (AgoraError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"Run: {out}\nReport on it with: agora lab report {out}")
    if failed:
        raise click.ClickException("run the same command again to retry the failed episodes")


def _agents(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of the run options that the experiment records."""
    from agora_lab.evaluate.play import AgentOptions

    return {
        "backbones": run["backbones"],
        "seed": run["seed"],
        "scorer": run["scorer"],
        "agent": AgentOptions(
            base_url=run["base_url"],
            max_tokens=run["max_tokens"],
            prices=run["dollars_per_million"],
        ),
    }


def _play(experiment: "Experiment", out: Path, options: Mapping[str, Any]) -> int:
    """Play an experiment with progress, and return the number of failed episodes."""
    from agora_lab.evaluate.experiment import Run

    # Training tasks are played to be labelled, never to evaluate.
    run = Run(experiment, out, evaluates=experiment.split != "train")
    if options["max_dollars"] is None and any(map(_is_billed, experiment.backbones)):
        click.echo("no --max-dollars: the provider's own limit is the only cap", err=True)
    steps = run.play(
        address=options["ray"], cpus=options["workers"], max_dollars=options["max_dollars"]
    )
    failed: dict[str, str] = {}
    skipped: dict[str, str] = {}
    with progress(run.total, run.done) as tick:
        for step in steps:
            cell = f"{step.cell.environment} {step.cell.backbone} {step.cell.method}"
            if step.skipped:
                skipped[cell] = step.skipped
            if step.error:
                failed[f"{cell} ({len(failed) + 1})"] = step.error
            tick(1, f"{len(failed)} failed" if failed else cell)
    for cell, reason in skipped.items():
        click.echo(f"skipped {cell}: {reason}", err=True)
    for cell, reason in list(failed.items())[:_SHOWN_FAILURES]:
        click.echo(f"failed {cell}: {reason}", err=True)
    return len(failed)


def _is_billed(backbone: str) -> bool:
    return backbone.startswith("openai:")


@click.command()
@click.argument("runs", nargs=-1, required=True, type=_SOURCE)
@click.option("--out", type=_FOLDER, help="The report's folder.  [default: RUN/report]")
@click.option(
    "--prices", multiple=True, metavar="MODEL", help="Price sheet to bill by; repeatable."
)
def report(runs: tuple[Path, ...], out: Path | None, prices: tuple[str, ...]) -> None:
    """Report on RUNS with the paper's tables and its numbers beside ours.

    Prints the tables and writes one HTML page, the figures as JSON, and the rows they are made of.
    A run is a folder of `agora lab paper` or `agora lab play`, or the folder of an earlier report.
    """
    try:
        _report(runs, out or runs[0] / "report", prices)
    except (AgoraError, ValueError) as error:
        raise click.ClickException(str(error)) from error


def _report(runs: tuple[Path, ...], out: Path, prices: tuple[str, ...]) -> None:
    from rich.console import Console

    from agora_lab.evaluate.page import show
    from agora_lab.evaluate.report import PAGE, make
    from agora_lab.evaluate.rows import PRICES

    figures, tables = make(runs, out, prices=prices or PRICES)
    console = Console()
    show(figures, tables, console if console.is_terminal else Console(width=_PIPED_WIDTH))
    click.echo(f"Report: {out / PAGE}")


COMMANDS: tuple[click.Command, ...] = (paper, play, report)

"""The `agora lab` commands that compare: play a grid, report on it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agora.errors import AgoraError
from agora_lab.cli.progress import progress

if TYPE_CHECKING:
    from agora_lab.evaluate.grid_player import LocalGridRun
    from agora_lab.evaluate.on_ray import RayGridRun
    from agora_lab.evaluate.results import Results

_FOLDER = click.Path(file_okay=False, path_type=Path)
_SOURCE = click.Path(exists=True, path_type=Path)


@click.command()
@click.argument("grid", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--out", type=_FOLDER, required=True, metavar="RUN", help="Folder to write the run to."
)
@click.option(
    "--workers",
    type=click.IntRange(0),
    default=2,
    show_default=True,
    help="Parallel processes; 0 plays in this one, without Ray.",
)
@click.option(
    "--shard",
    default="0/1",
    show_default=True,
    help="With --workers 0: play only part I of N of the tasks.",
)
@click.option(
    "--tasks", type=click.IntRange(1), help="Play fewer tasks than the file says, for a trial."
)
def grid(grid: Path, out: Path, workers: int, shard: str, tasks: int | None) -> None:
    """Play the cells of GRID on Ray. Stop it at any time; the same command resumes it.

    GRID is a TOML file: environments, backbones, methods, seeds, tasks. Cells
    are interleaved: every cell plays its first tasks before any cell plays its
    next ones, so an unfinished run can still be compared.
    """
    try:
        from dataclasses import replace

        from agora_lab.evaluate.grid import read_grid

        chosen = read_grid(grid.read_text(encoding="utf-8"))
        if tasks is not None:
            chosen = replace(chosen, tasks=min(tasks, chosen.tasks))
        playing: LocalGridRun | RayGridRun
        if workers:
            from agora_lab.evaluate import on_ray

            playing = on_ray.RayGridRun(chosen, out, workers=workers)
            done = len(playing.done)
        else:
            from agora_lab.evaluate import grid_player

            playing = grid_player.LocalGridRun(chosen, out, shard=read_shard(shard))
            done = playing.done
        failed: dict[str, str] = {}
        skipped: dict[str, str] = {}
        with progress(playing.total, done) as tick:
            for outcome in playing.outcomes():
                if outcome.skipped:
                    skipped[outcome.key.rsplit("|", 1)[0]] = outcome.skipped
                elif outcome.error:
                    failed[outcome.key] = outcome.error
                tick(1, f"{len(failed)} failed" if failed else "")
    except (AgoraError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    for cell, reason in skipped.items():
        click.echo(f"skipped {cell}: {reason}", err=True)
    for key, reason in list(failed.items())[:10]:
        click.echo(f"failed {key}: {reason}", err=True)
    click.echo(f"Run: {out}\nReport on it with: agora lab report {out}")


def read_shard(text: str) -> tuple[int, int]:
    """Return which part of how many `I/N` names."""
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit() and int(index) < int(count)):
        raise click.BadParameter(f"{text!r} is not I/N with 0 <= I < N", param_hint="--shard")
    return int(index), int(count)


@click.command()
@click.argument("runs", nargs=-1, required=True, type=_SOURCE)
@click.option("--out", type=_FOLDER, help="Folder to write the report to.  [default: RUN/report]")
@click.option(
    "--prices", multiple=True, metavar="MODEL", help="Price sheet to bill by; repeatable."
)
def report(runs: tuple[Path, ...], out: Path | None, prices: tuple[str, ...]) -> None:
    """Write a report on RUNS: Markdown, JSON and the underlying rows.

    A run is a folder written by `agora lab grid` or `agora lab play`, or the folder
    of an earlier report: its rows are enough to write the same report again.
    """
    try:
        from agora_lab.evaluate.report import make

        folder = out or runs[0] / "report"
        found = make(runs, folder, prices=prices or _prices_of(runs))
    except (AgoraError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    _print(found)
    click.echo(f"Report: {folder / 'report.md'}")


COMMANDS: tuple[click.Command, ...] = (grid, report)


def _prices_of(runs: Sequence[Path]) -> tuple[str, ...]:
    """Return the price sheets named in the first run's grid."""
    try:
        settings = json.loads((runs[0] / "settings.json").read_text(encoding="utf-8"))
        return tuple(settings["grid"]["prices"])
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def _print(found: "Results") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for column in ("environment", "backbone", "method", "n", "reward", "kept", "compression"):
        table.add_column(column)
    for cell in found.cells:
        table.add_row(
            cell.environment,
            cell.backbone,
            cell.method,
            str(cell.reward.estimate.n),
            f"{cell.reward.estimate.value:.3f}",
            f"{100 * cell.retention.estimate.value:.0f} %" if cell.retention else "",
            f"{cell.compression.estimate.value:.2f}x" if cell.compression else "",
        )
    Console().print(table)

"""The `agora lab` commands that compare: play a grid, report on it, compute bills."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agora.errors import AgoraError
from agora_lab.cli.progress import progress

if TYPE_CHECKING:
    from agora.core.prices import PriceSheet
    from agora_lab.evaluation.conversations import Conversation
    from agora_lab.evaluation.grid_player import LocalGridRun
    from agora_lab.evaluation.on_ray import RayGridRun
    from agora_lab.evaluation.results import Results
    from agora_lab.methods import Method

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

        from agora_lab.evaluation.grid import read_grid

        chosen = read_grid(grid.read_text(encoding="utf-8"))
        if tasks is not None:
            chosen = replace(chosen, tasks=min(tasks, chosen.tasks))
        playing: LocalGridRun | RayGridRun
        if workers:
            from agora_lab.evaluation import on_ray

            playing = on_ray.RayGridRun(chosen, out, workers=workers)
            done = len(playing.done)
        else:
            from agora_lab.evaluation import grid_player

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
    """Write a report on RUNS: Markdown, a single HTML page, plots, JSON and the underlying rows.

    A run is a folder written by `agora lab grid` or `agora lab play`, or the folder
    of an earlier report: its rows are enough to write the same report again.
    """
    try:
        from agora_lab.evaluation.report import make

        folder = out or runs[0] / "report"
        found = make(runs, folder, prices=prices or _prices_of(runs))
    except (AgoraError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    _print(found)
    click.echo(f"Report: {folder / 'report.html'}")


@click.command("recorded-bill")
@click.argument("sources", nargs=-1, required=True, type=_SOURCE)
@click.option(
    "--methods",
    default="floor,truncate_matched,random_step,observation_mask,observation_mask_matched,"
    "agora_paper,agora_every_call,agora",
    show_default=True,
)
@click.option("--keep-ratio", type=click.FloatRange(0, 1), default=0.25, show_default=True)
@click.option(
    "--prices", multiple=True, metavar="MODEL", help="Price sheet to bill by; repeatable."
)
@click.option(
    "--most", type=click.IntRange(1), default=50, show_default=True, help="Trajectories per source."
)
@click.option("--out", type=_FOLDER, required=True)
def recorded_bill(
    sources: tuple[Path, ...],
    methods: str,
    keep_ratio: float,
    prices: tuple[str, ...],
    most: int,
    out: Path,
) -> None:
    """Compute what recorded trajectories would have cost under each method, with prefix caching.

    SOURCES are logs or runs. Tool calls are written as text so that every method
    can run on them; AGORA decides by the prices of each sheet.
    """
    from itertools import islice

    try:
        from agora_lab.evaluation.grid import PRICES
        from agora_lab.evaluation.recorded_bill import recorded_bills
        from agora_lab.evaluation.report import sheets_of

        conversations = [
            one for source in sources for one in islice(_conversations(source, ""), most)
        ]

        def make(name: str, sheet: "PriceSheet") -> "Method":
            return _method(name, keep_ratio, sheet=sheet)

        bills = list(
            recorded_bills(
                conversations,
                methods.split(","),
                sheets_of(prices or PRICES),
                make,
                lambda name: name.startswith("agora"),
            )
        )
    except (AgoraError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    _bill_report(bills, out)
    click.echo(f"Figures: {out / 'recorded-bill.md'}")


COMMANDS: tuple[click.Command, ...] = (grid, report, recorded_bill)


def _prices_of(runs: Sequence[Path]) -> tuple[str, ...]:
    """Return the price sheets named in the first run's grid."""
    try:
        settings = json.loads((runs[0] / "settings.json").read_text(encoding="utf-8"))
        return tuple(settings["grid"]["prices"])
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def _method(
    name: str, keep_ratio: float, *, every_call: bool = False, sheet: "PriceSheet | None" = None
) -> "Method":
    from agora_lab.methods import MethodSettings, SkipMethod
    from agora_lab.methods import method as make

    options: dict[str, Any] = {}
    if name.startswith("agora") and every_call:
        options["schedule"] = "every_call"
    if name.startswith("agora") and sheet is not None:
        options["sheet"] = sheet
    try:
        return make(name, MethodSettings(keep_ratio=keep_ratio, options=options))
    except SkipMethod as reason:
        raise click.ClickException(f"{name} cannot be run: {reason}") from reason


def _conversations(source: Path, world: str) -> Iterator["Conversation"]:
    """Yield the trajectories of a run or of logs."""
    from agora_lab.evaluation.conversations import of_episode, of_trajectory

    if (source / "settings.json").is_file():
        from agora_lab.episodes.run import read_episodes

        for episode in read_episodes(source):
            if episode.cell.method == "none":
                yield of_episode(episode)
        return
    from agora.adapters import parse
    from agora.errors import ParseError
    from agora.logs import Tally, read_logs

    name = source.stem if source.is_file() else source.name
    for recording in read_logs([source], Tally()):
        try:
            trajectory = parse(recording.request()).trajectory
        except ParseError:
            continue
        yield of_trajectory(
            trajectory,
            source=f"{name}, recorded",
            task=recording.task or recording.id,
            key=recording.id,
            world=world,
        )


def _print(found: "Results") -> None:
    from rich.console import Console
    from rich.table import Table

    from agora_lab.evaluation.goals import goals

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
    console = Console()
    console.print(table)
    for goal in goals(found):
        if goal.met is not None:
            look = "red" if not goal.met else "green" if goal.edited else "yellow"
            console.print(f"[{look}]{goal.word}[/]: {goal.goal}: {goal.says}", highlight=False)


def _bill_report(bills: Sequence[Any], out: Path) -> None:
    from dataclasses import asdict

    from agora_lab.evaluation.blocks import Entry, Table

    out.mkdir(parents=True, exist_ok=True)
    sheets = list(dict.fromkeys(bill.sheet for bill in bills))
    rows = []
    for source, method in dict.fromkeys((bill.source, bill.method) for bill in bills):
        own = {b.sheet: b for b in bills if (b.source, b.method) == (source, method)}
        first = next(iter(own.values()))
        cells = [
            Entry(
                f"{own[s].ratio.value:.2f} [{own[s].ratio.low:.2f}, {own[s].ratio.high:.2f}] "
                f"worst {own[s].worst:.2f}, {own[s].compression.value:.2f}x"
            )
            for s in sheets
        ]
        rows.append([Entry(source), Entry(method), Entry(str(first.trajectories)), *cells])
    table = Table(("source", "method", "trajectories", *sheets), rows)
    text = (
        "# Recorded trajectories, input cost as a ratio to sending everything\n\n"
        "With the prefix cache simulated; the interval is 95 %, by bootstrap over trajectories; "
        "worst is the costliest trajectory; after it, how many times fewer tokens were sent.\n\n"
        f"{table.markdown()}\n"
    )
    (out / "recorded-bill.md").write_text(text, encoding="utf-8")
    (out / "recorded-bill.json").write_text(
        json.dumps([asdict(bill) for bill in bills], indent=1, sort_keys=True) + "\n",
        encoding="utf-8",
    )

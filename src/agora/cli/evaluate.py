"""The `agora lab` commands that compare: play a grid, report on it, measure single actions."""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agora.errors import AgoraError

if TYPE_CHECKING:
    from agora.core.prices import PriceSheet
    from agora.lab.evaluation.conversations import Conversation
    from agora.lab.evaluation.fidelity import Grammar, Measured
    from agora.lab.evaluation.results import Results
    from agora.lab.methods import Method

_FOLDER = click.Path(file_okay=False, path_type=Path)
_SOURCE = click.Path(exists=True, path_type=Path)
_PLAIN_SECONDS = 60.0
"""How often progress is told where there is no terminal to draw it on."""


@click.command()
@click.argument("grid", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", type=_FOLDER, required=True, metavar="RUN", help="Where the run goes.")
@click.option("--workers", type=click.IntRange(1), default=2, show_default=True)
@click.option("--tasks", type=click.IntRange(1), help="Fewer tasks than the file says, for a try.")
def grid(grid: Path, out: Path, workers: int, tasks: int | None) -> None:
    """Play the cells of GRID on Ray. Stop it at any time and start it again to go on.

    GRID is a TOML file: environments, backbones, methods, seeds, tasks. Cells
    are played side by side, the first tasks of all before the second ones of
    any, so that whatever has been played can be compared.
    """
    try:
        from dataclasses import replace

        from agora.lab.evaluation.grid import read_grid
        from agora.lab.evaluation.on_ray import Playing

        chosen = read_grid(grid.read_text(encoding="utf-8"))
        if tasks is not None:
            chosen = replace(chosen, tasks=min(tasks, chosen.tasks))
        playing = Playing(chosen, out, workers=workers)
        failed: dict[str, str] = {}
        skipped: dict[str, str] = {}
        with _progress(playing.total, len(playing.done)) as tick:
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
    click.echo(f"The run: {out}; look at it with: agora lab report {out}")


@click.command()
@click.argument("runs", nargs=-1, required=True, type=_SOURCE)
@click.option("--out", type=_FOLDER, help="Where the report goes; RUN/report by default.")
@click.option("--prices", multiple=True, metavar="MODEL", help="A price sheet; several are fine.")
def report(runs: tuple[Path, ...], out: Path | None, prices: tuple[str, ...]) -> None:
    """Write the report of RUNS: Markdown, one page of HTML, plots, JSON, and the rows behind it.

    A run is a folder of `agora lab grid` or `agora lab play`, or the folder of an
    earlier report: its rows are all that is needed to write the same report again.
    """
    try:
        from agora.lab.evaluation.report import make

        folder = out or runs[0] / "report"
        found = make(runs, folder, prices=prices or _prices_of(runs))
    except (AgoraError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    _print(found)
    click.echo(f"The report: {folder / 'report.html'}")


@click.command()
@click.argument("sources", nargs=-1, required=True, type=_SOURCE)
@click.option("--backbone", required=True, metavar="URL", help="A llama.cpp server's /v1.")
@click.option("--model", required=True, metavar="NAME")
@click.option(
    "--methods",
    default="none,floor,random_step,observation_mask_matched,truncate_matched,agora_paper,"
    "agora_every_call,agora_no_skeletons",
    show_default=True,
)
@click.option("--anchors", type=click.IntRange(1), default=100, show_default=True)
@click.option("--keep-ratio", type=click.FloatRange(0, 1), default=0.25, show_default=True)
@click.option("--world", default="", metavar="NAME", help="Whose actions logs hold, if anyone's.")
@click.option("--most-tokens", type=click.IntRange(1), default=6_000, show_default=True)
@click.option("--every-call/--by-price", default=True, help="When AGORA edits.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--out", type=_FOLDER, required=True)
def fidelity(
    sources: tuple[Path, ...],
    backbone: str,
    model: str,
    methods: str,
    anchors: int,
    keep_ratio: float,
    world: str,
    most_tokens: int,
    every_call: bool,
    seed: int,
    out: Path,
) -> None:
    """Measure what shortening does to the next action, on played or recorded trajectories.

    SOURCES are runs whose method is none, or logs. Of each so many anchors are
    drawn; a prompt of more than --most-tokens is not. Answers are kept, so going
    on asks nothing twice.
    """
    try:
        from agora.lab.evaluation.fidelity import Records, draw, measure, summarise

        made = {
            name: _method(name, keep_ratio, every_call=every_call)
            for name in dict.fromkeys(("none", *methods.split(",")))
        }
        chosen = []
        for source in sources:
            short = (one for one in _conversations(source, world) if _fits(one, most_tokens))
            chosen += draw(short, anchors, seed=seed)
        records = Records(out)
        total = len(chosen) * len(made)
        grammars = _grammars({anchor.conversation.world for anchor in chosen})

        async def ask() -> None:
            from agora.lab.backbones.answers import Answers
            from agora.lab.backbones.openai_compatible import AsyncOpenAICompatible

            done = records.done
            known = {f"{anchor.key}|{name}" for anchor in chosen for name in made}
            async with AsyncOpenAICompatible(
                backbone, model, answers=Answers(out / "answers")
            ) as asked:
                with _progress(total, len(known & done)) as tick:
                    async for one in measure(chosen, made, asked, grammars=grammars, done=done):
                        records.add(one)
                        tick(1, one.error[:60])

        asyncio.run(ask())
        settings = {"model": model, "keep_ratio": keep_ratio, "seed": seed, "methods": list(made)}
        _fidelity_report(records.found, summarise(records.found), settings, out)
    except (AgoraError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"The figures: {out / 'fidelity.md'}")


@click.command("recorded-bill")
@click.argument("sources", nargs=-1, required=True, type=_SOURCE)
@click.option(
    "--methods",
    default="floor,truncate_matched,random_step,observation_mask,observation_mask_matched,"
    "agora_paper,agora_every_call,agora",
    show_default=True,
)
@click.option("--keep-ratio", type=click.FloatRange(0, 1), default=0.25, show_default=True)
@click.option("--prices", multiple=True, metavar="MODEL", help="A price sheet; several are fine.")
@click.option("--most", type=click.IntRange(1), default=50, show_default=True, help="Of a source.")
@click.option("--out", type=_FOLDER, required=True)
def recorded_bill(
    sources: tuple[Path, ...],
    methods: str,
    keep_ratio: float,
    prices: tuple[str, ...],
    most: int,
    out: Path,
) -> None:
    """Tell what recorded trajectories would have cost under each method, with the prefix cache.

    SOURCES are logs or runs. Tool calls are written as text, so that every
    method can be run on them; AGORA goes by the prices of each sheet.
    """
    from itertools import islice

    try:
        from agora.lab.evaluation.grid import PRICES
        from agora.lab.evaluation.recorded_bill import recorded_bills
        from agora.lab.evaluation.report import sheets_of

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
    click.echo(f"The figures: {out / 'recorded-bill.md'}")


COMMANDS: tuple[click.Command, ...] = (grid, report, fidelity, recorded_bill)


def _prices_of(runs: Sequence[Path]) -> tuple[str, ...]:
    """Return the price sheets that the first run's grid names."""
    try:
        settings = json.loads((runs[0] / "settings.json").read_text(encoding="utf-8"))
        return tuple(settings["grid"]["prices"])
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def _method(
    name: str, keep_ratio: float, *, every_call: bool = False, sheet: "PriceSheet | None" = None
) -> "Method":
    from agora.lab.methods import Settings, SkipMethod
    from agora.lab.methods import method as make

    options: dict[str, Any] = {}
    if name.startswith("agora") and every_call:
        options["schedule"] = "every_call"
    if name.startswith("agora") and sheet is not None:
        options["sheet"] = sheet
    try:
        return make(name, Settings(keep_ratio=keep_ratio, options=options))
    except SkipMethod as reason:
        raise click.ClickException(f"{name} cannot be run: {reason}") from reason


def _conversations(source: Path, world: str) -> Iterator["Conversation"]:
    """Yield the trajectories of a run or of logs."""
    from agora.lab.evaluation.conversations import of_episode, of_trajectory

    if (source / "settings.json").is_file():
        from agora.lab.episodes.run import read_episodes

        for episode in read_episodes(source):
            if episode.cell.method == "none":
                yield of_episode(episode)
        return
    from agora.adapters import ADAPTERS, Context
    from agora.core.tokens import EstimatedTokens
    from agora.errors import ParseError
    from agora.replay.logs import Tally, read_logs

    name = source.stem if source.is_file() else source.name
    for recording in read_logs([source], Tally()):
        context = Context(
            counter=EstimatedTokens(),
            system=recording.system,
            tools=recording.tools,
            observations=recording.observations,
        )
        try:
            trajectory = ADAPTERS[recording.format].parse(recording.messages, context).trajectory
        except ParseError:
            continue
        yield of_trajectory(
            trajectory,
            source=f"{name}, recorded",
            task=recording.task or recording.id,
            key=recording.id,
            world=world,
        )


def _fits(conversation: "Conversation", most_tokens: int) -> bool:
    from agora.lab.methods.steps import tokens_of

    return tokens_of(conversation.messages) <= most_tokens


def _grammars(worlds: set[str]) -> dict[str, "Grammar"]:
    from agora.lab.evaluation.fidelity import Grammar
    from agora.lab.evaluation.workshop import world_named

    found = {}
    for name in worlds - {""}:
        chosen = world_named(name)
        found[name] = Grammar(chosen.extract, chosen.canonical, chosen.examples)
    return found


def _print(found: "Results") -> None:
    from rich.console import Console
    from rich.table import Table

    from agora.lab.evaluation.goals import goals

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
    words = {True: "[green]met[/]", False: "[red]not met[/]", None: "not known"}
    for goal in goals(found):
        if goal.met is not None:
            console.print(f"{words[goal.met]}: {goal.goal}: {goal.says}", highlight=False)


def _fidelity_report(
    measured: Sequence["Measured"], rows: Sequence[Any], settings: dict[str, Any], out: Path
) -> None:
    from dataclasses import asdict

    from agora.lab.evaluation.blocks import Said, Table
    from agora.lab.evaluation.goals import told

    table = Table(
        (
            "source",
            "method",
            "anchors (edited)",
            "compression",
            "log-probability lost",
            "says the same as with the whole prompt",
            "says what was done",
            "log-probability above the floor's",
            "p after Holm",
        ),
        [
            [
                Said(row.source),
                Said(row.method),
                Said(f"{row.anchors} ({row.changed})"),
                Said(told(row.compression)),
                Said(told(row.logprob_lost, 3)),
                Said(told(row.agreement)),
                Said(told(row.agreement_taken)),
                Said(told(row.against_floor, 3) if row.against_floor else ""),
                Said(f"{row.p_holm:.2g}" if row.against_floor else ""),
            ]
            for row in rows
        ],
    )
    errors = sum(bool(one.error) for one in measured)
    text = (
        f"# Next-action fidelity, {settings['model']}\n\n"
        f"{len(measured)} prompts, {errors} with an error. n counts tasks; intervals are 95 %, by "
        f"bootstrap over tasks. keep_ratio {settings['keep_ratio']}.\n\n{table.markdown()}\n"
    )
    (out / "fidelity.md").write_text(text, encoding="utf-8")
    value = {"settings": settings, "rows": [asdict(row) for row in rows], "errors": errors}
    (out / "fidelity.json").write_text(
        json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )


def _bill_report(bills: Sequence[Any], out: Path) -> None:
    from dataclasses import asdict

    from agora.lab.evaluation.blocks import Said, Table

    out.mkdir(parents=True, exist_ok=True)
    sheets = list(dict.fromkeys(bill.sheet for bill in bills))
    rows = []
    for source, method in dict.fromkeys((bill.source, bill.method) for bill in bills):
        own = {b.sheet: b for b in bills if (b.source, b.method) == (source, method)}
        first = next(iter(own.values()))
        cells = [
            Said(
                f"{own[s].ratio.value:.2f} [{own[s].ratio.low:.2f}, {own[s].ratio.high:.2f}] "
                f"worst {own[s].worst:.2f}, {own[s].compression.value:.2f}x"
            )
            for s in sheets
        ]
        rows.append([Said(source), Said(method), Said(str(first.trajectories)), *cells])
    table = Table(("source", "method", "trajectories", *sheets), rows)
    text = (
        "# Recorded trajectories, input cost as a ratio to sending everything\n\n"
        "With the prefix cache simulated; the interval is 95 %, by bootstrap over trajectories; "
        "worst is the dearest trajectory; behind it how many times fewer tokens were sent.\n\n"
        f"{table.markdown()}\n"
    )
    (out / "recorded-bill.md").write_text(text, encoding="utf-8")
    (out / "recorded-bill.json").write_text(
        json.dumps([asdict(bill) for bill in bills], indent=1, sort_keys=True) + "\n",
        encoding="utf-8",
    )


@contextmanager
def _progress(total: int, done: int) -> Iterator[Callable[[int, str], None]]:
    """Yield what is told of each thing done; time left is drawn, or written once a minute."""
    from rich.console import Console

    console = Console(file=sys.stderr)
    start = last = time.monotonic()
    now = done
    if not console.is_terminal:

        def tell(more: int, note: str) -> None:
            nonlocal now, last
            now += more
            if time.monotonic() - last >= _PLAIN_SECONDS or now == total:
                last = time.monotonic()
                rate = (now - done) / max(1e-9, last - start)
                left = (total - now) / max(1e-9, rate) / 60
                said = f"{now:,} of {total:,}, {60 * rate:.0f} a minute, {left:.0f} minutes left"
                click.echo(f"{said}{f', {note}' if note else ''}", err=True)

        yield tell
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("playing", total=total, completed=done)

        def draw(more: int, note: str) -> None:
            progress.update(bar, advance=more, description=f"playing {note}".strip())

        yield draw

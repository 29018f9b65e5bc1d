"""The `agora replay` command."""

import difflib
import os
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import click

from agora.cli.figures import json_option, write_json
from agora.cli.options import complete_model
from agora.core.prices import UNKNOWN, PriceSheet, load_sheets, sheet_for, shipped_sheets
from agora.core.request import Observations
from agora.errors import AgoraError
from agora.logs import KINDS, NAMES, Recording, Tally, log_files, read_logs
from agora.replay.page import page
from agora.replay.report import Report
from agora.replay.run import Pricing, run

REPRESENTATIVE = (
    "claude-sonnet-5",
    "claude-opus-5-5",
    "gpt-5",
    "gpt-4o",
    "deepseek-v4-flash",
)
"""A family for each kind of price: 0.1/1.25, 0.05/1.25, 0.1/1, 0.5/1, 0.02/1."""
_SMALL_BYTES = 32 << 20
"""Logs up to this size are replayed by the representative sheets too, if a page is made."""
_ALONE_BYTES = 1 << 20
"""Logs up to this size are done before a worker process has started."""


@click.command()
@click.argument(
    "paths",
    nargs=-1,
    required=True,
    metavar="PATH...",
    type=click.Path(exists=True, path_type=Path),
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write an HTML page; for logs under 32 MB it compares the prices of other models.",
)
@json_option("all figures")
@click.option(
    "--model",
    metavar="NAME",
    shell_complete=complete_model,
    help="Price every trajectory as this model's, whatever the log says.",
)
@click.option(
    "--prices",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="TOML",
    help="Your own price sheets, searched first; a single one is used for everything.",
)
@click.option(
    "--observations",
    type=click.Choice(("user", "none")),
    help="user: the agent acts by text, and user messages after the task are observations; none:"
    " no user message is one. By default known frames are recognised.",
)
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="Stop after this many trajectories."
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of processes.  [default: one per core]",
)
def replay(
    paths: tuple[Path, ...],
    html: Path | None,
    json_out: str | None,
    model: str | None,
    prices: Path | None,
    observations: Observations | None,
    limit: int | None,
    workers: int | None,
) -> None:
    """Estimate from your own logs what AGORA would have saved.

    PATH is a log file or a folder of them: sessions of Claude Code, Codex and
    mini-SWE-agent; requests as JSON Lines (OpenAI, Anthropic, Gemini, Bedrock);
    OpenTelemetry spans; logs of LiteLLM. Every call is billed at the provider's
    prices, with its prefix cache simulated. Nothing is sent anywhere.
    """
    size = sum(_size(path) for path in paths)
    pricing = _pricing(model, prices, compare=html is not None and size <= _SMALL_BYTES)
    if workers is None:
        workers = 1 if size <= _ALONE_BYTES else _cores()
    tally = Tally()
    report = Report(pricing, names=_names(paths))
    recordings = islice(_with_overrides(read_logs(paths, tally), model, observations), limit)
    try:
        with _progress() as progress:
            bar = progress.add_task("replaying", total=size, done=0)
            for outcome in run(recordings, pricing, workers=workers):
                report.add(outcome)
                progress.update(bar, completed=tally.bytes_read, done=report.trajectories)
    except KeyboardInterrupt:
        raise click.Abort from None
    except BrokenProcessPool as error:
        raise click.ClickException(
            "a worker process was killed, perhaps because memory ran out; try --workers 1"
        ) from error
    value = report.value(tally, [path.name or str(path) for path in paths])
    taken = write_json(json_out, value)
    if html is not None:
        html.write_text(page(value), encoding="utf-8")
    if not tally.files:
        raise click.ClickException(_nothing(paths))
    from agora.cli.bill import show

    show(value, to_stderr=taken)
    if html is not None:
        click.echo(f"The page: {html}", err=taken)
    if not report.trajectories:
        raise click.exceptions.Exit(1)


def _progress() -> Any:
    """Return a progress bar on standard error, shown only on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[done]:,} trajectories"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _nothing(paths: tuple[Path, ...]) -> str:
    """Return the error for folders without a log: the kinds of log, and their usual folders."""
    return (
        f"nothing to replay in {' or '.join(map(str, paths))}: no file there is named like a log. "
        f"It reads {', '.join(NAMES)}, also compressed (.gz, .xz). "
        f"Kinds of log: {', '.join(KINDS)}. "
        "Claude Code keeps its sessions in ~/.claude/projects, Codex in ~/.codex/sessions."
    )


def _names(paths: tuple[Path, ...]) -> dict[str, str]:
    """Return the name of each path before `#4`, or no name if there is only one."""
    if len(paths) == 1:
        return {}
    names = [path.name for path in paths]
    return {str(p): p.name if names.count(p.name) == 1 else str(p) for p in paths}


def _with_overrides(
    recordings: Iterator[Recording], model: str | None, observations: Observations | None
) -> Iterator[Recording]:
    """Yield the recordings with the caller's settings in place of the log's."""
    known: dict[str, Any] = {"model": model, "observations": observations}
    changes = {name: value for name, value in known.items() if value is not None}
    return (replace(recording, **changes) for recording in recordings) if changes else recordings


def _pricing(model: str | None, prices: Path | None, *, compare: bool) -> Pricing:
    known: dict[str, PriceSheet] = {}
    if prices is not None:
        try:
            known = load_sheets(prices.read_text(encoding="utf-8"))
        except (AgoraError, OSError, UnicodeDecodeError) as error:
            raise click.ClickException(f"{prices}: {error}") from error
    sheets = {**shipped_sheets(), **known}
    if model is not None and sheet_for(model, known).name == UNKNOWN:
        near = difflib.get_close_matches(model, sheets, n=5, cutoff=0.4) or sorted(sheets)
        raise click.BadParameter(
            f"there is no price sheet for {model!r}; the closest are {', '.join(near)}. "
            "Write your own and pass it with --prices.",
            param_hint="--model",
        )
    fixed = next(iter(known.values())) if len(known) == 1 and model is None else None
    others = tuple(sheets[name] for name in REPRESENTATIVE if name in sheets) if compare else ()
    return Pricing(fixed=fixed, others=others, known=known)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _size(path: Path) -> int:
    total = 0
    for file in log_files(path):
        try:
            total += file.stat().st_size
        except OSError:
            continue
    return total

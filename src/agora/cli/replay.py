"""The `agora replay` command."""

import difflib
import os
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click

from agora.cli.figures import json_option, write_json
from agora.cli.options import (
    ceiling_option,
    complete_model,
    min_tokens_option,
    scorer_option,
    tool_options,
)
from agora.core.prices import UNKNOWN, PriceSheet, load_sheets, sheet_for, shipped_sheets
from agora.core.reading.cutting import printable
from agora.core.request import Observations
from agora.core.schedule import CEILING, MIN_TOKENS
from agora.errors import AgoraError
from agora.logs import KINDS, NAMES, Recording, Tally, log_files, read_logs
from agora.replay.page import page
from agora.replay.report import Report
from agora.replay.run import Pricing, run

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

REPRESENTATIVE = (
    "claude-sonnet-5",
    "claude-opus-5-5",
    "gpt-5",
    "gpt-4o",
    "deepseek-v4-flash",
    "self-hosted",
)
"""A family for each kind of price: 0.1/1.25, 0.05/1.25, 0.1/1, 0.5/1, 0.02/1, no cache."""
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
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write an HTML page.")
@json_option("all figures")
@click.option(
    "--sheet",
    metavar="NAME",
    shell_complete=complete_model,
    help="Use one price sheet for everything, named by family or model.",
)
@click.option(
    "--prices",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="TOML",
    help="Your own price sheets, searched first; a single one is used for everything.",
)
@click.option(
    "--sheets",
    "which",
    type=click.Choice(("own", "all")),
    help="own: only each model's own prices; all: other families' too, for comparison. The "
    "default is all for an HTML page of logs under 32 MB.",
)
@scorer_option()
@min_tokens_option()
@ceiling_option()
@tool_options
@click.option(
    "--log-kind", type=click.Choice(tuple(KINDS)), help="The kind of log; detected by default."
)
@click.option(
    "--model",
    metavar="NAME",
    shell_complete=complete_model,
    help="Treat every trajectory as this model's, whatever the log says.",
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
    sheet: str | None,
    prices: Path | None,
    which: str | None,
    scorer: str,
    min_tokens: int | None,
    ceiling: float | None,
    tools: Mapping[str, tuple[str, ...]],
    log_kind: str | None,
    model: str | None,
    observations: Observations | None,
    limit: int | None,
    workers: int | None,
) -> None:
    """Show what AGORA would have elided and saved on your own logs.

    PATH is a log file or a folder of them: requests as JSON lines or arrays
    (OpenAI, Anthropic, Gemini, Bedrock); sessions of Claude Code, Codex, Gemini CLI,
    opencode, OpenHands, mini-swe-agent and SWE-agent; OpenTelemetry spans; logs
    and exports of LiteLLM, LangSmith, Langfuse and Inspect AI. Every call is
    billed at the provider's prices, with its prefix cache simulated. Nothing is
    sent anywhere.
    """
    size = sum(_size(path) for path in paths)
    if which is None:
        which = "all" if html and size <= _SMALL_BYTES and sheet is None else "own"
    pricing = _pricing(sheet, prices, compare=which == "all")
    if workers is None:
        workers = 1 if size <= _ALONE_BYTES else _cores()
    tally = Tally()
    least = MIN_TOKENS if min_tokens is None else min_tokens
    report = Report(pricing, min_tokens=least, names=_names(paths))
    with ExitStack() as stack:
        bar = stack.enter_context(_Bar.on_stderr(size))
        recordings = _with_overrides(read_logs(paths, tally, kind=log_kind), model, observations)
        read = _Watched(recordings, tally)
        outcomes = run(
            islice(read, limit),
            pricing,
            workers=workers,
            scorer=scorer,
            min_tokens=least,
            ceiling=CEILING if ceiling is None else ceiling,
            tools=tools,
        )
        try:
            for outcome in outcomes:
                report.add(outcome)
                bar.move(read.bytes_of_next(), report.trajectories)
        except KeyboardInterrupt:
            raise click.Abort from None
    value = report.value(tally, [path.name or str(path) for path in paths])
    taken = write_json(json_out, value)
    if html is not None:
        html.write_text(page(value), encoding="utf-8")
    if not tally.files:
        raise click.ClickException(_nothing(paths))
    _print(value, to_stderr=taken)
    if html is not None:
        click.echo(f"The page: {html}", err=taken)
    if not report.trajectories:
        raise click.exceptions.Exit(1)


def _nothing(paths: tuple[Path, ...]) -> str:
    """Return what is said of folders without a log: what would be read, and where logs are."""
    where = " or ".join(map(str, paths))
    return (
        f"nothing to replay in {where}: no file there is named like a log. "
        f"It reads {', '.join(NAMES)}, also compressed (.gz, .xz). "
        f"Kinds of log: {', '.join(KINDS)}. "
        "Claude Code keeps its sessions in ~/.claude/projects, Codex in ~/.codex/sessions."
    )


def _names(paths: tuple[Path, ...]) -> dict[str, str]:
    """Return what each path is called before `#4`: nothing if it is the only one."""
    if len(paths) == 1:
        return {}
    names = [path.name for path in paths]
    return {str(p): p.name if names.count(p.name) == 1 else str(p) for p in paths}


def _with_overrides(
    recordings: Iterator[Recording], model: str | None, observations: Observations | None
) -> Iterator[Recording]:
    """Yield the recordings with what the caller knows better than the log."""
    known: dict[str, Any] = {"model": model, "observations": observations}
    changes = {name: value for name, value in known.items() if value is not None}
    return (replace(recording, **changes) for recording in recordings) if changes else recordings


def _print(value: dict[str, Any], *, to_stderr: bool) -> None:
    from rich.console import Console
    from rich.text import Text

    from agora.cli.bill import lines

    console = Console(stderr=to_stderr, highlight=False)
    plain = not console.is_terminal or bool(os.environ.get("NO_COLOR"))
    for line in lines(value):
        if plain:
            click.echo(printable(line.text).rstrip(), err=to_stderr)
        else:
            console.print(Text(printable(line.text), style=line.style), soft_wrap=True)


def _pricing(sheet: str | None, prices: Path | None, *, compare: bool) -> Pricing:
    known: dict[str, PriceSheet] = {}
    if prices is not None:
        try:
            known = load_sheets(prices.read_text(encoding="utf-8"))
        except (AgoraError, OSError, UnicodeDecodeError) as error:
            raise click.ClickException(f"{prices}: {error}") from error
    fixed = None
    if sheet is not None:
        fixed = _sheet(sheet, known)
    elif len(known) == 1:
        [fixed] = known.values()
    shipped = shipped_sheets()
    names = [name for name in REPRESENTATIVE if name in known or name in shipped]
    others = tuple(known.get(name) or shipped[name] for name in names) if compare else ()
    return Pricing(fixed=fixed, others=others, known=known)


def _sheet(name: str, known: dict[str, PriceSheet]) -> PriceSheet:
    sheets = {**shipped_sheets(), **known}
    if name in sheets:
        return sheets[name]
    found = sheet_for(name, known)
    if found.name != UNKNOWN:
        return found
    near = difflib.get_close_matches(name, sheets, n=5, cutoff=0.4) or sorted(sheets)
    raise click.BadParameter(
        f"there is no price sheet {name!r}; the closest are {', '.join(near)}. "
        "Write your own and pass it with --prices.",
        param_hint="--sheet",
    )


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


class _Watched:
    """Recordings, with how far the files were read when each of them came out."""

    def __init__(self, recordings: Iterator[Recording], tally: Tally) -> None:
        self._recordings = recordings
        self._tally = tally
        self._bytes: deque[int] = deque()

    def __iter__(self) -> Iterator[Recording]:
        for recording in self._recordings:
            self._bytes.append(self._tally.bytes_read)
            yield recording

    def bytes_of_next(self) -> int:
        """Return the bytes read up to the recording whose outcome comes next in order."""
        return self._bytes.popleft()


@dataclass(slots=True)
class _Bar:
    """A progress bar by bytes, where there is a terminal to show it."""

    progress: "Progress | None" = None
    task: "TaskID | None" = None

    @classmethod
    def on_stderr(cls, size: int) -> "_Bar":
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        console = Console(stderr=True)
        if not console.is_terminal:
            return cls()
        progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TextColumn("{task.fields[done]:,} trajectories"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        return cls(progress, progress.add_task("replaying", total=size, done=0))

    def __enter__(self) -> Self:
        if self.progress is not None:
            self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.progress is not None:
            self.progress.stop()

    def move(self, to: int, done: int) -> None:
        """Show how many bytes and trajectories are done.

        A log of calls gives its trajectories when all of it is read, so the bytes may be
        done long before the work is.
        """
        if self.progress is None or self.task is None:
            return
        size = self.progress.tasks[0].total
        if size is not None and to >= size:
            self.progress.update(self.task, description="all read, replaying the rest")
        self.progress.update(self.task, completed=to, done=done)

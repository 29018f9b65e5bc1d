"""Progress of long commands: a bar, or a line a minute where there is no terminal."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

_PLAIN_SECONDS = 60.0
"""How often progress is printed when there is no terminal to draw a bar on."""


@contextmanager
def progress(
    total: int, done: int, *, what: str = "playing"
) -> Iterator[Callable[[int, str], None]]:
    """Yield a function to call as work completes; draws a bar, or prints a line a minute."""
    from rich.console import Console

    console = Console(file=sys.stderr)
    start = last = time.monotonic()
    now = done
    if not console.is_terminal:

        def report_progress(more: int, note: str) -> None:
            nonlocal now, last
            now += more
            if time.monotonic() - last >= _PLAIN_SECONDS or now == total:
                last = time.monotonic()
                rate = (now - done) / max(1e-9, last - start)
                left = (total - now) / max(1e-9, rate) / 60
                said = f"{now:,} of {total:,}, {60 * rate:.0f}/min, {left:.0f} min left"
                click.echo(f"{said}{f', {note}' if note else ''}", err=True)

        yield report_progress
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
        bar = progress.add_task(what, total=total, completed=done)

        def draw(more: int, note: str) -> None:
            progress.update(bar, advance=more, description=f"{what} {note}".strip())

        yield draw

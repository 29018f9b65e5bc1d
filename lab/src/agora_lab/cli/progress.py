"""Progress of long commands: a bar on a terminal, elsewhere a line now and then."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import click

_FIRST_SECONDS = 10.0
_PLAIN_SECONDS = 60.0
"""The longest time between two lines, if there is no terminal for a bar."""


@contextmanager
def progress(
    total: int, done: int, *, what: str = "playing"
) -> Iterator[Callable[[int, str], None]]:
    """Yield a function to call as work completes: with how much more is done, and a note."""
    from rich.console import Console

    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield _lines(total, done, what)
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
    with Progress(*columns, console=console, transient=True) as bars:
        bar = bars.add_task(what, total=total, completed=done)

        def draw(more: int, note: str) -> None:
            bars.update(bar, advance=more, description=f"{what} {note}".strip())

        yield draw


@contextmanager
def phases() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function to call with the phase that is under way, its work so far and in all."""
    with ExitStack() as stack:
        shown: tuple[str, int, Callable[[int, str], None]] = ("", 0, lambda *_: None)

        def tell(phase: str, done: int, total: int) -> None:
            nonlocal shown
            if phase != shown[0]:
                stack.close()
                shown = (phase, 0, stack.enter_context(progress(total, 0, what=phase)))
            shown[2](done - shown[1], "")
            shown = (phase, done, shown[2])

        yield tell


def _lines(total: int, done: int, what: str) -> Callable[[int, str], None]:
    """Return a function that prints a line after 10 seconds, then at longer and longer intervals.

    The first call and the end are lines too.
    """
    start = time.monotonic()
    now = done
    wait, due = _FIRST_SECONDS, start

    def report(more: int, note: str) -> None:
        nonlocal now, wait, due
        now += more
        moment = time.monotonic()
        if moment < due and not (more and now >= total):
            return
        if moment > start + _FIRST_SECONDS:
            wait = min(2 * wait, _PLAIN_SECONDS)
        due = moment + wait
        line = f"{what} {now:,} of {total:,}, {total - now:,} left"
        if now > done and now < total:
            minutes = (total - now) * (moment - start) / (now - done) / 60
            line += f", about {minutes:,.0f} min" if minutes >= 1 else ", less than a minute"
        click.echo(f"{line}{f', {note}' if note else ''}", err=True)

    return report

"""The `agora lab scoreboard` command."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from agora import AgoraError


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs/scoreboard"),
    show_default=True,
    help="The run's folder: sessions, rows, page.",
)
@click.option("--claude-code", type=click.IntRange(0), default=120, show_default=True)
@click.option("--coding", type=click.IntRange(0), default=200, show_default=True)
@click.option("--tools", type=click.IntRange(0), default=60, show_default=True)
@click.option(
    "--contender",
    "names",
    multiple=True,
    metavar="NAME",
    help="Only this one besides everything: a name, or a file's path. Repeatable.",
)
@click.option(
    "--rows",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Run nothing: table and page from these rows.",
)
@click.option(
    "--store",
    type=click.Path(file_okay=False, path_type=Path),
    help="Also store the rows, compact, in this folder.",
)
@click.option(
    "--page", type=click.Path(dir_okay=False, path_type=Path), help="Where the HTML goes."
)
@click.option(
    "--evidence",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the tables of docs/evidence/scoreboard.md.",
)
@click.option("--ray", "address", metavar="ADDRESS", help="A Ray cluster.")
@click.option(
    "--workers",
    type=click.IntRange(1),
    help="Cores to use on this machine; with one, everything is done in this process.",
)
def scoreboard(
    out: Path,
    rows: Path | None,
    store: Path | None,
    page: Path | None,
    evidence: Path | None,
    **run: Any,
) -> None:
    """Compare every tool that shortens prompts, on the same recorded sessions.

    The numbers of sessions say how many of each data set are drawn. A larger sample holds every
    smaller one. Stop it at any time: the same command runs only what is missing. Tables have the
    sessions that every contender was played on.
    """
    from agora_lab.scoreboard.report import publish
    from agora_lab.scoreboard.run import ROWS

    try:
        if rows is None:
            _play(out, **run)
        publish(rows or out / ROWS, store=store, page=page, evidence=evidence)
    except (AgoraError, ValueError) as error:
        raise click.ClickException(str(error)) from error


def _play(
    out: Path,
    claude_code: int,
    coding: int,
    tools: int,
    names: tuple[str, ...],
    address: str | None,
    workers: int | None,
) -> None:
    from agora_lab import on_ray
    from agora_lab.cli.progress import progress
    from agora_lab.scoreboard import run as grid
    from agora_lab.scoreboard.sessions import CLAUDE_CODE, CODING, TOOLS

    chosen = grid.contenders(sorted({grid.BASE, *names}) if names else ())
    paths = grid.write_sessions(out, {CLAUDE_CODE: claude_code, CODING: coding, TOOLS: tools})
    problems = grid.prepare_environments(chosen)
    for name, problem in problems.items():
        click.echo(f"{name} cannot run here: {problem}", err=True)
    todo = grid.tasks(out, paths, [one for one in chosen if one.name not in problems])
    grid.write_absent(out, chosen, problems)
    total = len(chosen) * len(paths)
    if not todo:
        return
    with ExitStack() as stack:
        advance = stack.enter_context(
            progress(total, total - len(todo), what="contenders on sessions")
        )
        if workers == 1:
            rows = map(grid.play, todo)
        else:
            stack.enter_context(on_ray.connect(address, cpus=workers))
            outcomes = on_ray.run(grid.play, todo, tick=lambda: advance(0, ""))
            rows = map(grid.row_of, outcomes)
        for row in grid.write_rows(out, rows):
            advance(1, row.contender)


COMMANDS: tuple[click.Command, ...] = (scoreboard,)

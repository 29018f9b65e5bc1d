"""Where labels come from: runs of the lab and logs, read as cases."""

import heapq
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agora.adapters import ADAPTERS, Context
from agora.core.tokens import EstimatedTokens
from agora.core.trajectory import Trajectory
from agora.errors import AgoraError
from agora.replay.logs import Recording, Tally, read_logs

if TYPE_CHECKING:
    from agora.lab.labelling.cases import Case, Examples


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What of the sources is wanted, and how it is shown."""

    examples: "Examples" = "as written"
    world: str = ""
    """Whose actions logs hold."""
    any_split: bool = False
    log_kind: str | None = None
    most: int | None = None
    """Trajectories of each source."""
    seed: int = 0


def read_cases(sources: Iterable[Path], wanted: Wanted) -> Iterator["Case"]:
    """Return the cases of runs and logs, of each source at most so many, drawn by their names."""
    for source in sources:
        found = _played(source, wanted) if _is_run(source) else _recorded(source, wanted)
        if wanted.most is None:
            yield from found
            continue

        def drawn(case: "Case") -> bytes:
            return sha256(f"{wanted.seed}:{case.trajectory}".encode("utf-8", "replace")).digest()

        yield from heapq.nsmallest(wanted.most, filter(_has_past, found), key=drawn)


def _has_past(case: "Case") -> bool:
    return bool(case.candidates(len(case.steps), k_recent=2))


def _is_run(source: Path) -> bool:
    return source.is_dir() and (source / "settings.json").is_file()


def _played(source: Path, wanted: Wanted) -> Iterator["Case"]:
    from agora.lab.environments import world
    from agora.lab.episodes.run import read_episodes
    from agora.lab.labelling.cases import from_episode

    told = world(environment_of(source, any_split=wanted.any_split)).examples
    for episode in read_episodes(source):
        case = from_episode(episode, examples=told, order=wanted.examples)
        if case is not None:
            yield case


def environment_of(run: Path, *, any_split: bool) -> str:
    """Return the environment of a run.

    Raises:
        ClickException: it was played on tasks that nothing may be trained on.
    """
    from agora.lab.episodes.run import read_settings

    settings = read_settings(run)
    if settings.get("split") == "test" and not any_split:
        raise click.ClickException(
            f"{run} was played on the test split, which nothing may be trained on; play with "
            "--split train, or say --any-split if no scorer will see the labels"
        )
    return str(settings.get("environment"))


def _recorded(source: Path, wanted: Wanted) -> Iterator["Case"]:
    from agora.lab.labelling.cases import from_trajectory

    tally = Tally()
    failed = 0
    for recording in read_logs([source], tally, kind=wanted.log_kind):
        try:
            whole = parse(recording)
        except (AgoraError, RecursionError):
            failed += 1
            continue
        case = from_trajectory(
            whole,
            name=recording.id,
            source=name_of(source),
            task=task_of(recording, whole),
            system=_beside(recording),
            world=wanted.world,
        )
        if case is not None:
            yield case
    if tally.bad or failed:
        click.echo(f"{source}: {tally.bad + failed:,} records could not be read", err=True)


def _beside(recording: Recording) -> str:
    """Return what stands beside the messages of a recording as text: its system and its tools."""
    parts = []
    if isinstance(recording.system, str):
        parts.append(recording.system)
    elif recording.system:
        parts.append(json.dumps(recording.system, ensure_ascii=False))
    if recording.tools:
        parts.append(f"Tools:\n{json.dumps(recording.tools, ensure_ascii=False)}")
    return "\n\n".join(parts)


def parse(recording: Recording) -> Trajectory:
    """Return the trajectory of a recording, its tokens by our estimate."""
    context = Context(
        counter=EstimatedTokens(),
        system=recording.system,
        tools=recording.tools,
        observations=recording.observations,
    )
    return ADAPTERS[recording.format].parse(recording.messages, context).trajectory


def task_of(recording: Recording, trajectory: Trajectory) -> str:
    """Return the log's name for the task, or the task's own words where it has none."""
    return recording.task or trajectory.task.strip()[:200] or recording.id


def name_of(path: Path) -> str:
    """Return what a source is called when nobody says."""
    return path.name if path.is_dir() else path.name.partition(".")[0]


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[], None]]:
    """Show how far a command is, on a terminal; the function given is called after each part."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Left

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Left())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as shown:
        bar = shown.add_task(what, total=total or None)
        yield lambda: shown.advance(bar)

"""Where labels come from: runs of the lab and logs, read as cases."""

import heapq
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agora.core.trajectory import Trajectory
from agora.errors import AgoraError
from agora.formats import parse
from agora.logs import Recording, Tally
from agora_lab.recorded import KINDS, read_logs

if TYPE_CHECKING:
    from agora_lab.label.cases import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which part of the sources to use."""

    world: str = ""
    """The environment whose actions the logs hold."""
    any_split: bool = False
    log_kind: str | None = None
    index: int | None = None
    """Which trajectory of each log; all of them if none is named."""
    most: int | None = None
    """Most trajectories per source."""
    seed: int = 0


def read_cases(sources: Iterable[Path], wanted: Wanted) -> Iterator["Case"]:
    """Return the cases of runs and logs, sampled by name up to the limit per source."""
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
    from agora_lab.envs import world
    from agora_lab.episodes import read_episodes, read_settings
    from agora_lab.label.cases import from_episode

    experiment = read_settings(source)["experiment"]
    if experiment["split"] == "test" and not wanted.any_split:
        raise click.ClickException(
            f"{source} was played on the test split, which must not be trained on; play with "
            "--split train, or pass --any-split if no scorer will see the labels"
        )
    examples = {name: world(name).examples for name in experiment["environments"]}
    for episode in read_episodes(source):
        case = from_episode(episode, examples=examples[episode.cell.environment])
        if case is not None:
            yield case


def _recorded(source: Path, wanted: Wanted) -> Iterator["Case"]:
    from agora_lab.label.cases import from_trajectory

    tally = Tally()
    failed = 0
    for recording in recordings_in(source, tally, kind=wanted.log_kind, index=wanted.index):
        try:
            whole = trajectory_of(recording)
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


def recordings_in(
    source: Path, tally: Tally, *, kind: str | None = None, index: int | None = None
) -> Iterator[Recording]:
    """Return the trajectories of a log as `agora replay` reads them, or the one at `index`."""
    found = read_logs([source], tally, kind=kind)
    return found if index is None else islice(found, index, index + 1)


log_kind_option = click.option(
    "--log-kind", type=click.Choice(tuple(KINDS)), help="Log format.  [default: detected]"
)
index_option = click.option(
    "--index",
    type=click.IntRange(0),
    metavar="K",
    help="Only this trajectory of each log; the first is 0.",
)


def _beside(recording: Recording) -> str:
    """Return the system prompt and tools of a recording as text."""
    parts = []
    if isinstance(recording.system, str):
        parts.append(recording.system)
    elif recording.system:
        parts.append(json.dumps(recording.system, ensure_ascii=False))
    if recording.tools:
        parts.append(f"Tools:\n{json.dumps(recording.tools, ensure_ascii=False)}")
    return "\n\n".join(parts)


def trajectory_of(recording: Recording) -> Trajectory:
    """Return the trajectory of a recording, with estimated token counts."""
    return parse(recording.request()).trajectory


def task_of(recording: Recording, trajectory: Trajectory) -> str:
    """Return the log's task name, or the text of the task where it has none."""
    return recording.task or trajectory.task.strip()[:200] or recording.id


def name_of(path: Path) -> str:
    """Return the default name of a source."""
    return path.name if path.is_dir() else path.name.partition(".")[0]

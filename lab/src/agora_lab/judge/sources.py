"""The recorded trajectories that anchors are drawn from, by the name of their source."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from agora.logs import Recording, Tally
from agora_lab.envs.data import data_file
from agora_lab.judge.anchors import Recorded
from agora_lab.judge.schemas import schemas
from agora_lab.recorded import read_logs


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the trajectories of a source are, and what sort of agent made them."""

    name: str
    kind: str
    path: str
    """Below the data folder, or a folder of episodes that was played."""
    group: Callable[[str], str] = str
    """Returns what a task must not be parted from."""
    played: bool = False


def _repository(task: str) -> str:
    """Return the repository of a SWE-bench task.

    >>> _repository("astropy__astropy-12907")
    'astropy__astropy'
    """
    return task.rpartition("-")[0]


SOURCES: Mapping[str, Source] = {
    source.name: source
    for source in (
        Source(name="airline", kind="tools", path="tau-bench/gpt-4o-airline.json"),
        Source(name="retail", kind="tools", path="agentrx/tau_dataset_full.json"),
        Source(
            name="coding",
            kind="coding",
            path="swe-bench-gemini/gemini-3-pro-swe-bench.jsonl.xz",
            group=_repository,
        ),
        Source(name="intercode", kind="shell", path="intercode"),
        Source(name="alfworld", kind="text", path="alfworld", played=True),
        Source(name="scienceworld", kind="text", path="scienceworld", played=True),
    )
}


def recorded(source: Source, *, played: Path | None = None) -> list[Recorded]:
    """Return the trajectories of a source; episodes are looked for in `played`.

    Raises:
        DataError: the data are not there.
    """
    if source.played:
        found = list(_episodes(source, (played or Path()) / source.path))
    else:
        path = data_file(source.path, origin="the recorded trajectories of the data README")
        found = [_of_log(source, one) for one in read_logs([path], Tally())]
    tools = tuple(schemas(one.messages for one in found))
    return [replace(one, tools=tools) for one in found] if tools else found


def _of_log(source: Source, recording: Recording) -> Recorded:
    task = recording.task or recording.id
    # Several files of one data set have tasks of the same numbers.
    apart = f"{recording.id.partition(':')[0]}:{task}" if source.kind == "shell" else task
    return Recorded(
        source=source.name,
        kind=source.kind,
        task=apart,
        group=source.group(apart),
        id=recording.id,
        messages=tuple(recording.messages),
        observations=recording.observations,
    )


def _episodes(source: Source, folder: Path) -> Iterator[Recorded]:
    from agora_lab.episodes import read_episodes

    for episode in read_episodes(folder):
        if episode.cell.method == "none":
            yield Recorded(
                source=source.name,
                kind=source.kind,
                task=episode.task,
                group=source.group(episode.task),
                id=episode.key,
                messages=tuple(episode.conversation(len(episode.moves))),
                observations="user",
            )

"""The recorded trajectories that anchors are drawn from, by the name of their source."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from agora.logs import Recording, Tally
from agora_lab.envs.data import data_file
from agora_lab.judge.anchors import Recorded
from agora_lab.judge.schemas import schemas
from agora_lab.recorded import read_logs


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The place of a source's trajectories, and the kind of their agent."""

    name: str
    kind: str
    path: str
    """Below the data folder."""
    group: Callable[[str], str] = str
    """Returns the unit that a task must stay with."""


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
    )
}


def recorded(source: Source) -> list[Recorded]:
    """Return the trajectories of a source.

    Raises:
        DataError: The data are not there.
    """
    path = data_file(source.path, origin="the recorded trajectories of the data README")
    trajectories = [_of_log(source, log) for log in read_logs([path], Tally())]
    tools = tuple(schemas(trajectory.messages for trajectory in trajectories))
    return [replace(one, tools=tools) for one in trajectories] if tools else trajectories


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

"""An experiment: which agents play which tasks under which methods, and how it is run.

The defaults are the paper's protocol: 30 test tasks an environment, at most 30 steps, the same
tasks in every arm, seed 47. A run can be stopped at any moment; the same settings resume it.
"""

import hashlib
import importlib.metadata
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import agora
import agora_lab
from agora_lab import on_ray
from agora_lab.agents import scripted
from agora_lab.agents.purse import Purse
from agora_lab.envs import NAMES as ENVIRONMENTS
from agora_lab.envs import world
from agora_lab.envs.data import data_folder
from agora_lab.episodes import (
    FAILURES,
    PROMPTS,
    Cell,
    RunWriter,
    read_episodes,
)
from agora_lab.evaluate.audit import refuse_trained_on
from agora_lab.evaluate.method_choice import ExperimentError, MethodChoice
from agora_lab.evaluate.play import SCRIPTED, AgentOptions, EpisodeTask, Played, play_episode
from agora_lab.evaluate.prompts import PromptTask, compare_prompts
from agora_lab.jsonl import read_lines

PAPER_STEPS = 30
SEED = 47
NONE = "none"
_PACKAGES = ("alfworld", "textworld", "scienceworld", "bm25s", "numpy", "scipy", "ray", "openai")
_WAITING_SHARE = 0.25
_MOST_PROMPTS = 12
"""Prompts of an episode that are compared under every method."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """The settings of a comparison."""

    environments: tuple[str, ...]
    backbones: tuple[str, ...] = (SCRIPTED,)
    methods: tuple[str, ...] = (NONE,)
    tasks: int = 30
    split: str = "test"
    steps: int | None = None
    """Most steps of an episode; by default the environment's own limit."""
    seed: int = SEED
    labels: tuple[str, ...] = ()
    """Files of training labels, whose tasks must not be played."""
    scorer: str = ""
    """AGORA's scorer, if its methods name none: a folder that `agora train` wrote, or a name."""
    agent: AgentOptions = field(default_factory=AgentOptions)

    def cells(self) -> Iterator[Cell]:
        """Yield the cells; the method varies fastest."""
        for backbone in self.backbones:
            for environment in self.environments:
                for method in self.methods:
                    yield Cell(
                        environment=environment, backbone=backbone, method=method, seed=self.seed
                    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Progress of a run after one more result."""

    done: int
    total: int
    cell: Cell
    error: str = ""
    skipped: str = ""


def plan(experiment: Experiment, *, evaluates: bool = True) -> dict[str, Any]:
    """Return the settings that a run is started with: tasks, splits, training labels.

    A run that `evaluates` must not play tasks that were trained on; one whose episodes are to be
    labelled may.

    Raises:
        ExperimentError: A method, environment or split does not exist.
        TrainedOnError: One of its tasks was used for training labels.
    """
    targets = {name: MethodChoice.parse(name).target for name in experiment.methods}
    labelled = _labelled_tasks(experiment.labels)
    tasks: dict[str, dict[str, list[str]]] = {}
    training: dict[str, list[str]] = {}
    coverage: dict[str, dict[str, str]] = {}
    for environment in experiment.environments:
        splits = _splits(environment)
        if experiment.split not in splits:
            raise ExperimentError(
                f"{environment} has no split {experiment.split!r}, only {', '.join(splits)}"
            )
        own = {task for source, some in labelled.items() if environment in source for task in some}
        training[environment] = sorted({*splits.get("train", ()), *own})
        for backbone in experiment.backbones:
            every = splits[experiment.split]
            playable = [
                task for task in every if backbone != SCRIPTED or scripted.claims(environment, task)
            ]
            chosen = playable[: experiment.tasks]
            if evaluates:
                refuse_trained_on(environment, chosen, training[environment])
            tasks.setdefault(environment, {})[backbone] = chosen
            coverage.setdefault(environment, {})[backbone] = _coverage(every, playable)
    return {
        "agora": agora.__version__,
        "experiment": {**asdict(experiment), "split": experiment.split},
        "tasks": tasks,
        "training": training,
        "coverage": coverage,
        "targets": targets,
        "data": {name: _data_hash(name) for name in experiment.environments},
    }


class Run:
    """An experiment being played into a folder."""

    def __init__(self, experiment: Experiment, folder: Path, *, evaluates: bool = True) -> None:
        """Plan the run, or the rest of it. Nothing is played until `play` is iterated.

        Raises:
            ExperimentError: It cannot be played.
            TrainedOnError: One of its tasks was used for training labels.
        """
        self.experiment = experiment
        self.folder = folder
        self.settings = plan(experiment, evaluates=evaluates)
        played = {episode.key for episode in read_episodes(folder)}
        compared = {line["key"] for line in read_lines(folder / PROMPTS)}
        self._episodes = [task for task in self._tasks() if task.name not in played]
        self._compare = [
            task for task in self._prompt_tasks() if task.cell.key(task.task) not in compared
        ]
        self.total = sum(1 for _ in self._tasks()) + sum(1 for _ in self._prompt_tasks())
        self.done = self.total - len(self._episodes) - len(self._compare)

    def play(
        self,
        *,
        address: str | None = None,
        cpus: int | None = None,
        max_dollars: float | None = None,
    ) -> Iterator[Step]:
        """Play the rest as Ray tasks, an episode each, and yield the progress.

        Args:
            address: The Ray cluster; by default `RAY_ADDRESS`, or a Ray on this machine.
            cpus: How many cores a Ray on this machine uses.
            max_dollars: The cap on the cost of language models, over all starts of
                the run. On a cluster its file must be on a disk that all nodes share.
        """
        if not self._episodes and not self._compare:
            # Other settings than the run's are refused in any case.
            RunWriter(self.folder, self.settings).close()
            return
        purse = Purse(max_dollars, self.folder / "purse.sqlite") if max_dollars else None
        # Agents with a remote model mostly wait.
        waits = all(name.startswith("openai:") for name in self.experiment.backbones)
        share = _WAITING_SHARE if waits else 1.0
        with (
            RunWriter(self.folder, self.settings) as writer,
            on_ray.connect(address, cpus=cpus),
        ):
            writer.append("origins.jsonl", origin())
            skipped: dict[str, str] = {}
            # Python objects travel to the tasks; a cluster needs no shared folder.
            waiting = (
                replace(task, purse=purse, key=os.environ.get("OPENAI_API_KEY", ""))
                for task in self._episodes
                if _name(task.cell) not in skipped
            )
            for outcome in on_ray.run(play_episode, waiting, cpus=share):
                cell, played = outcome.task.cell, outcome.value
                if played is None:
                    writer.append(FAILURES, {"key": outcome.task.name, "error": outcome.error})
                    yield self._step(cell, error=outcome.error)
                elif played.skipped:
                    if _name(cell) not in skipped:
                        line = {"key": _name(cell), "skipped": played.skipped}
                        writer.append(FAILURES, line)
                    skipped[_name(cell)] = played.skipped
                    yield self._step(cell, skipped=played.skipped)
                else:
                    _add(writer, played)
                    yield self._step(cell)
            whole = {e.key: e for e in read_episodes(self.folder) if e.cell.method == NONE}
            pairs = (
                (task, whole[_reference(task)])
                for task in self._compare
                if _reference(task) in whole and _name(task.cell) not in skipped
            )
            for compared in on_ray.run(compare_prompts, pairs, cpus=share):
                cell = compared.task[0].cell
                if compared.value is not None:
                    writer.append(PROMPTS, compared.value)
                yield self._step(cell, error=compared.error)

    def _step(self, cell: Cell, *, error: str = "", skipped: str = "") -> Step:
        self.done += 1
        return Step(done=self.done, total=self.total, cell=cell, error=error, skipped=skipped)

    def _tasks(self) -> Iterator[EpisodeTask]:
        """Yield every episode; every cell gets its first task before any gets its second."""
        experiment = self.experiment
        for number in range(experiment.tasks):
            for cell in experiment.cells():
                tasks = self.settings["tasks"][cell.environment][cell.backbone]
                if number < len(tasks):
                    yield EpisodeTask(
                        cell=cell,
                        task=tasks[number],
                        steps=experiment.steps or world(cell.environment).most_steps,
                        agent=experiment.agent,
                        scorer=experiment.scorer,
                    )

    def _prompt_tasks(self) -> Iterator[PromptTask]:
        """Yield the comparisons of methods on the prompts of the uncompressed episodes."""
        if NONE not in self.experiment.methods or len(self.experiment.methods) < 2:
            return
        for task in self._tasks():
            if task.cell.method != NONE and not MethodChoice.parse(task.cell.method).asks:
                yield PromptTask(
                    cell=task.cell, task=task.task, most=_MOST_PROMPTS, scorer=task.scorer
                )


def origin() -> dict[str, Any]:
    """Return the code, machine and package versions that episodes are played with now."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "agora": agora.__version__,
        "code": _code_hash(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "packages": versions,
    }


def _add(writer: RunWriter, played: Played) -> None:
    if played.episode is not None and played.timing is not None:
        writer.add(played.episode, played.timing)


def _name(cell: Cell) -> str:
    return cell.key("").rstrip("|")


def _reference(task: PromptTask) -> str:
    return Cell(
        environment=task.cell.environment,
        backbone=task.cell.backbone,
        method=NONE,
        seed=task.cell.seed,
    ).key(task.task)


def _splits(environment: str) -> Mapping[str, Sequence[str]]:
    try:
        return world(environment).splits()
    except ValueError as error:
        raise ExperimentError(str(error)) from error


def _coverage(every: Sequence[str], playable: Sequence[str]) -> str:
    """Return the share of a split's tasks that a backbone can play; empty for all of them."""
    if len(playable) == len(every):
        return ""
    kinds, able = ({task.partition("/")[0] for task in some} for some in (every, playable))
    return f"{len(able)} of {len(kinds)} kinds of tasks, {len(playable):,} of {len(every):,} tasks"


def _labelled_tasks(paths: Sequence[str]) -> dict[str, set[str]]:
    """Return the tasks of label files, by source."""
    from agora_lab.labels import read_labels

    tasks: dict[str, set[str]] = {}
    for path in paths:
        for label in read_labels(Path(path)):
            tasks.setdefault(label.source.lower(), set()).add(label.task)
    return tasks


def _code_hash() -> str:
    """Return a hash of the code of both packages."""
    whole = hashlib.sha256()
    for package in (agora, agora_lab):
        root = Path(package.__file__ or "").parent
        for file in sorted(root.rglob("*.py")):
            whole.update(f"{root.name}/{file.relative_to(root).as_posix()}\n".encode())
            whole.update(file.read_bytes())
    return whole.hexdigest()[:16]


def _data_hash(environment: str) -> str:
    """Return a hash of an environment's data files; empty if it has none."""
    if environment not in ENVIRONMENTS:
        return ""
    folder = data_folder() / environment
    whole = hashlib.sha256()
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    for file in files:
        whole.update(f"{file.relative_to(folder).as_posix()}\n".encode())
        with file.open("rb") as data:
            whole.update(hashlib.file_digest(data, "sha256").digest())
    return whole.hexdigest()[:16] if files else ""

"""Plays the cells of a grid: the plan, the player, and the episodes in a run."""

import contextlib
import hashlib
import importlib
import importlib.metadata
import json
import platform
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import agora
import agora_lab
from agora_lab.agents import Backbone
from agora_lab.agents import scripted as readers
from agora_lab.envs import NAMES as ENVIRONMENTS
from agora_lab.envs import Environment, World, imported, world
from agora_lab.envs.data import data_folder
from agora_lab.episodes.episode import Cell
from agora_lab.episodes.run import Run, begin, read_keys
from agora_lab.evaluate.audit import refuse_trained_on
from agora_lab.evaluate.episode_player import Player
from agora_lab.evaluate.grid import BackboneEntry, Grid, GridError
from agora_lab.evaluate.rows import FAILURES, ORIGINS
from agora_lab.journal import Journal
from agora_lab.methods import Method, MethodSettings, SkipMethod, close, method

UNIT_TASKS = 5
"""Tasks handed out at once: few, so that workers finish at about the same time."""
_FAILURES_IN_A_ROW = 3
_PACKAGES = (
    "alfworld",
    "textworld",
    "scienceworld",
    "bm25s",
    "numpy",
    "scipy",
    "ray",
    "openai",
    "xllamacpp",
    "onnxruntime",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Some tasks of one cell."""

    cell: Cell
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome:
    """The outcome of a task; its episode is in the run."""

    key: str
    reward: float = 0.0
    error: str = ""
    """Why there is no episode."""
    skipped: str = ""
    """Why its method cannot run at all."""


def plan(grid: Grid, *, evaluates: bool = True) -> dict[str, Any]:
    """Return the settings a run of the grid starts with: tasks, trained-on tasks, hashes.

    A run that `evaluates` must not play tasks that were trained on; one whose
    episodes are to be labelled may.

    Raises:
        TrainedOnError: one of its tasks was used for training labels.
        GridError: the split does not exist.
    """
    tasks: dict[str, dict[str, list[str]]] = {}
    training: dict[str, list[str]] = {}
    labelled = _labelled(grid.labels)
    for environment in grid.environments:
        splits = world(environment).splits()
        training[environment] = sorted({*splits.get("train", ()), *_of(environment, labelled)})
        own = tasks.setdefault(environment, {})
        for backbone in grid.backbones:
            if environment in (backbone.environments or grid.environments):
                own[backbone.name] = list(_chosen(grid, environment, backbone, splits))
                if evaluates:
                    refuse_trained_on(environment, own[backbone.name], training[environment])
    return {
        "agora": agora.__version__,
        "grid": grid.value(),
        "tasks": tasks,
        "training": training,
        "data": {name: _data_hash(name) for name in grid.environments},
    }


def units(
    grid: Grid, tasks: Mapping[str, Mapping[str, Sequence[str]]], done: frozenset[str]
) -> Iterator[Unit]:
    """Yield what is left to play, in an order that keeps an unfinished run comparable.

    Every cell gets its first tasks before any cell gets its next ones.
    """
    cells = list(grid.cells())
    most = max((len(own) for by in tasks.values() for own in by.values()), default=0)
    for start in range(0, most, UNIT_TASKS):
        for cell in cells:
            some = tasks[cell.environment][cell.backbone][start : start + UNIT_TASKS]
            left = tuple(task for task in some if cell.key(task) not in done)
            if left:
                yield Unit(cell=cell, tasks=left)


def origin() -> dict[str, Any]:
    """Return the code, machine and package versions that episodes are played with now."""
    return {
        "agora": agora.__version__,
        "commit": _commit(),
        "code": code_hash(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "packages": _versions(_PACKAGES),
    }


def code_hash() -> str:
    """Return a hash of the code of both packages, independent of any repository."""
    whole = hashlib.sha256()
    for package in (agora, agora_lab):
        root = Path(package.__file__ or "").parent
        for file in sorted(root.rglob("*.py")):
            whole.update(f"{root.name}/{file.relative_to(root).as_posix()}\n".encode())
            whole.update(file.read_bytes())
    return whole.hexdigest()[:16]


@dataclass(slots=True)
class GridPlayer:
    """Plays units of a grid and writes their episodes. Not shared between threads.

    Environments, backbones and methods are created when a cell first needs them
    and reused by later ones.
    """

    grid: Grid
    folder: Path
    settings: Mapping[str, Any]
    writer: str
    _run: Run = field(init=False)
    _environments: dict[str, Environment] = field(init=False, default_factory=dict)
    _backbones: dict[tuple[str, str, int], Backbone] = field(init=False, default_factory=dict)
    _methods: dict[tuple[str, int, bool], Method] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._run = Run(self.folder, self.settings, writer=self.writer, own=True)

    def play(self, unit: Unit) -> list[TaskOutcome]:
        """Return the outcomes of the unit's tasks; see `outcomes`."""
        return list(self.outcomes(unit))

    def outcomes(self, unit: Unit) -> Iterator[TaskOutcome]:
        """Yield the outcomes of the unit's tasks, without those already played.

        A failed episode is recorded with the reason and does not stop the others,
        unless several fail in a row.
        """
        in_a_row = 0
        for at, task in enumerate(unit.tasks):
            key = unit.cell.key(task)
            if key in self._run:
                continue
            if in_a_row >= _FAILURES_IN_A_ROW:
                yield TaskOutcome(key=key, error="not tried: the tasks before it failed")
                continue
            try:
                episode, timing = self._player(unit.cell).play(task)
                self._run.add(episode, timing)
            except SkipMethod as reason:
                left = unit.tasks[at:]
                yield from (TaskOutcome(key=unit.cell.key(t), skipped=str(reason)) for t in left)
                return
            except Exception as error:
                in_a_row += 1
                self._fail(unit.cell, key, error)
                yield TaskOutcome(key=key, error=_say(error))
            else:
                in_a_row = 0
                yield TaskOutcome(key=key, reward=episode.reward)

    def close(self) -> None:
        """Release everything that was started."""
        for environment in self._environments.values():
            environment.close()
        for one in self._methods.values():
            close(one)
        self._environments.clear()
        self._methods.clear()
        self._run.close()

    def _player(self, cell: Cell) -> Player:
        chosen = world(cell.environment)
        entry = self.grid.backbone(cell.backbone)
        backbone = self._backbone(cell, entry, chosen)
        if cell.environment not in self._environments:
            self._environments[cell.environment] = chosen.make()
        # A peer runs in its own process: one is shared by all environments.
        key = (cell.method, cell.seed, chosen.calls)
        if key not in self._methods:
            self._methods[key] = self._method(cell, calls=chosen.calls)
        return Player(
            cell=cell,
            world=chosen,
            environment=self._environments[cell.environment],
            backbone=backbone,
            method=self._methods[key],
            most_steps=self.grid.steps,
        )

    def _backbone(self, cell: Cell, entry: BackboneEntry, chosen: World) -> Backbone:
        key = (entry.name, cell.environment, cell.seed)
        if key not in self._backbones:
            self._backbones[key] = make_backbone(entry, cell, chosen)
        return self._backbones[key]

    def _method(self, cell: Cell, *, calls: bool) -> Method:
        chosen = self.grid.method(cell.method)
        keep_ratio = 0.25 if chosen.keep_ratio is None else chosen.keep_ratio
        return method(
            chosen.method,
            MethodSettings(
                keep_ratio=keep_ratio,
                model=chosen.model or None,
                scorer=chosen.scorer or None,
                seed=cell.seed,
                observations="none" if calls else "user",
                options=chosen.options,
            ),
        )

    def _fail(self, cell: Cell, key: str, error: Exception) -> None:
        """Record a failure, and drop the environment: it may be in an undefined state."""
        broken = self._environments.pop(cell.environment, None)
        if broken is not None:
            with contextlib.suppress(Exception):
                broken.close()
        failures = self.folder / FAILURES
        failures.mkdir(exist_ok=True)
        journal = Journal(failures / f"{self.writer}.jsonl")
        journal.add(json.dumps({"key": key, "error": _say(error)}).encode())
        journal.close()


class LocalGridRun:
    """A grid, or one shard of it, played in this process."""

    def __init__(
        self, grid: Grid, folder: Path, *, shard: tuple[int, int] = (0, 1), evaluates: bool = True
    ) -> None:
        """Begin the run, or resume it. Nothing is played until `outcomes` is iterated.

        `shard` is which part of the tasks to play, and out of how many; each part
        writes its own file, so parts can be played at the same time.

        Raises:
            TrainedOnError: it `evaluates`, and one of its tasks was used for training labels.
            RunError: the folder holds a run of another grid.
        """
        self.grid = grid
        self.folder = folder
        self.settings = plan(grid, evaluates=evaluates)
        begin(folder, self.settings)
        index, count = shard
        self._writer = f"{index}-of-{count}"
        own = {
            environment: {backbone: tasks[index::count] for backbone, tasks in by.items()}
            for environment, by in self.settings["tasks"].items()
        }
        self.total = sum(len(unit.tasks) for unit in units(grid, own, frozenset()))
        self.units = list(units(grid, own, frozenset(read_keys(folder))))
        self.done = self.total - sum(len(unit.tasks) for unit in self.units)

    def outcomes(self) -> Iterator[TaskOutcome]:
        """Play what is left and yield the outcomes, task by task."""
        if not self.units:
            return
        write_origin(self.folder)
        player = GridPlayer(self.grid, self.folder, self.settings, self._writer)
        try:
            for unit in self.units:
                yield from player.outcomes(unit)
        finally:
            player.close()


def write_origin(folder: Path) -> None:
    """Record the code that the run continues with."""
    with (folder / ORIGINS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(origin(), sort_keys=True) + "\n")


def make_backbone(entry: BackboneEntry, cell: Cell, chosen: World) -> Backbone:
    """Return the backbone of an entry: a reader, a server's model, or the caller's own."""
    if entry.make:
        made: Backbone = imported(entry.make)(**entry.options)
        return made
    if entry.reads:
        return readers.reader(cell.environment)
    from agora_lab.agents.client import ModelClient, Sampling
    from agora_lab.agents.examples import WithExamples

    asked = ModelClient(
        entry.model or entry.name,
        base_url=entry.url,
        sampling=Sampling(seed=cell.seed, max_tokens=entry.max_tokens),
        concurrency=entry.concurrency,
    )
    return WithExamples(asked, chosen.examples)


def _chosen(
    grid: Grid,
    environment: str,
    backbone: BackboneEntry,
    splits: Mapping[str, Sequence[str]],
) -> Iterator[str]:
    split = backbone.split or grid.split
    if split not in splits:
        raise GridError(
            f"asks for the split {split!r} of {environment}, which has only {list(splits)}"
        )
    claimed = (
        task for task in splits[split] if not backbone.reads or readers.claims(environment, task)
    )
    for _, task in zip(range(backbone.tasks or grid.tasks), claimed, strict=False):
        yield task


def _labelled(paths: Iterable[str]) -> dict[str, set[str]]:
    """Return the tasks behind label files, by source."""
    found: dict[str, set[str]] = {}
    for path in paths:
        from agora_lab.labels import read_labels

        for label in read_labels(Path(path)):
            found.setdefault(label.source.lower(), set()).add(label.task)
    return found


def _of(environment: str, labelled: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield the labelled tasks whose source names this environment."""
    for source, tasks in labelled.items():
        if environment in source:
            yield from tasks


def _data_hash(environment: str) -> str:
    """Return a hash of the names and bytes of an environment's data files; empty for none."""
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


def _commit() -> str:
    """Return the commit of the code, marked if there are uncommitted changes."""
    here = Path(agora_lab.__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--abbrev=12", "--dirty"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.stdout.strip()


def _versions(names: Iterable[str]) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _say(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]

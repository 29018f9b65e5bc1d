"""Where episodes of a grid are played: holds environments, backbones and methods between them."""

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
from agora.lab.backbones import Backbone, readers
from agora.lab.environments import NAMES as ENVIRONMENTS
from agora.lab.environments import Environment, World
from agora.lab.environments import world as known_world
from agora.lab.environments.data import data_folder
from agora.lab.episodes.episode import Cell
from agora.lab.episodes.run import Run
from agora.lab.evaluation.audit import refuse_trained_on
from agora.lab.evaluation.grid import BackboneEntry, Grid, GridError
from agora.lab.evaluation.play import Player
from agora.lab.evaluation.rows import FAILURES
from agora.lab.methods import Method, Settings, SkipMethod, close, method

UNIT_TASKS = 5
"""Tasks that are handed out at once: few, so that an end is not waited for long."""
_FAILURES_IN_A_ROW = 3
_PACKAGES = (
    "alfworld",
    "textworld",
    "scienceworld",
    "bm25s",
    "numpy",
    "scipy",
    "ray",
    "httpx2",
    "xllamacpp",
    "onnxruntime",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Some tasks of one cell."""

    cell: Cell
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a task; its episode stands in the run."""

    key: str
    reward: float = 0.0
    error: str = ""
    """Why there is no episode."""
    skipped: str = ""
    """Why its method cannot be run at all."""


def plan(grid: Grid) -> dict[str, Any]:
    """Return what a run of the grid is begun with: its tasks, what was trained on, hashes.

    Raises:
        TrainedOnError: a task of it stands behind training labels.
        GridError: there is no such split.
    """
    tasks: dict[str, dict[str, list[str]]] = {}
    training: dict[str, list[str]] = {}
    labelled = _labelled(grid.labels)
    for environment in grid.environments:
        splits = world_named(environment).splits()
        training[environment] = sorted({*splits.get("train", ()), *_of(environment, labelled)})
        own = tasks.setdefault(environment, {})
        for backbone in grid.backbones:
            if environment in (backbone.environments or grid.environments):
                own[backbone.name] = list(_chosen(grid, environment, backbone, splits))
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
    """Yield what is still to be played, so that whatever has been played can be compared.

    The first tasks of all cells come before the second ones of any.
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
    """Return by which code, on what and with which packages episodes are played now."""
    return {
        "agora": agora.__version__,
        "commit": _commit(),
        "code": code_hash(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "packages": _versions(_PACKAGES),
    }


def code_hash() -> str:
    """Return a hash of the package's own code, whatever a repository says of it."""
    whole = hashlib.sha256()
    root = Path(agora.__file__).parent
    for file in sorted(root.rglob("*.py")):
        whole.update(f"{file.relative_to(root).as_posix()}\n".encode())
        whole.update(file.read_bytes())
    return whole.hexdigest()[:16]


def world_named(name: str) -> World:
    """Return a world by its name, or the one at `package.module:WORLD`.

    Raises:
        ValueError: there is none.
    """
    if ":" not in name:
        return known_world(name)
    found = _imported(name)
    if not isinstance(found, World):
        raise ValueError(f"{name!r} is no World")  # noqa: TRY004 - a name that says nothing
    return found


@dataclass(slots=True)
class Workshop:
    """Plays units of a grid and writes their episodes. Not shared between threads."""

    grid: Grid
    folder: Path
    settings: Mapping[str, Any]
    writer: str
    _run: Run = field(init=False)
    _environments: dict[str, Environment] = field(init=False, default_factory=dict)
    _backbones: dict[tuple[str, str, int], Backbone] = field(init=False, default_factory=dict)
    _methods: dict[tuple[str, int, str], Method] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._run = Run(self.folder, self.settings, writer=self.writer, own=True)

    def play(self, unit: Unit) -> list[Outcome]:
        """Return what became of the unit's tasks; an episode that was there already is played on.

        An episode that fails is put down with the reason and does not stop the
        others, unless several fail in a row.
        """
        outcomes: list[Outcome] = []
        in_a_row = 0
        for task in unit.tasks:
            key = unit.cell.key(task)
            if key in self._run:
                continue
            if in_a_row >= _FAILURES_IN_A_ROW:
                outcomes.append(Outcome(key=key, error="given up: those before it failed"))
                continue
            try:
                episode, timing = self._player(unit.cell).play(task)
                self._run.add(episode, timing)
            except SkipMethod as reason:
                return [
                    Outcome(key=unit.cell.key(task), skipped=str(reason)) for task in unit.tasks
                ]
            except Exception as error:
                in_a_row += 1
                self._fail(unit.cell, key, error)
                outcomes.append(Outcome(key=key, error=_say(error)))
            else:
                in_a_row = 0
                outcomes.append(Outcome(key=key, reward=episode.reward))
        return outcomes

    def close(self) -> None:
        """Give back what was started."""
        for environment in self._environments.values():
            environment.close()
        for one in self._methods.values():
            close(one)
        self._environments.clear()
        self._methods.clear()
        self._run.close()

    def _player(self, cell: Cell) -> Player:
        world = world_named(cell.environment)
        entry = self.grid.backbone(cell.backbone)
        backbone = self._backbone(cell, entry, world)
        if cell.environment not in self._environments:
            self._environments[cell.environment] = world.make()
        # A peer's method is a process of its own: one for all environments that a reader plays.
        asked = "" if entry.reads else f"{entry.name}|{cell.environment}"
        key = (cell.method, cell.seed, asked)
        if key not in self._methods:
            self._methods[key] = self._method(cell, entry, backbone)
        return Player(
            cell=cell,
            world=world,
            environment=self._environments[cell.environment],
            backbone=backbone,
            method=self._methods[key],
            most_steps=self.grid.steps,
            held=entry.grammar,
        )

    def _backbone(self, cell: Cell, entry: BackboneEntry, world: World) -> Backbone:
        key = (entry.name, cell.environment, cell.seed)
        if key not in self._backbones:
            self._backbones[key] = make_backbone(entry, cell, world, self.folder)
        return self._backbones[key]

    def _method(self, cell: Cell, entry: BackboneEntry, backbone: Backbone) -> Method:
        chosen = self.grid.method(cell.method)
        keep_ratio = 0.25 if chosen.keep_ratio is None else chosen.keep_ratio
        return method(
            chosen.method,
            Settings(
                keep_ratio=keep_ratio,
                model=chosen.model or None,
                backbone=None if entry.reads else backbone,
                scorer=chosen.scorer or None,
                seed=cell.seed,
                options=chosen.options,
            ),
        )

    def _fail(self, cell: Cell, key: str, error: Exception) -> None:
        """Put a failure down, and start the environment anew: it may have been in the middle."""
        broken = self._environments.pop(cell.environment, None)
        if broken is not None:
            with contextlib.suppress(Exception):
                broken.close()
        failures = self.folder / FAILURES
        failures.mkdir(exist_ok=True)
        with (failures / f"{self.writer}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "error": _say(error)}) + "\n")


def make_backbone(entry: BackboneEntry, cell: Cell, world: World, folder: Path) -> Backbone:
    """Return the backbone of an entry: a reader, a server's, or one of the caller's own."""
    if entry.make:
        made: Backbone = _imported(entry.make)()
        return made
    if entry.reads:
        return readers.reader(cell.environment)
    from agora.lab.backbones.answers import Answers
    from agora.lab.backbones.openai_compatible import OpenAICompatible, Sampling
    from agora.lab.backbones.prompts import WithExamples

    asked = OpenAICompatible(
        entry.url,
        entry.model or entry.name,
        sampling=Sampling(seed=cell.seed, max_tokens=entry.max_tokens),
        answers=Answers(folder / "answers"),
        concurrency=entry.concurrency,
    )
    return WithExamples(asked, world.examples)


def _chosen(
    grid: Grid,
    environment: str,
    backbone: BackboneEntry,
    splits: Mapping[str, Sequence[str]],
) -> Iterator[str]:
    split = backbone.split or grid.split
    if split not in splits:
        raise GridError(f"wants the split {split!r} of {environment}, which has {list(splits)}")
    claimed = (
        task for task in splits[split] if not backbone.reads or readers.claims(environment, task)
    )
    for _, task in zip(range(backbone.tasks or grid.tasks), claimed, strict=False):
        yield task


def _labelled(paths: Iterable[str]) -> dict[str, set[str]]:
    """Return the tasks behind label files, by the source that the labels name."""
    found: dict[str, set[str]] = {}
    for path in paths:
        from agora.lab.labels import read_labels

        for label in read_labels(Path(path)):
            found.setdefault(label.source.lower(), set()).add(label.task)
    return found


def _of(environment: str, labelled: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield the labelled tasks whose source is this environment, by its name."""
    for source, tasks in labelled.items():
        if environment in source:
            yield from tasks


def _data_hash(environment: str) -> str:
    """Return a hash of an environment's data files, names and bytes; empty where it has none."""
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
    """Return the commit that the code is at, with a mark if it was changed since."""
    here = Path(agora.__file__).parent
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


def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{name!r} is not there: {error}; say package.module:NAME") from error


def _say(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]

"""A grid played by Ray actors, each with its own environments, backbones and file."""

import json
import logging
from collections import deque
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import ray

from agora_lab.episodes.run import begin, read_keys
from agora_lab.evaluate.grid import Grid
from agora_lab.evaluate.grid_player import (
    GridPlayer,
    TaskOutcome,
    Unit,
    plan,
    units,
    write_origin,
)
from agora_lab.evaluate.rows import SKIPPED

_STORE_BYTES = 200 << 20
"""Ray's shared memory: only outcomes pass through it."""
_TRIES = 2
"""How often a unit that kills its actor is handed out."""


class RayGridRun:
    """A grid being played: how much there is to do, and outcomes as they arrive."""

    def __init__(self, grid: Grid, folder: Path, *, workers: int = 2) -> None:
        """Begin the run, or resume it. Nothing is played until `outcomes` is iterated.

        Raises:
            TrainedOnError: one of its tasks was used for training labels.
            RunError: the folder holds a run of another grid.
        """
        self.grid = grid
        self.folder = folder
        self.workers = workers
        self.settings = plan(grid)
        begin(folder, self.settings)
        self.done = frozenset(read_keys(folder))
        self.units = deque(units(grid, self.settings["tasks"], self.done))
        self.total = len(self.done) + sum(len(unit.tasks) for unit in self.units)

    def outcomes(self) -> Generator[TaskOutcome, None, None]:
        """Play what is left and yield the outcomes as they complete."""
        if not self.units:
            return
        write_origin(self.folder)
        skipped: dict[str, str] = {}
        started = not ray.is_initialized()
        if started:
            ray.init(
                num_cpus=max(self.workers, 1),
                include_dashboard=False,
                logging_level=logging.ERROR,
                log_to_driver=False,
                object_store_memory=_STORE_BYTES,
            )
        try:
            for outcome in _spread(self):
                if outcome.skipped:
                    cell = outcome.key.rsplit("|", 1)[0]
                    if cell not in skipped:
                        skipped[cell] = outcome.skipped
                        _write_skipped(self.folder, skipped)
                yield outcome
        finally:
            if started:
                ray.shutdown()


class _Actor:
    """A grid player in its own process."""

    def __init__(self, grid: Grid, folder: str, settings: dict[str, Any], writer: str) -> None:
        self._player = GridPlayer(grid, Path(folder), settings, writer)

    def play(self, unit: Unit) -> list[TaskOutcome]:
        return self._player.play(unit)

    def close(self) -> None:
        self._player.close()


def _spread(playing: RayGridRun) -> Iterator[TaskOutcome]:
    waiting: deque[tuple[Unit, int]] = deque((unit, 1) for unit in playing.units)
    actors = [_start(playing, n) for n in range(min(playing.workers, len(waiting)))]
    busy: dict[Any, tuple[int, Unit, int]] = {}
    idle = deque(range(len(actors)))
    try:
        while waiting or busy:
            while waiting and idle:
                worker = idle.popleft()
                unit, tries = waiting.popleft()
                busy[actors[worker].play.remote(unit)] = (worker, unit, tries)
            ready, _ = ray.wait(list(busy), num_returns=1)
            worker, unit, tries = busy.pop(ready[0])
            try:
                yield from ray.get(ready[0])
            except ray.exceptions.RayActorError as error:
                actors[worker] = _start(playing, worker)
                if tries < _TRIES:
                    waiting.append((unit, tries + 1))
                else:
                    said = f"its process died: {str(error).splitlines()[0]}"
                    yield from (TaskOutcome(key=unit.cell.key(t), error=said) for t in unit.tasks)
            idle.append(worker)
    finally:
        ray.wait([actor.close.remote() for actor in actors], num_returns=len(actors), timeout=20)
        for actor in actors:
            ray.kill(actor)


def _start(playing: RayGridRun, number: int) -> Any:
    # One CPU each; Ray also passes that on to libraries that would start threads.
    actor = ray.remote(_Actor).options(num_cpus=1)
    folder = str(playing.folder.resolve())
    return actor.remote(playing.grid, folder, playing.settings, f"{number:03}")


def _write_skipped(folder: Path, skipped: dict[str, str]) -> None:
    text = json.dumps(skipped, indent=1, sort_keys=True) + "\n"
    (folder / SKIPPED).write_text(text, encoding="utf-8")

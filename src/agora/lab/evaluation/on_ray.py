"""A grid played by Ray actors, each with environments, backbones and a file of its own."""

import json
import logging
from collections import deque
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from agora.errors import MissingExtraError
from agora.lab.episodes.run import begin, read_keys
from agora.lab.evaluation.grid import Grid
from agora.lab.evaluation.rows import ORIGINS, SKIPPED
from agora.lab.evaluation.workshop import Outcome, Unit, Workshop, origin, plan, units

try:
    import ray
except ImportError as error:
    raise MissingExtraError(__name__, "lab") from error

_STORE_BYTES = 200 << 20
"""What Ray may keep in shared memory: only outcomes pass through it."""
_TRIES = 2
"""How often a unit is handed out whose actor dies of it."""


class Playing:
    """A grid on its way: how much there is to do, and outcomes as they come."""

    def __init__(self, grid: Grid, folder: Path, *, workers: int = 2) -> None:
        """Begin the run, or go on with it. Nothing is played before the outcomes are taken.

        Raises:
            TrainedOnError: a task of it stands behind training labels.
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

    def outcomes(self) -> Generator[Outcome, None, None]:
        """Play what is left and yield what became of it, in the order it is done."""
        if not self.units:
            return
        with (self.folder / ORIGINS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(origin(), sort_keys=True) + "\n")
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
    """A workshop in a process of its own."""

    def __init__(self, grid: Grid, folder: str, settings: dict[str, Any], writer: str) -> None:
        self._workshop = Workshop(grid, Path(folder), settings, writer)

    def play(self, unit: Unit) -> list[Outcome]:
        return self._workshop.play(unit)

    def close(self) -> None:
        self._workshop.close()


def _spread(playing: Playing) -> Iterator[Outcome]:
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
                    yield from (Outcome(key=unit.cell.key(t), error=said) for t in unit.tasks)
            idle.append(worker)
    finally:
        ray.wait([actor.close.remote() for actor in actors], num_returns=len(actors), timeout=20)
        for actor in actors:
            ray.kill(actor)


def _start(playing: Playing, number: int) -> Any:
    # One processor each, which Ray also tells the libraries that would start threads.
    actor = ray.remote(_Actor).options(num_cpus=1)
    folder = str(playing.folder.resolve())
    return actor.remote(playing.grid, folder, playing.settings, f"{number:03}")


def _write_skipped(folder: Path, skipped: dict[str, str]) -> None:
    text = json.dumps(skipped, indent=1, sort_keys=True) + "\n"
    (folder / SKIPPED).write_text(text, encoding="utf-8")

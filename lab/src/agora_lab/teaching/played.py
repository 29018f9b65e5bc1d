"""The episodes of a run, each with the cell it was played in."""

from collections.abc import Iterator
from pathlib import Path

from agora_lab.episodes.episode import Episode
from agora_lab.episodes.played_cells import PlayedCell, cells_of
from agora_lab.episodes.run import read_episodes


def played(run: Path) -> Iterator[tuple[Episode, PlayedCell]]:
    """Yield them in the order of the run.

    Raises:
        RunError: there is no run in the folder, or it is from an earlier version.
    """
    cells = {(one.environment, one.backbone, one.method): one for one in cells_of(run)}
    for episode in read_episodes(run):
        cell = episode.cell
        yield episode, cells[(cell.environment, cell.backbone, cell.method)]

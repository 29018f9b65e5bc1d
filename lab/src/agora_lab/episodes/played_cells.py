"""The cells that were played in a run, from its settings."""

from dataclasses import dataclass
from pathlib import Path

from agora_lab.episodes.run import RunError, read_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedCell:
    """A cell of a run, by the names its episodes carry, and its tasks."""

    environment: str
    backbone: str
    method: str
    """The method's name in the cell; in a sweep, not the method's own."""
    reads: bool
    """Whether the environment's reader played it."""
    shortens: bool
    """Whether its method may change prompts."""
    split: str
    tasks: tuple[str, ...]


def cells_of(run: Path) -> tuple[PlayedCell, ...]:
    """Return the cells of a run, in the order of its grid.

    Raises:
        RunError: there is no run in the folder, or it is from an earlier version.
    """
    settings = read_settings(run)
    try:
        grid, tasks = settings["grid"], settings["tasks"]
        return tuple(
            PlayedCell(
                environment=environment,
                backbone=backbone["name"],
                method=method["name"],
                reads=not backbone["url"] and not backbone["make"],
                shortens=method["method"] != "none",
                split=backbone["split"] or grid["split"],
                tasks=tuple(tasks[environment][backbone["name"]]),
            )
            for backbone in grid["backbones"]
            for environment in backbone["environments"] or grid["environments"]
            for method in grid["methods"]
            if not backbone["methods"] or method["name"] in backbone["methods"]
        )
    except (KeyError, TypeError) as error:
        problem = f"does not record what was played (no {error}); play it again"
        raise RunError(str(run), problem) from error

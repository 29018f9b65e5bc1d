"""A process that holds the output of a labelling run until it is told to let go."""

from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from agora_lab.label.outputs import Output


def hold(folder: Path, settings: dict[str, Any], held: Event, done: Event) -> None:
    """Open the output, say so, and keep it until `done` is set."""
    with Output(folder, settings, 10):
        held.set()
        done.wait(60)

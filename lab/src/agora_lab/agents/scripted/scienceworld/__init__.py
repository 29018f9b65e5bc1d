"""Plays ScienceWorld's shorter tasks from the text of a prompt alone.

It reads the prompt from top to bottom (`scene`), takes the plan of the task
that the first message names (`plans`) and does the first thing of it that the
prompt does not show as done. Doors, places, what is held, what was connected
or measured: what the prompt no longer says, it does not know, and finds out
again by walking and looking. It never teleports, so that the way, too, has to
be in the prompt.
"""

from agora_lab.agents.scripted.scienceworld.plans import Agent
from agora_lab.agents.scripted.scienceworld.scene import read

__all__ = ["CLAIMED", "READER", "ScienceWorldReader"]

CLAIMED = (
    "find-living-thing",
    "find-non-living-thing",
    "find-plant",
    "find-animal",
    "lifespan-longest-lived",
    "lifespan-shortest-lived",
    "lifespan-longest-lived-then-shortest-lived",
    "use-thermometer",
    "measure-melting-point-known-substance",
    "power-component",
    "test-conductivity",
    "test-conductivity-of-unknown-substances",
    "chemistry-mix-paint-secondary-color",
    "chemistry-mix-paint-tertiary-color",
)
"""The tasks it has a plan for. Of the others it only looks through the house."""


class ScienceWorldReader:
    """Reads, and acts; nothing is kept from one prompt to the next."""

    def act(self, prompt: str) -> str:
        """Return the action that the prompt calls for."""
        return Agent(read(prompt)).next()


READER = ScienceWorldReader()

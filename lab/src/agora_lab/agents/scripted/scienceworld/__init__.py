"""Plays ScienceWorld's shorter tasks from the text of a prompt alone.

The reader notes the facts in the prompt (`scene`), takes the plan of the task in the first message
(`plans`), and does the first part of it that the prompt does not show as done. Facts that the
prompt has lost are found again by walking and looking. The reader never teleports, so the way has
to be in the prompt too.
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
"""The tasks with a plan."""


class ScienceWorldReader:
    """Acts in ScienceWorld on the text of the prompt."""

    def act(self, prompt: str) -> str:
        """Return the next action."""
        return Agent(read(prompt)).next()


READER = ScienceWorldReader()

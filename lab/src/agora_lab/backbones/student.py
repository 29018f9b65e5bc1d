"""The chat format of a student: a language model that was taught a world by its reader.

What a world's instructions say is in a student's weights, so it is told the world's name only.
Lessons are written and tasks are played in this one format; roles are those of the smallest chat
templates, so calls of tools and their results are written as text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agora_lab.backbones.base import Messages, message_text

_ROLES = {"tool": "user", "developer": "system"}


@dataclass(frozen=True, slots=True)
class StudentFormat:
    """How a student of a world reads messages.

    >>> StudentFormat("house", "Long rules.").said(
    ...     [{"role": "system", "content": "Long rules."}, {"role": "user", "content": "Find it."}]
    ... )
    [{'role': 'system', 'content': 'house'}, {'role': 'user', 'content': 'Find it.'}]
    """

    world: str
    """The world's name."""
    instructions: str
    """What the world tells everyone else."""

    def said(self, messages: Messages) -> list[dict[str, str]]:
        """Return the messages as the student reads them."""
        return [_written(message, self.world, self.instructions) for message in messages]


def _written(message: Mapping[str, Any], world: str, instructions: str) -> dict[str, str]:
    role = str(message["role"])
    text = message_text(message)
    if role == "system" and instructions:
        # What a method added to the instructions stays.
        text = text.replace(instructions, world, 1)
    return {"role": _ROLES.get(role, role), "content": text}

"""Steps the agent asks to see again: the recall tool, and the calls of it."""

import json
from collections.abc import Iterable

from agora.core.trajectory import Step

TOOL_NAME = "agora_recall"
TOOL_DESCRIPTION = (
    "Shows an elided step again, in full. Steps are numbered where they were elided. "
    "Use it when a detail of an elided step is needed and does not stand elsewhere."
)
# One schema for every prompt: a schema that names the steps would change with each of them, and
# the tools come first in a provider's cached prefix.
TOOL_SCHEMA = {
    "type": "object",
    "properties": {"step": {"type": "integer", "description": "The number of the step."}},
    "required": ["step"],
    "additionalProperties": False,
}


def recalled(steps: Iterable[Step]) -> frozenset[int]:
    """Return the numbers of the steps that the agent recalled.

    Only a tool call made under the tool's own name counts. What a message's
    text says about recalling is text.
    """
    numbers = set()
    for step in steps:
        for call in step.calls:
            if call.name == TOOL_NAME:
                number = _number(call.arguments)
                if number is not None:
                    numbers.add(number)
    return frozenset(numbers)


def _number(arguments: str) -> int | None:
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    number = value.get("step") if isinstance(value, dict) else None
    return number if type(number) is int else None

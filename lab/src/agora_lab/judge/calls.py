"""The tool calls of a message, with their arguments as values."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool and the arguments that it was called with."""

    name: str
    arguments: dict[str, Any]


def calls_of(message: Mapping[str, Any]) -> list[ToolCall]:
    """Return the calls of an assistant's message in OpenAI's chat format.

    Arguments that are not a JSON object, as models sometimes write them, are kept as one text.

    >>> calls_of({"tool_calls": [{"function": {"name": "get", "arguments": '{"id": 1}'}}]})
    [ToolCall(name='get', arguments={'id': 1})]
    """
    found = []
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        arguments = function.get("arguments", "")
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments or "{}")
            except ValueError:
                arguments = {"arguments": arguments}
        if not isinstance(arguments, dict):
            arguments = {"arguments": arguments}
        found.append(ToolCall(str(function.get("name", "")), arguments))
    return found

"""Tool schemas rebuilt from recorded calls, for logs that do not have them.

Without schemas in the prompt a model has to copy the form of a call from older calls,
and a prompt would be rewarded for keeping any call at all.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from agora_lab.judge.calls import calls_of

_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array"}


def schemas(conversations: Iterable[Iterable[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return one function schema per tool that is called in these messages, by name.

    They say names and types of arguments and no values, so that they tell nothing that only a
    step would. An argument is required if every call gives it.

    >>> call = {"function": {"name": "get", "arguments": '{"id": "W1", "all": true}'}}
    >>> [found] = schemas([[{"role": "assistant", "tool_calls": [call]}]])
    >>> found["function"]["parameters"]["properties"]
    {'id': {'type': 'string'}, 'all': {'type': 'boolean'}}
    """
    seen: dict[str, list[dict[str, Any]]] = {}
    for messages in conversations:
        for message in messages:
            for call in calls_of(message):
                seen.setdefault(call.name, []).append(call.arguments)
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": name.replace("_", " "),
                "parameters": _object(found),
            },
        }
        for name, found in sorted(seen.items())
    ]


def _object(values: list[dict[str, Any]]) -> dict[str, Any]:
    properties: dict[str, list[Any]] = {}
    for value in values:
        for key, inner in value.items():
            properties.setdefault(key, []).append(inner)
    return {
        "type": "object",
        "properties": {key: _schema(found) for key, found in properties.items()},
        "required": [key for key, found in properties.items() if len(found) == len(values)],
    }


def _schema(values: list[Any]) -> dict[str, Any]:
    if all(isinstance(value, dict) for value in values):
        return _object(values)
    if all(isinstance(value, list) for value in values):
        items = [item for value in values for item in value]
        return {"type": "array", "items": _schema(items)} if items else {"type": "array"}
    kinds = {_TYPES.get(type(value), "string") for value in values}
    if kinds == {"integer", "number"}:
        kinds = {"number"}
    return {"type": kinds.pop()} if len(kinds) == 1 else {}

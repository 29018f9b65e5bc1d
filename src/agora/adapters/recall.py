"""The recall tool's definition in each wire format that has tools."""

from typing import Any

from agora.adapters.detect import known_format
from agora.core.recall import TOOL_DESCRIPTION, TOOL_NAME, TOOL_SCHEMA
from agora.errors import UnknownFormatError


def recall_tool(format: str) -> dict[str, Any]:
    """Return the definition to put among the request's tools.

    It is the same for every prompt, so it never changes a cached prefix.

    >>> recall_tool("anthropic")["name"]
    'agora_recall'
    """
    name = known_format(format)
    if name == "anthropic":
        return {"name": TOOL_NAME, "description": TOOL_DESCRIPTION, "input_schema": TOOL_SCHEMA}
    function = {"name": TOOL_NAME, "description": TOOL_DESCRIPTION, "parameters": TOOL_SCHEMA}
    if name == "openai":
        return {"type": "function", "function": function}
    if name == "responses":
        return {"type": "function", **function}
    raise UnknownFormatError(
        f"the format {name!r} has no tools", ("openai", "responses", "anthropic")
    )


def offers_recall(tools: object) -> bool:
    """Tell whether the recall tool is among a request's tools."""
    if not isinstance(tools, list | tuple):
        return False
    return any(_name(tool) == TOOL_NAME for tool in tools)


def _name(tool: object) -> object:
    if not isinstance(tool, dict):
        return None
    function = tool.get("function")
    return function.get("name") if isinstance(function, dict) else tool.get("name")

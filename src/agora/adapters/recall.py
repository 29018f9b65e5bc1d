"""The recall tool's definition in each wire format that has tools."""

from typing import Any

from agora.adapters.registry import format_named, format_names
from agora.core.recall import TOOL_NAME
from agora.errors import UnknownFormatError


def recall_tool(format: str) -> dict[str, Any]:
    """Return the definition to put among the request's tools.

    It is the same for every prompt, so it never changes a cached prefix.

    >>> recall_tool("anthropic")["name"]
    'agora_recall'
    """
    found = format_named(format)
    if found.recall is None:
        with_tools = tuple(one for one in format_names() if format_named(one).recall is not None)
        raise UnknownFormatError(f"the format {found.name!r} has no tools", with_tools)
    return dict(found.recall)


def offers_recall(tools: object) -> bool:
    """Tell whether the recall tool is among a request's tools, in any format's shape."""
    if isinstance(tools, dict):
        # Bedrock's toolConfig.
        tools = tools.get("tools")
    if not isinstance(tools, list | tuple):
        return False
    return any(TOOL_NAME in _names(tool) for tool in tools)


def _names(tool: object) -> list[object]:
    """Return the names of the functions that one entry among the tools declares.

    >>> _names({"function_declarations": [{"name": "ls"}]}), _names({"functionDeclarations": []})
    (['ls'], [])
    """
    if not isinstance(tool, dict):
        return []
    declared = tool.get("functionDeclarations", tool.get("function_declarations"))
    if isinstance(declared, list):
        return [one.get("name") for one in declared if isinstance(one, dict)]
    for key in ("function", "toolSpec"):
        if isinstance(tool.get(key), dict):
            return [tool[key].get("name")]
    return [tool.get("name")]

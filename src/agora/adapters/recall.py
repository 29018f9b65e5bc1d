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
    if name == "gemini":
        # Under `parameters` Gemini reads a schema language of its own, which refuses
        # `additionalProperties`.
        schema = {"parametersJsonSchema": TOOL_SCHEMA}
        named = {"name": TOOL_NAME, "description": TOOL_DESCRIPTION}
        return {"functionDeclarations": [{**named, **schema}]}
    if name == "bedrock":
        spec = {"name": TOOL_NAME, "description": TOOL_DESCRIPTION}
        return {"toolSpec": {**spec, "inputSchema": {"json": TOOL_SCHEMA}}}
    raise UnknownFormatError(
        f"the format {name!r} has no tools",
        ("openai", "responses", "anthropic", "gemini", "bedrock"),
    )


def offers_recall(tools: object) -> bool:
    """Tell whether the recall tool is among a request's tools, in any format's shape."""
    if isinstance(tools, dict):
        # Bedrock's toolConfig.
        tools = tools.get("tools")
    if not isinstance(tools, list | tuple):
        return False
    return any(TOOL_NAME in _names(tool) for tool in tools)


def _names(tool: object) -> list[object]:
    """Return the names of the functions that one entry among the tools declares."""
    if not isinstance(tool, dict):
        return []
    declared = tool.get("functionDeclarations", tool.get("function_declarations"))
    if isinstance(declared, list):
        return [one.get("name") for one in declared if isinstance(one, dict)]
    for key in ("function", "toolSpec"):
        if isinstance(tool.get(key), dict):
            return [tool[key].get("name")]
    return [tool.get("name")]

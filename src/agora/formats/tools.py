"""A request's tools in any format: their annotations, and the recall tool among them."""

from collections.abc import Iterator, Mapping
from typing import Any

from agora.core.actions import Tools
from agora.core.recall import TOOL_DESCRIPTION, TOOL_NAME, TOOL_SCHEMA
from agora.core.request import Request
from agora.errors import UnknownFormatError
from agora.formats.base import as_list, as_object
from agora.formats.registry import format_named, formats

_SERVER_TOOLS = "mcp_list_tools"
"""The item of the Responses API in which a server lists its tools."""
_DEPTH = 4
"""Tools may be in a namespace, or in the list of a server; no format nests them more deeply."""


def recall_tool(format: str) -> dict[str, Any]:
    """Return the definition of the recall tool, to put among the request's tools.

    It is the same for every prompt, so it never changes a cached prefix.

    >>> recall_tool("anthropic")["name"]
    'agora_recall'

    Raises:
        UnknownFormatError: There is no such format, or it has no tools.
    """
    tool = _recall_tool(format)
    if tool is None:
        with_tools = tuple(one.name for one in formats() if _recall_tool(one.name) is not None)
        raise UnknownFormatError(f"the format {format!r} has no tools", with_tools)
    return tool


def _recall_tool(format: str) -> dict[str, Any] | None:
    return format_named(format).tool(TOOL_NAME, TOOL_DESCRIPTION, TOOL_SCHEMA)


def offers_recall(tools: object) -> bool:
    """Return True if the recall tool is among a request's tools, in any format's shape."""
    return any(name == TOOL_NAME for name, _ in _declared(tools, _DEPTH))


def annotated_tools(tools: object) -> Tools:
    """Return the tools that carry MCP's annotations, in any format's shape.

    A tool that is declared twice is read-only if both declarations agree, and changes something if
    one of them is not read-only.

    >>> peek = {"name": "peek", "annotations": {"readOnlyHint": True}}
    >>> ship = {"type": "function", "function": {"name": "ship", "_meta": {"readOnlyHint": False}}}
    >>> annotated_tools([peek, ship, {"name": "other"}])
    Tools(reading=('peek',), changing=('ship',))
    """
    hints: dict[str, set[bool | None]] = {}
    for name, reads in _declared(tools, _DEPTH):
        hints.setdefault(name, set()).add(reads)
    return Tools(
        tuple(sorted(name for name, reads in hints.items() if reads == {True})),
        tuple(sorted(name for name, reads in hints.items() if False in reads)),
    )


def tools_of(request: Request) -> Tools:
    """Return the annotated tools of a request, with those that servers listed in its input."""
    tools: list[object] = [{"tools": request.tools}]
    if request.format == "responses":
        items = map(as_object, as_list(request.messages))
        tools += [item for item in items if item.get("type") == _SERVER_TOOLS]
    return annotated_tools(tools)


def _declared(tools: object, depth: int) -> Iterator[tuple[str, bool | None]]:
    """Yield the name of each tool, and True if it is declared read-only; None without a hint."""
    if isinstance(tools, Mapping):
        tools = (tools,)
    if not isinstance(tools, list | tuple) or not depth:
        return
    for tool in tools:
        if not isinstance(tool, Mapping):
            continue
        for key in ("tools", "functionDeclarations", "function_declarations"):
            yield from _declared(tool.get(key), depth - 1)
        inner = [tool[k] for k in ("function", "toolSpec") if isinstance(tool.get(k), Mapping)]
        places = [tool, *inner]
        name = places[-1].get("name")
        if isinstance(name, str):
            yield name, _reads(places)


def _reads(places: list[Mapping[str, Any]]) -> bool | None:
    hints: list[Mapping[str, Any]] = []
    for place in places:
        meta = place.get("_meta")
        inner = meta.get("annotations") if isinstance(meta, Mapping) else None
        candidates = (place.get("annotations"), meta, inner)
        hints += [hint for hint in candidates if isinstance(hint, Mapping)]
    if any(h.get("readOnlyHint") is False or h.get("destructiveHint") is True for h in hints):
        return False
    return True if any(hint.get("readOnlyHint") is True for hint in hints) else None

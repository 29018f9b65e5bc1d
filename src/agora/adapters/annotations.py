"""What a request's tools say of themselves: that they only read, or that they change something."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from agora.core.actions import Tools
from agora.core.request import Request

TOOL_LIST = "mcp_list_tools"
"""The item of the Responses API in which a server lists its tools."""
_DEPTH = 4
"""Tools may stand in a namespace, or in the list of a server; no format nests them more deeply."""


def annotated_tools(tools: object) -> Tools:
    """Return the tools that carry MCP's annotations, in any format's shape.

    One that is declared twice reads only if it says so both times, and changes something if it
    says so once.

    >>> peek = {"name": "peek", "annotations": {"readOnlyHint": True}}
    >>> ship = {"type": "function", "function": {"name": "ship", "_meta": {"readOnlyHint": False}}}
    >>> annotated_tools([peek, ship, {"name": "other"}])
    Tools(reading=('peek',), changing=('ship',))
    """
    said: dict[str, set[bool | None]] = {}
    for name, reads in _declared(tools, _DEPTH):
        said.setdefault(name, set()).add(reads)
    return Tools(
        tuple(sorted(name for name, reads in said.items() if reads == {True})),
        tuple(sorted(name for name, reads in said.items() if False in reads)),
    )


def tools_of(request: Request) -> Tools:
    """Return the same of a request: its tools, and those that servers listed in its input."""
    tools: list[object] = [{"tools": request.tools}]
    if request.format == "responses" and isinstance(request.messages, list):
        tools += [
            item
            for item in request.messages
            if isinstance(item, dict) and item.get("type") == TOOL_LIST
        ]
    return annotated_tools(tools)


def _declared(tools: object, depth: int) -> Iterator[tuple[str, bool | None]]:
    """Yield the name of each tool, and whether it says that it only reads."""
    if isinstance(tools, Mapping):
        tools = (tools,)
    if not isinstance(tools, list | tuple) or not depth:
        return
    for tool in tools:
        if not isinstance(tool, Mapping):
            continue
        for key in ("tools", "functionDeclarations", "function_declarations"):
            yield from _declared(tool.get(key), depth - 1)
        places = [tool, *(tool[k] for k in ("function", "toolSpec") if _is_object(tool.get(k)))]
        name = places[-1].get("name")
        if isinstance(name, str):
            yield name, _reads(places)


def _reads(places: list[Mapping[str, Any]]) -> bool | None:
    """Tell whether a tool says that it only reads; None if it does not say."""
    hints: list[Mapping[str, Any]] = []
    for place in places:
        meta = place.get("_meta")
        inner = meta.get("annotations") if _is_object(meta) else None
        hints += [one for one in (place.get("annotations"), meta, inner) if _is_object(one)]
    if any(one.get("readOnlyHint") is False or one.get("destructiveHint") is True for one in hints):
        return False
    return True if any(one.get("readOnlyHint") is True for one in hints) else None


def _is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping)

"""What tools say of themselves, in every format's shape, and what follows from it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agora
from agora import Budget, Compressor
from agora.formats import annotated_tools

READS = {"readOnlyHint": True}
CHANGES = {"readOnlyHint": False}
DESTROYS = {"destructiveHint": True}
KEYS = (
    "name tools function toolSpec functionDeclarations annotations _meta readOnlyHint "
    "destructiveHint"
).split()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["peek", "ship"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=5,
        )
    ),
    max_leaves=30,
)


def declared(format: str, name: str, **more: Any) -> Any:
    """Return the tools of a request with one tool in them, as the format has them."""
    if format == "openai":
        return [{"type": "function", "function": {"name": name, "parameters": {}, **more}}]
    if format == "responses":
        return [{"type": "function", "name": name, "parameters": {}, **more}]
    if format == "gemini":
        return [{"functionDeclarations": [{"name": name, **more}]}]
    if format == "bedrock":
        return {"tools": [{"toolSpec": {"name": name, "inputSchema": {"json": {}}, **more}}]}
    return [{"name": name, "input_schema": {}, **more}]


SAID: dict[str, Any] = {
    **{name: [{"role": "user", "content": "Go."}] for name in ("openai", "responses", "anthropic")},
    "gemini": [{"role": "user", "parts": [{"text": "Go."}]}],
    "bedrock": [{"role": "user", "content": [{"text": "Go."}]}],
}


@pytest.mark.parametrize("format", SAID)
@pytest.mark.parametrize(
    ("hints", "reading", "changing"),
    [
        (READS, ("peek",), ()),
        (CHANGES, (), ("peek",)),
        (DESTROYS, (), ("peek",)),
        ({**READS, **DESTROYS}, (), ("peek",)),
        ({"destructiveHint": False}, (), ()),
        ({"readOnlyHint": None, "title": "Peek"}, (), ()),
        ({"readOnlyHint": "true"}, (), ()),
        ([], (), ()),
    ],
)
def test_annotations_are_read_in_every_format(
    format: str, hints: Any, reading: tuple[str, ...], changing: tuple[str, ...]
) -> None:
    for place in ({"annotations": hints}, {"_meta": hints}, {"_meta": {"annotations": hints}}):
        tools = declared(format, "peek", **place)

        assert annotated_tools(tools) == (reading, changing)
        trajectory = agora.parse(SAID[format], format=format, tools=tools)
        assert (trajectory.reading_tools, trajectory.changing_tools) == (reading, changing)


def test_a_tool_that_is_declared_twice_reads_only_if_it_says_so_twice() -> None:
    reads, silent = {"name": "peek", "annotations": READS}, {"name": "peek"}

    assert annotated_tools([reads, reads]).reading == ("peek",)
    assert annotated_tools([reads, silent]) == ((), ())
    assert annotated_tools([reads, {"name": "peek", "annotations": DESTROYS}]).changing == ("peek",)


def test_tools_that_a_server_lists_in_the_input_are_read() -> None:
    listed: dict[str, Any] = {"type": "mcp_list_tools", "id": "m", "server_label": "own"}
    listed["tools"] = [{"name": "peek", "input_schema": {}, "annotations": READS}]
    items = [{"role": "user", "content": "Go."}, listed]

    assert agora.parse(items, format="responses").reading_tools == ("peek",)
    # One of the client's own that has the same name is another tool.
    own = declared("responses", "peek")
    assert agora.parse(items, format="responses", tools=own).reading_tools == ()


@given(JSON)
def test_whatever_stands_among_the_tools_is_no_error(tools: Any) -> None:
    found = annotated_tools(tools)

    assert not set(found.reading) & set(found.changing)


def chat(tool: str) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Sort it out."}]
    for n in range(12):
        function = {"name": tool, "arguments": json.dumps({"n": n})}
        call = {"id": f"call{n}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        said = "so it goes and goes. " * 60
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": said})
    return messages


@pytest.mark.parametrize(
    ("tool", "hints", "known", "gone"),
    [
        ("get_order", {}, {}, True),
        ("frobnicate", {}, {}, False),
        ("frobnicate", READS, {}, True),
        ("get_order", CHANGES, {}, False),
        ("get_order", DESTROYS, {}, False),
        ("frobnicate", {}, {"frobnicate": "reads"}, True),
        ("get_order", {}, {"get_order": "changes"}, False),
        ("frobnicate", READS, {"frobnicate": "changes"}, True),
        ("get_order", CHANGES, {"get_order": "reads"}, False),
    ],
)
def test_annotations_come_first_then_the_users_lists_then_the_name(
    tool: str, hints: dict[str, Any], known: dict[str, Any], gone: bool
) -> None:
    compressor = Compressor(budget=Budget(limit=10), edits="every_call", strict=True, tools=known)

    found = compressor.compress(chat(tool), tools=declared("openai", tool, annotations=hints))

    assert (found.decisions[1].kind == "omitted") is gone

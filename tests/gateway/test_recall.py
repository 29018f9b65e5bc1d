"""Recall over the gateway: offered with each request, answered in the next, nothing lost."""

import json
from typing import Any

import pytest

from agora.core.recall import TOOL_NAME
from agora.gateway.editing.editor import Editor
from agora.gateway.editing.settings import EditorSettings
from agora.gateway.routing.routes import CHAT, MESSAGES, RESPONSES, Route
from agora.scorers.features import FeaturesScorer
from harness.gateway.histories import chat, messages, observation, responses
from tests.gateway.test_edit import job


def edit(body: Any, route: Route) -> Any:
    editor = Editor(EditorSettings(scorer=FeaturesScorer(), recall=True))
    asked = job(json.dumps(body).encode(), route, agent="claude-cli/2.1.0 (external, cli)")
    return json.loads(editor(asked).body)


def with_recall(format: str, steps: int) -> Any:
    """Return a history whose last action reads a file and recalls step 3, side by side."""
    asked = {"step": 3}
    if format == "chat":
        body = chat(steps)
        calls = [
            {
                "id": "r",
                "type": "function",
                "function": {"name": TOOL_NAME, "arguments": json.dumps(asked)},
            },
            {"id": "s", "type": "function", "function": {"name": "read", "arguments": "{}"}},
        ]
        body["messages"] += [
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "r", "content": "no such tool"},
            {"role": "tool", "tool_call_id": "s", "content": "read this"},
        ]
        return body
    if format == "responses":
        body = responses(steps)
        body["input"] += [
            {
                "type": "function_call",
                "call_id": "r",
                "name": TOOL_NAME,
                "arguments": json.dumps(asked),
            },
            {"type": "function_call", "call_id": "s", "name": "read", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "r", "output": "no such tool"},
            {"type": "function_call_output", "call_id": "s", "output": "read this"},
        ]
        return body
    body = messages(steps)
    uses = [
        {"type": "tool_use", "id": "r", "name": TOOL_NAME, "input": asked},
        {"type": "tool_use", "id": "s", "name": "read", "input": {}},
    ]
    results = [
        {"type": "tool_result", "tool_use_id": "r", "is_error": True, "content": "no such tool"},
        {"type": "tool_result", "tool_use_id": "s", "content": "read this"},
    ]
    body["messages"] += [
        {"role": "assistant", "content": uses},
        {"role": "user", "content": results},
    ]
    return body


@pytest.mark.parametrize(
    ("format", "route"), [("chat", CHAT), ("responses", RESPONSES), ("messages", MESSAGES)]
)
@pytest.mark.parametrize("steps", [5, 40])
def test_a_recalled_step_stands_where_the_client_said_it_knows_no_such_tool(
    format: str, route: Route, steps: int
) -> None:
    body = with_recall(format, steps)

    sent = edit(body, route)

    said = json.dumps(sent[route.field], ensure_ascii=False)
    assert "no such tool" not in said
    assert "is_error" not in said
    assert "read this" in said
    last = json.dumps(sent[route.field][-2:], ensure_ascii=False)
    assert json.dumps(observation(3), ensure_ascii=False)[1:-1] in last
    assert [t.get("name") or t["function"]["name"] for t in sent["tools"]] == ["read", TOOL_NAME]
    assert sent["tools"][:-1] == body["tools"]


def test_the_tool_is_the_same_in_every_request_and_only_where_there_are_tools() -> None:
    offered = [json.dumps(edit(chat(steps), CHAT)["tools"]) for steps in (1, 5, 40)]
    assert len(set(offered)) == 1

    bare = chat(3)
    del bare["tools"]
    assert edit(bare, CHAT) == bare


def test_a_step_that_does_not_exist_is_said_not_to() -> None:
    body = with_recall("chat", 5)
    arguments = body["messages"][-3]["tool_calls"][0]["function"]
    for asked in ('{"step": 99}', "{", "[]", '{"step": "3"}'):
        arguments["arguments"] = asked
        assert "cannot be recalled" in edit(body, CHAT)["messages"][-2]["content"]

from typing import Any

import pytest

from harness.agents.rules import refusal, signature
from harness.agents.wire import Json, Route


def use(name: str) -> Json:
    return {"type": "tool_use", "id": name, "name": "read", "input": {}}


def result(name: str) -> Json:
    return {"type": "tool_result", "tool_use_id": name, "content": "text"}


def anthropic(*messages: Json, **more: Any) -> Json:
    return {"messages": [{"role": "user", "content": "Go."}, *messages], **more}


def assistant(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": signature("hm")}
FORGED = {"type": "thinking", "thinking": "hm", "signature": signature("ha")}
SYSTEM = {"role": "system", "content": "More about the environment."}
CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
ASKED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
ANSWERED = {"role": "tool", "tool_call_id": "c1", "content": "text"}
FUNCTION_CALL = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "text"}
REASONING = {"type": "reasoning", "id": "rs_1", "encrypted_content": "enc-1"}
THINKS = {"thinking": {"type": "enabled", "budget_tokens": 1_024}}


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("messages", anthropic(assistant(use("t1")), user(result("t1")))),
        ("messages", anthropic(assistant(THOUGHT, use("t1")), user(result("t1")), **THINKS)),
        ("chat", {"messages": [{"role": "user", "content": "Go."}, ASKED, ANSWERED]}),
        ("responses", {"input": "Go."}),
        ("responses", {"input": [REASONING, FUNCTION_CALL, OUTPUT]}),
        ("gemini", {"contents": [{"role": "user", "parts": [{"text": "Go."}]}]}),
        ("other", {}),
    ],
)
def test_a_legal_request_is_taken(route: Route, body: Json) -> None:
    assert refusal(route, body) == ""


@pytest.mark.parametrize(
    ("route", "body", "words"),
    [
        ("messages", {"messages": []}, "at least one message"),
        ("messages", anthropic(assistant(use("t1"))), "without `tool_result` blocks"),
        ("messages", anthropic(user(result("t1"))), "unexpected `tool_use_id`"),
        (
            "messages",
            anthropic(assistant(use("t1")), user({"type": "text", "text": "a"}, result("t1"))),
            "must come first",
        ),
        ("messages", anthropic(assistant(FORGED, use("t1")), user(result("t1"))), "`signature`"),
        ("messages", anthropic(assistant(use("t1")), user(result("t1")), **THINKS), "Expected"),
        ("messages", anthropic(assistant(), user(result("t1"))), "non-empty content"),
        ("messages", anthropic(SYSTEM), "messages.1.role"),
        (
            "messages",
            anthropic(
                assistant({"type": "text", "text": "a"}),
                user({"type": "text", "text": " "}),
            ),
            "non-whitespace",
        ),
        (
            "messages",
            anthropic(system=[{"type": "text", "text": "a", "cache_control": {"a": 1}}] * 5),
            "maximum of 4",
        ),
        ("chat", {"messages": []}, "empty array"),
        ("chat", {"messages": [ANSWERED]}, "must be a response"),
        ("chat", {"messages": [ASKED]}, "did not have response messages"),
        ("chat", {"messages": [ASKED, {"role": "user", "content": "a"}, ANSWERED]}, "c1"),
        ("chat", {"messages": [{"role": "robot", "content": "a"}]}, "'robot'"),
        ("responses", {"input": [OUTPUT]}, "No tool call found"),
        ("responses", {"input": [FUNCTION_CALL]}, "No tool output found"),
        ("responses", {"input": [FUNCTION_CALL, OUTPUT, OUTPUT]}, "Duplicate"),
        ("responses", {"input": [REASONING]}, "required following item"),
        ("responses", {"input": [{**REASONING, "encrypted_content": "x"}]}, "verified"),
        ("gemini", {"contents": []}, "not specified"),
        (
            "gemini",
            {"contents": [{"role": "user", "parts": [{"functionResponse": {}}]}]},
            "number of function response parts",
        ),
    ],
)
def test_an_illegal_request_is_refused_in_words(route: Route, body: Json, words: str) -> None:
    assert words in refusal(route, body)


@pytest.mark.parametrize(
    "beta", ["mid-conversation-system-2026-04-07", "a,mid-conversation-tool-changes-2026-07-01"]
)
def test_a_system_message_is_taken_under_a_beta_that_allows_it(beta: str) -> None:
    assert refusal("messages", anthropic(SYSTEM), beta) == ""


def test_a_thought_from_before_the_current_loop_may_be_missing() -> None:
    earlier = (assistant(use("t1")), user(result("t1")), assistant({"type": "text", "text": "a"}))
    now = (user({"type": "text", "text": "b"}), assistant(THOUGHT, use("t2")), user(result("t2")))

    assert refusal("messages", anthropic(*earlier, *now, **THINKS)) == ""

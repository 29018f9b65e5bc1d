"""What holds for every input: nothing raises, whole steps may go, time is linear."""

import gc
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agora.formats import RuleViolation, validate

FORMATS = [
    *("openai", "responses", "anthropic", "transcript"),
    *("gemini", "bedrock"),
]
Message = dict[str, Any]
Step = list[Message]

# Words that open the way into the validators; anything else soon meets a shape rule.
KEYS = [
    *("role", "content", "type", "text", "id", "call_id", "name", "function", "thinking"),
    *("tool_calls", "tool_call_id", "tool_use_id", "cache_control", "signature", "prefix"),
    *("parts", "functionCall", "functionResponse", "toolUse", "toolResult", "toolUseId"),
    *("tool_references", "tool_name", "encrypted_content", "reasoning_content"),
]
ROLES = ["user", "assistant", "system", "developer", "tool", "function", "model"]
VALUES = [
    *ROLES,
    *("text", "tool_use", "tool_result", "thinking", "server_tool_use", "mcp_tool_result"),
    *("web_search_tool_result", "tool_reference", "message", "reasoning", "item_reference"),
    *("function_call", "function_call_output", "local_shell_call", "local_shell_call_output"),
    *("a", "b"),
]
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
) | st.sampled_from(VALUES)
junk = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=30,
)
messages_of_a_kind = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(ROLES)},
        optional={
            "content": junk,
            "parts": junk,
            "type": st.sampled_from(VALUES),
            "tool_calls": st.lists(st.fixed_dictionaries({"id": scalars}) | junk, max_size=2),
            "tool_call_id": scalars,
            "call_id": scalars,
        },
    ),
    max_size=6,
)


@settings(deadline=None, max_examples=300)
@given(
    messages=junk | messages_of_a_kind,
    system=junk,
    tools=junk,
    before=junk | messages_of_a_kind,
    thinking=st.sampled_from([None, True, False]),
    strict=st.booleans(),
)
def test_any_value_is_judged_and_none_raises(
    messages: object,
    system: object,
    tools: object,
    before: object,
    thinking: bool | None,
    strict: bool,
) -> None:
    as_given = repr(messages)
    said: dict[str, Any] = {"system": system, "tools": tools, "before": before}

    for name in FORMATS:
        found = validate(messages, format=name, thinking=thinking, strict=strict, **said)

        assert [one.position for one in found] == sorted(one.position for one in found)
        assert all(one.error for one in found)
        assert strict or not any(one.strict for one in found)
    assert repr(messages) == as_given


@pytest.mark.parametrize("name", FORMATS)
def test_a_value_nested_deeper_than_the_stack_is_judged(name: str) -> None:
    deep: object = "x"
    for _ in range(100_000):
        deep = [deep]
    wrapped: object = {"type": "thinking", "thinking": deep, "text": deep, "id": deep}
    holders = [
        {"role": "assistant", "content": [wrapped], "tool_calls": [{"id": deep}]},
        {"role": deep, "content": deep, "parts": deep, "type": deep},
        {"role": "user", "content": [{"type": "tool_result", "content": [{"text": deep}]}]},
        {"type": "reasoning", "id": deep, "role": "user", "content": [deep]},
        {"role": "user", "parts": [{"functionCall": deep}], "tool_calls": [{"id": deep}]},
    ]

    for messages in (deep, holders, *([holder] for holder in holders)):
        said: dict[str, Any] = {"before": holders, "system": deep, "tools": deep}
        for thinking in (True, False):
            validate(messages, format=name, thinking=thinking, strict=True, **said)


def openai_step(n: int, calls: int) -> Step:
    ids = [f"call_{n}_{i}" for i in range(calls)]
    function = {"name": "look", "arguments": "{}"}
    return [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": i, "type": "function", "function": function} for i in ids],
        },
        *({"role": "tool", "tool_call_id": i, "content": "seen"} for i in reversed(ids)),
    ]


def anthropic_step(n: int, calls: int) -> Step:
    ids = [f"toolu_{n}_{i}" for i in range(calls)]
    return [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": i, "name": "look", "input": {}} for i in ids],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": i, "content": "x"} for i in ids],
        },
    ]


def responses_step(n: int, calls: int) -> Step:
    ids = [f"call_{n}_{i}" for i in range(calls)]
    return [
        {"type": "reasoning", "id": f"rs_{n}", "summary": []},
        *({"type": "function_call", "id": f"fc_{i}", "call_id": i} for i in ids),
        *({"type": "function_call_output", "call_id": i, "output": "x"} for i in ids),
    ]


def gemini_step(n: int, calls: int) -> Step:
    call = {"functionCall": {"name": "look", "args": {"n": n}}, "thoughtSignature": "sig"}
    response = {"functionResponse": {"name": "look", "response": {}}}
    return [
        {"role": "model", "parts": [call] * calls},
        {"role": "user", "parts": [response] * calls},
    ]


def bedrock_step(n: int, calls: int) -> Step:
    ids = [f"tooluse_{n}_{i}" for i in range(calls)]
    return [
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": i}} for i in ids]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": i}} for i in ids]},
    ]


STEPS: dict[str, Callable[[int, int], Step]] = {
    "openai": openai_step,
    "anthropic": anthropic_step,
    "responses": responses_step,
    "gemini": gemini_step,
    "bedrock": bedrock_step,
}


def task(name: str) -> Message:
    if name == "gemini":
        return {"role": "user", "parts": [{"text": "Go."}]}
    if name == "bedrock":
        return {"role": "user", "content": [{"text": "Go."}]}
    return {"role": "user", "content": "Go."}


def check(messages: list[Message], name: str, before: object = None) -> list[RuleViolation]:
    return validate(messages, format=name, tools=[{"name": "look"}], before=before)


@pytest.mark.parametrize("name", STEPS)
@settings(deadline=None)
@given(
    calls=st.lists(st.integers(1, 3), min_size=1, max_size=6),
    kept=st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_whole_steps_may_go_and_what_is_left_is_legal(
    name: str, calls: list[int], kept: list[bool]
) -> None:
    steps = [STEPS[name](n, count) for n, count in enumerate(calls)]
    before = [task(name), *(message for step in steps for message in step)]
    left = [message for step, keep in zip(steps, kept, strict=False) if keep for message in step]

    assert check(before, name) == []
    assert check([task(name), *left], name, before) == []


@pytest.mark.parametrize("name", STEPS)
@settings(deadline=None)
@given(data=st.data())
def test_half_a_step_may_not_go(name: str, data: st.DataObject) -> None:
    calls = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    steps = [STEPS[name](n, count) for n, count in enumerate(calls)]
    before = [task(name), *(message for step in steps for message in step)]
    gone = data.draw(st.integers(1, len(before) - 1))

    left = before[:gone] + before[gone + 1 :]

    assert check(left, name, before)


@pytest.mark.parametrize("name", STEPS)
def test_messages_read_back_from_json_are_judged_the_same(name: str) -> None:
    messages = [task(name), *STEPS[name](0, 2)[:-1]]

    assert check(json.loads(json.dumps(messages)), name) == check(messages, name) != []


def seconds(name: str, messages: list[Message]) -> float:
    """Return the processor time of the best of some runs, which a busy machine does not change."""
    best = float("inf")
    gc.disable()
    try:
        for _ in range(5):
            start = time.process_time()
            validate(messages, format=name, strict=True, thinking=True, before=messages)
            best = min(best, time.process_time() - start)
    finally:
        gc.enable()
    return best


def long_run(name: str, count: int) -> list[Message]:
    return [task(name), *(message for n in range(count) for message in STEPS[name](n, 1))]


def wide_step(name: str, count: int) -> list[Message]:
    return [task(name), *STEPS[name](0, count)]


def illegal(name: str, count: int) -> list[Message]:
    return [task(name), *(STEPS[name](n, 1)[n % 2] for n in range(count))]


def reasoning_then_calls(name: str, count: int) -> list[Message]:
    thoughts = [{"type": "reasoning", "id": f"rs_{n}"} for n in range(count)]
    return [task(name), *thoughts, *STEPS[name](0, count)]


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("shape", [long_run, wide_step, illegal, reasoning_then_calls])
def test_time_grows_with_the_number_of_messages_and_no_faster(
    name: str, shape: Callable[[str, int], list[Message]]
) -> None:
    small, large = shape(name, 200), shape(name, 3_200)

    # 16 times the messages; a quadratic check would take 256 times as long.
    assert seconds(name, large) < 64 * seconds(name, small)


@pytest.mark.parametrize("name", STEPS)
def test_the_length_of_texts_costs_nothing(name: str) -> None:
    long = "word " * 4_000_000
    messages = [task(name), *STEPS[name](0, 1)]
    for message in messages:
        if isinstance(message.get("content"), str):
            message["content"] = long

    assert seconds(name, messages) < 0.005

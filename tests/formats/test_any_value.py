"""What holds for every input: nothing raises, whole steps may go, time is linear."""

import gc
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agora.formats import RuleViolation, format_named, validate

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


STEPS = ["openai", "responses", "anthropic", "gemini", "bedrock"]


def step(name: str, number: int) -> Step:
    return format_named(name).step_messages(f"call_{number}", "look", {"n": number}, "seen")


def task(name: str) -> Message:
    return format_named(name).user_message("Go.")


def check(messages: list[Message], name: str, before: object = None) -> list[RuleViolation]:
    return validate(messages, format=name, tools=[{"name": "look"}], before=before)


@pytest.mark.parametrize("name", STEPS)
@settings(deadline=None)
@given(kept=st.lists(st.booleans(), min_size=1, max_size=6))
def test_whole_steps_may_go_and_what_is_left_is_legal(name: str, kept: list[bool]) -> None:
    steps = [step(name, n) for n in range(len(kept))]
    before = [task(name), *(message for one in steps for message in one)]
    left = [message for one, keep in zip(steps, kept, strict=True) if keep for message in one]

    assert check(before, name) == []
    assert check([task(name), *left], name, before) == []


@pytest.mark.parametrize("name", STEPS)
@settings(deadline=None)
@given(data=st.data())
def test_half_a_step_may_not_go(name: str, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 5))
    before = [task(name), *(message for n in range(count) for message in step(name, n))]
    gone = data.draw(st.integers(1, len(before) - 1))

    assert check(before[:gone] + before[gone + 1 :], name, before)


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
    return [task(name), *(message for n in range(count) for message in step(name, n))]


def illegal(name: str, count: int) -> list[Message]:
    return [task(name), *(step(name, n)[n % 2] for n in range(count))]


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("shape", [long_run, illegal])
def test_time_grows_with_the_number_of_messages_and_no_faster(
    name: str, shape: Callable[[str, int], list[Message]]
) -> None:
    small, large = shape(name, 200), shape(name, 3_200)

    # 16 times the messages; a quadratic check would take 256 times as long.
    assert seconds(name, large) < 64 * seconds(name, small)

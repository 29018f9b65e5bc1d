"""The time to live that a request asks for, wherever its marks stand."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora import Compressor, sheet_for
from agora.core import Request
from agora.formats import read_request

# Private: any place of a mark: its public face is a price.
from agora.formats.cache_ttl import asked_ttl, marks_only_the_end

HOUR = {"type": "ephemeral", "ttl": "1h"}
USUAL = {"type": "ephemeral"}
TEXT = {"type": "text", "text": "Hello."}
PLAIN = {"role": "user", "content": "Hello."}


def said(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def ttl(messages: Any, *, system: Any = None, tools: Any = None, format: str = "anthropic") -> Any:
    return asked_ttl(Request(messages=messages, system=system, tools=tools, format=format))


# Anything at all, mostly under the names that are looked at.
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.just("1h"),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["content", "output", "function", "toolResult", "tools", "cache_control", "ttl"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
POINT = {"cachePoint": {"type": "default", "ttl": "1h"}}
BREAKPOINT = {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"}}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": [{**TEXT, "cache_control": HOUR}]}
CONVERSE_RESULT = {"toolResult": {"toolUseId": "t", "content": [{"text": "Hello."}, POINT]}}


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        ({"messages": [said({**TEXT, "cache_control": HOUR}), PLAIN]}, "1h"),
        ({"messages": [said(RESULT)]}, "1h"),
        ({"messages": [PLAIN], "system": [{**TEXT, "cache_control": HOUR}]}, "1h"),
        ({"messages": [PLAIN], "tools": [{"name": "t", "cache_control": HOUR}]}, "1h"),
        ({"messages": [PLAIN], "cache_control": HOUR, "system": "Be brief."}, "1h"),
        ({"messages": [said({"text": "Hello."}, POINT)], "modelId": "m"}, "1h"),
        ({"messages": [said(CONVERSE_RESULT)], "modelId": "m"}, "1h"),
        ({"messages": [], "system": [{"text": "Hello."}, POINT], "modelId": "m"}, "1h"),
        ({"messages": [], "toolConfig": {"tools": [{"toolSpec": {}}, POINT]}}, "1h"),
        ({"messages": [said({**TEXT, **BREAKPOINT})]}, "12h"),
        ({"messages": [{**PLAIN, "cache_control": HOUR}]}, "1h"),
        ({"messages": [PLAIN], "tools": [{"function": {"cache_control": HOUR}}]}, "1h"),
        ({"messages": [PLAIN], "prompt_cache_options": {"ttl": "12h"}}, "12h"),
        ({"input": [{"type": "message", **said({**TEXT, **BREAKPOINT})}]}, "12h"),
        ({"input": [{"type": "function_call_output", "output": [{**TEXT, **BREAKPOINT}]}]}, "12h"),
        ({"messages": [PLAIN]}, None),
        ({"messages": [said({**TEXT, "cache_control": USUAL})]}, "usual"),
        ({"messages": [said({**TEXT, "cache_control": None})]}, None),
        ({"messages": [said({**TEXT, "cache_control": {"ttl": 3600}})]}, "usual"),
        ({"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]}, None),
    ],
)
def test_a_mark_is_read_in_every_place_it_may_have(body: dict[str, Any], asked: str | None) -> None:
    assert asked_ttl(read_request(body)) == asked


def test_the_newest_mark_counts_since_new_steps_are_written_for_that_long() -> None:
    hour, usual = {**TEXT, "cache_control": HOUR}, {**TEXT, "cache_control": USUAL}

    assert ttl([said(hour), said(usual)]) == "usual"
    assert ttl([said(usual), said(hour)]) == "1h"
    assert ttl([said(usual)], system=[hour], tools=[{"cache_control": HOUR}]) == "usual"
    assert ttl([PLAIN], system=[hour], tools=[{"cache_control": USUAL}]) == "1h"
    assert ttl([said(hour, TEXT, usual)]) == "usual"
    assert ttl([said({**RESULT, "cache_control": USUAL})]) == "usual"
    body = {"messages": [said(usual)], "cache_control": HOUR, "system": "Be brief."}
    assert asked_ttl(read_request(body)) == "1h"


def test_what_a_model_writes_into_an_action_is_no_mark() -> None:
    call = {"type": "tool_use", "id": "t", "name": "n", "input": {"cache_control": HOUR}}

    assert ttl([{"role": "assistant", "content": [call]}]) is None


@given(messages=json_values, system=json_values, tools=json_values)
def test_nothing_that_is_sent_makes_it_fail(messages: Any, system: Any, tools: Any) -> None:
    found = ttl(messages, system=system, tools=tools)

    assert found is None or isinstance(found, str)


def test_a_compressor_goes_by_the_prices_of_the_requests_own_time_to_live() -> None:
    asked: list[str | None] = []

    class Watched(Compressor):
        def policy(self, model: str | None = None, ttl: str | None = None) -> Any:
            asked.append(ttl)
            return super().policy(model, ttl)

    Watched().compress([said({**TEXT, "cache_control": HOUR})], model="claude-opus-5")
    Watched().compress([PLAIN], system=[{**TEXT, "cache_control": HOUR}], model="claude-opus-5")

    assert asked == ["1h", "1h"]
    policy = Compressor().policy("claude-opus-5", "1h")
    assert policy.sheet == sheet_for("claude-opus-5").for_ttl("1h")
    own = Compressor(sheet=sheet_for("claude-opus-5")).policy("gpt-4o", "1h")
    assert own.sheet.write == 2.0


@pytest.mark.parametrize("role", ["system", "developer"])
def test_instructions_that_begin_the_messages_are_marked_as_system_text_is(role: str) -> None:
    newest = {"role": "user", "content": [{**TEXT, "cache_control": USUAL}]}
    rules = {"role": role, "content": [{**TEXT, "cache_control": USUAL}]}

    marked = Request(messages=[rules, PLAIN, newest], format="openai")
    plain = Request(messages=[{"role": role, "content": "Be brief."}, newest], format="openai")

    assert not marks_only_the_end(marked)
    assert marks_only_the_end(plain)
    assert not marks_only_the_end(Request(messages=[PLAIN], format="openai"))

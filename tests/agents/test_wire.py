import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.agents.wire import Block, Json, body_of, extends, prompt_of, route_of


def test_a_cache_breakpoint_is_no_part_of_the_text() -> None:
    text = {"type": "text", "text": "Go."}
    marked = {**text, "cache_control": {"type": "ephemeral"}}

    plain = prompt_of("messages", {"messages": [{"role": "user", "content": "Go."}]})
    with_mark = prompt_of("messages", {"messages": [{"role": "user", "content": [marked]}]})

    assert [block.text for block in plain] == [block.text for block in with_mark]
    assert [block.marked for block in with_mark] == [True]


def test_a_breakpoint_within_a_result_marks_the_result() -> None:
    inner = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [inner]}

    (block,) = prompt_of("messages", {"messages": [{"role": "user", "content": [result]}]})

    assert block.marked
    assert "cache_control" not in block.text


def test_a_value_that_changes_with_each_call_is_no_part_of_the_text() -> None:
    prompts = [
        prompt_of("messages", {"system": f"version 1; cch={nonce};", "messages": []})
        for nonce in ("0a1b2", "3c4d5")
    ]

    assert prompts[0] == prompts[1]


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/v1/messages?beta=true", "messages"),
        ("/v1/messages/count_tokens", "count_tokens"),
        ("/v1/chat/completions", "chat"),
        ("/chat/completions/", "chat"),
        ("/v1/responses", "responses"),
        ("/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse", "gemini"),
        ("/v1/v1beta/models/gemini-2.5-pro:generateContent", "gemini"),
        ("/v1/models", "other"),
    ],
)
def test_a_path_says_what_is_asked_for(path: str, route: str) -> None:
    assert route_of(path) == route


@given(st.lists(st.text(), max_size=5), st.lists(st.text(), max_size=5))
def test_a_prompt_extends_what_it_begins_with(head: list[str], tail: list[str]) -> None:
    shorter = tuple(map(Block, head))

    assert extends((*shorter, *map(Block, tail)), shorter)


@given(st.dictionaries(st.text(), st.text(), max_size=3))
def test_a_packed_body_is_read(said: Json) -> None:
    raw = json.dumps(said).encode()

    assert body_of(gzip.compress(raw), "gzip") == body_of(raw) == said


@pytest.mark.parametrize(
    ("raw", "encoding"), [(b"{", ""), (b"[]", ""), (b"{}", "gzip"), (b"{}", "x")]
)
def test_what_is_no_object_is_not_read(raw: bytes, encoding: str) -> None:
    assert body_of(raw, encoding) is None

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

# Private: which blocks are signed thinking, in any value.
from agora.formats.anthropic import REMOVED
from agora.formats.thinking import (
    is_thinking,
    thinks,
    without_thinking,
)
from harness.histories.strategies import histories

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2lnbmF0dXJl"}
SEALED = {"type": "redacted_thinking", "data": "c2VhbGVk"}
REASONED = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "cmVhc29u"}}}
HIDDEN = {"reasoningContent": {"redactedContent": "aGlkZGVu"}}
POINT = {"cachePoint": {"type": "default"}}
TEXT = {"type": "text", "text": "Go."}


def by_model(*blocks: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks), **more}


@pytest.mark.parametrize("block", [THOUGHT, SEALED, REASONED, HIDDEN])
def test_thinking_goes_and_everything_else_stays_as_it_was(block: Any) -> None:
    user = {"role": "user", "content": "Do it."}
    messages = [user, by_model(block, TEXT, block, name="me"), user]

    bare = without_thinking(messages)

    assert bare.messages == [user, by_model(TEXT, name="me"), user]
    assert bare.messages[0] is user
    assert bare.blocks == 2
    assert bare.positions == {1}
    assert messages[1] == by_model(block, TEXT, block, name="me")


def test_only_the_first_messages_lose_theirs_when_that_is_asked() -> None:
    messages = [by_model(THOUGHT, TEXT), by_model(SEALED, TEXT)]

    assert without_thinking(messages, until=1).messages == [by_model(TEXT), messages[1]]
    assert without_thinking(messages, until=0).messages == messages
    assert without_thinking(messages, until=9).blocks == 2


def test_a_message_of_nothing_but_thinking_says_that_it_was_removed() -> None:
    anthropic, bedrock, marked = by_model(THOUGHT), by_model(HIDDEN), by_model(REASONED, POINT)

    assert without_thinking([anthropic, bedrock, marked]).messages == [
        by_model({"type": "text", "text": REMOVED}),
        by_model({"text": REMOVED}),
        by_model({"text": REMOVED}, POINT),
    ]


def test_a_chat_message_of_nothing_but_thinking_says_that_it_was_removed() -> None:
    empty = {"role": "assistant", "content": None, "thinking_blocks": [THOUGHT]}
    calls = {**empty, "tool_calls": [{"id": "a"}]}

    assert without_thinking([empty, calls]).messages == [
        {"role": "assistant", "content": REMOVED, "thinking_blocks": []},
        {**calls, "thinking_blocks": []},
    ]


def test_what_is_no_message_is_left_alone() -> None:
    odd = ["text", None, {"role": "assistant", "content": 3}, {"content": [THOUGHT, "text"]}, {}]

    assert without_thinking(odd).messages == [*odd[:3], {"content": ["text"]}, {}]
    assert not thinks("text")
    assert not is_thinking("thinking")


@given(st.sampled_from(["anthropic", "bedrock", "openai"]).flatmap(histories))
def test_no_thinking_is_left_in_any_history_and_nothing_else_is_lost(history: Any) -> None:
    bare = without_thinking(history.messages)

    assert not any(map(thinks, bare.messages))
    assert len(bare.messages) == len(history.messages)
    for at, (old, new) in enumerate(zip(history.messages, bare.messages, strict=True)):
        assert (new is old) == (at not in bare.positions)
        if at in bare.positions:
            kept = [json.dumps(b) for b in old["content"] if not is_thinking(b)]
            assert [json.dumps(b) for b in new["content"]][-len(kept) :] == kept or not kept

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab.harness.bookings import CODE, by_calls, by_text
from lab.tests.methods.chats import chats

from agora.adapters import parse
from agora.core.request import Request
from agora_lab.chats import text_of, tokens_of
from agora_lab.methods import MethodSettings, method
from agora_lab.methods.in_place import MASK, NOTE, CommandsFirst, MaskResults, Places


@given(chats(least=1, most=12), st.floats(0, 1))
def test_commands_first_keeps_to_its_room_and_the_floor_whole(
    chat: list[dict[str, Any]], share: float
) -> None:
    places = Places.of(chat, observations="user")
    sent = list(CommandsFirst(share=share).shorten(chat).messages)

    # A marker for steps that went comes on top.
    assert tokens_of(sent) <= max(places.room(share), places.floor_tokens) + 40
    assert [text_of(one) for one in sent[-3:]] == [text_of(one) for one in chat[-3:]]


@given(chats(least=1, most=12), st.floats(0, 1))
def test_masking_keeps_every_action_and_the_newest_results(
    chat: list[dict[str, Any]], share: float
) -> None:
    sent = list(MaskResults(share=share).shorten(chat).messages)
    masked = [at for at, one in enumerate(sent) if text_of(one) == MASK]

    assert len(sent) == len(chat)
    assert all(
        text_of(a) == text_of(b)
        for a, b in zip(sent, chat, strict=True)
        if a["role"] == "assistant"
    )
    assert not masked or max(masked) < len(chat) - 3


def test_all_calls_stay_and_old_results_are_notes() -> None:
    messages = list(by_calls(steps=8).messages)
    sent = list(CommandsFirst(share=0.6, observations=None).shorten(messages).messages)
    noted = [one for one in sent if text_of(one) == NOTE]

    assert sum("tool_calls" in one for one in sent) == 8
    assert noted
    assert all(one["role"] == "tool" for one in noted)
    assert parse(Request(messages=sent, format="openai")).trajectory.steps


def test_thoughts_go_and_commands_stay() -> None:
    messages = list(by_text(steps=8).messages)
    sent = list(CommandsFirst(share=0.5).shorten(messages).messages)
    said = [text_of(one) for one in sent if one["role"] == "assistant"]

    assert said[0] == "```bash\nlook 1\n```"
    assert said[-1] == text_of(messages[-2])


def test_with_hardly_any_room_the_oldest_steps_go_and_a_marker_says_so() -> None:
    messages = list(by_calls(steps=8).messages)
    sent = list(CommandsFirst(share=0.05, observations=None).shorten(messages).messages)

    assert sum("tool_calls" in one for one in sent) < 8
    assert any("elided" in text_of(one) for one in sent)


@pytest.mark.parametrize("kind", [CommandsFirst, MaskResults])
def test_with_room_for_everything_nothing_changes(kind: Any) -> None:
    messages = list(by_calls(steps=8).messages)

    assert kind(share=1.0, observations=None).shorten(messages).messages is messages


def test_what_a_user_says_between_calls_is_never_masked() -> None:
    messages = list(by_calls(steps=8).messages)
    messages.insert(4, {"role": "user", "content": "And please hurry up with all of this. " * 4})
    for name in ("mask_results", "commands_first", "floor_matched"):
        options = {"share": 0.0, "observations": None}
        sent = method(name, MethodSettings(options=options)).shorten(messages).messages
        assert any("hurry up" in text_of(one) for one in sent), name
        assert not any(CODE in text_of(one) for one in sent), name

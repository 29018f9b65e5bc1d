"""What each provider asks of the reasoning it sent, before an edit and after every edit of ours."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agora.formats import validate
from harness import shortened
from harness.histories import History, sample

Message = dict[str, Any]
USER = {"role": "user", "content": "Find it."}


def codes(messages: object, format: str = "openai", **said: Any) -> list[str]:
    return [one.code for one in validate(messages, format=format, strict=True, **said)]


def acts(call_id: str, **more: object) -> Message:
    function = {"name": "look", "arguments": "{}"}
    call = {"id": call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call], **more}


def saw(call_id: str) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": "a key"}


def says(content: object = "Done.", **more: object) -> Message:
    return {"role": "assistant", "content": content, **more}


# An edit leaves it as it was


@pytest.mark.parametrize(
    "more",
    [
        {"reasoning_content": "Hm."},
        {"reasoning": "Hm."},
        {"reasoning_details": [{"type": "reasoning.text", "text": "Hm.", "signature": "c2ln"}]},
    ],
)
def test_reasoning_that_changed_or_went_alone_is_found(more: Message) -> None:
    before = [USER, acts("a", **more), saw("a"), says(**more), USER]

    assert codes(before, before=before) == []
    assert codes(before[:3], before=before) == []
    assert codes([USER, *before[3:]], before=before) == []
    for at in (1, 3):
        bare = {key: value for key, value in before[at].items() if key not in more}
        found = validate([*before[:at], bare, *before[at + 1 :]], format="openai", before=before)
        assert [(one.code, one.position) for one in found] == [("O7", at)]


def test_a_thought_signature_in_a_chat_stays_on_its_call() -> None:
    signed = acts("a")
    signed["tool_calls"][0]["extra_content"] = {"google": {"thought_signature": "c2ln"}}
    before = [USER, signed, saw("a")]

    assert codes(before, before=before) == []
    assert codes([USER, acts("a"), saw("a")], before=before) == ["O7"]


def test_the_same_call_id_may_come_again_with_other_reasoning() -> None:
    before = [USER, *(m for n in "12" for m in (acts("a", reasoning=n), saw("a")))]

    assert codes([USER, *before[3:]], before=before) == []


def test_a_signed_part_that_is_not_as_it_came_is_found() -> None:
    def said(text: str) -> Message:
        return {
            "role": "model",
            "parts": [{"text": text, "thought": True, "thoughtSignature": "x"}],
        }

    asked = {"role": "user", "parts": [{"text": "Go."}]}
    before = [asked, said("A long thought."), asked]

    assert codes(before, "gemini", before=before) == []
    assert codes([asked, said("..."), asked], "gemini", before=before) == ["G9"]
    assert codes([asked, asked], "gemini", before=before) == ["G6"]


def sealed(**more: object) -> Message:
    return {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "AA", **more}


ANSWER = {"type": "message", "role": "assistant", "id": "msg_1", "content": "Done."}
COMPACTED = {"type": "compaction", "id": "cmp_1", "encrypted_content": "BB"}


@pytest.mark.parametrize(
    ("changed", "violations"),
    [
        (sealed(), []),
        (sealed(encrypted_content="AB"), ["R9"]),
        (sealed(summary=[{"type": "summary_text", "text": "Hm."}]), ["R9"]),
        (sealed(content=[{"type": "reasoning_text", "text": "Hm."}]), ["R9"]),
        (sealed(summary=None), ["R9"]),
    ],
)
def test_a_sealed_item_goes_back_as_it_came(changed: Message, violations: list[str]) -> None:
    before = [USER, COMPACTED, sealed(), ANSWER, USER]
    after = [USER, COMPACTED, changed, ANSWER, USER]

    assert codes(after, "responses", before=before) == violations


def test_a_model_of_no_kind_breaks_nothing() -> None:
    junk: Any = ["deepseek-v4"]

    for name in ("openai", "gemini", "responses"):
        validate([USER], format=name, model=junk, strict=True, before=[USER])


# Refusals as users met them


# Every edit of ours keeps it


def with_reasoning(messages: list[Message]) -> list[Message]:
    """Return chat messages as a model that always thinks would have made them."""
    return [
        {**message, "reasoning_content": message.get("reasoning_content") or "Hm."}
        if message["role"] == "assistant"
        else message
        for message in messages
    ]


def as_they_are(messages: list[Message]) -> list[Message]:
    return messages


def edits(history: History, messages: list[Message]) -> Iterator[list[Message]]:
    """Yield what is left by edits that differ most, steps dropped and steps noted."""
    parsed = shortened.read(
        messages,
        history.format,
        observations=history.observations,
        **history.options,
    )
    numbers = [step.number for step in parsed.trajectory.steps[:-1] if not step.fixed]
    for elided in (numbers, numbers[::2], numbers[1::2], numbers[:1], numbers[-1:]):
        lines = dict.fromkeys(elided, "look -> a key")
        for noted in ((), elided, elided[::2]):
            yield shortened.write(parsed, history.format, lines, noted).messages


@pytest.mark.parametrize(
    ("format", "model", "made"),
    [
        ("openai", "kimi-k3", with_reasoning),
        ("openai", "kimi-k2.6", with_reasoning),
        ("openai", "deepseek-v4-pro", with_reasoning),
        ("openai", "glm-5.2", as_they_are),
        ("responses", "gpt-5.6-sol", as_they_are),
        ("responses", "grok-5", as_they_are),
        ("gemini", "gemini-3.8-flash", as_they_are),
    ],
)
def test_an_edit_takes_reasoning_with_its_step_or_leaves_it(
    format: str, model: str, made: Callable[[list[Message]], list[Message]]
) -> None:
    seen = 0
    for history in sample(format, 150, seed=5):
        if isinstance(history.messages, str):
            continue
        messages = made(history.messages)
        said: dict[str, Any] = {**history.options, "model": model}
        already = set(codes(messages, format, **said))
        for left in edits(history, messages):
            assert set(codes(left, format, before=messages, **said)) <= already
            seen += len(left) < len(messages)
    assert seen > 100

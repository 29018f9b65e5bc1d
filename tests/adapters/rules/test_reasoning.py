"""What each provider asks of the reasoning it sent, before an edit and after every edit of ours."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agora.adapters import ADAPTERS, validate
from agora.adapters.rules.refusals import names_history_rule
from agora.core.renditions.markers import BareMarkers
from agora.core.request import Request
from agora.core.tokens import Characters
from agora.testing import History, sample
from harness.renditions import renditions

Message = dict[str, Any]
USER = {"role": "user", "content": "Find it."}
TOOLS = [{"type": "function", "function": {"name": "look"}}]


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


LOOP = [USER, acts("a"), saw("a"), says(), USER]


# Who asks for it


@pytest.mark.parametrize(
    ("model", "thinking", "found"),
    [
        ("deepseek-v4-pro", None, ["D2"]),
        ("deepseek-ai/DeepSeek-V4-Flash", None, ["D2"]),
        ("deepseek-v4-pro", False, []),
        ("deepseek-v3.2", None, []),
        ("deepseek-v3.2", True, ["D2"]),
        ("kimi-k2.5", None, ["K1"]),
        ("kimi-k2.6", False, []),
        ("kimi-k2-0905-preview", None, []),
        ("kimi-k2-0905-preview", True, ["K1"]),
        ("moonshot-v1-128k", True, []),
        ("kimi-k3", None, ["K1", "K2"]),
        ("kimi-k2.7-code-highspeed", False, ["K1", "K2"]),
        ("kimi-code/k3", None, ["K1", "K2"]),
        ("gpt-5.6", True, []),
        (None, True, []),
    ],
)
def test_the_model_says_whose_reasoning_must_come_back(
    model: str | None, thinking: bool | None, found: list[str]
) -> None:
    assert codes(LOOP, model=model, thinking=thinking) == found


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_may_come_back_under_either_name_and_be_empty(field: str) -> None:
    said = {field: ""}
    messages = [USER, acts("a", **said), saw("a"), says(**said), USER]

    assert codes(messages, model="kimi-k3") == []
    assert codes(messages, model="deepseek-v4-pro", tools=TOOLS) == []


def test_details_of_reasoning_are_reasoning() -> None:
    details = [{"type": "reasoning.encrypted", "data": "c2VhbGVk"}]

    assert codes([USER, acts("a", reasoning_details=details), saw("a")], model="kimi-k2.6") == []


def test_with_tools_every_answer_of_deepseek_v4_comes_back_with_its_reasoning() -> None:
    messages = [USER, says(), USER]

    assert codes(messages, model="deepseek-v4-pro") == []
    assert codes(messages, model="deepseek-v4-pro", tools=TOOLS) == ["D2"]
    assert codes(messages, "deepseek", model="deepseek-v4-pro", tools=TOOLS) == ["D2"]


def test_what_is_said_before_the_user_speaks_was_not_thought_out() -> None:
    greeted = [says("How can I help?"), USER]

    assert codes(greeted, model="deepseek-v4-pro", tools=TOOLS) == ["T1"]
    assert codes(greeted, model="kimi-k3") == ["T1"]


def test_the_older_text_of_deepseek_is_not_said_of_its_newer_models() -> None:
    found = validate(LOOP[:3], format="deepseek", thinking=True, model="deepseek-v4-pro")
    assert found == []
    assert codes(LOOP[:3], "deepseek", thinking=True, model="deepseek-v4-pro") == ["D2"]
    assert codes(LOOP[:3], "deepseek", thinking=True) == ["D1"]


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


def test_answers_in_parts_are_told_apart_by_their_texts() -> None:
    parts = [{"type": "text", "text": "Done."}]
    before = [USER, says(parts, reasoning="1"), USER, says(reasoning="2"), USER, says([1])]

    assert "O7" not in codes(before, before=before)


def test_messages_that_are_new_owe_no_reasoning() -> None:
    before = [USER, acts("a", reasoning="Hm."), saw("a")]

    assert codes([*before, acts("b"), saw("b"), None], before=[*before, None]) == ["S2"]


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


@pytest.mark.parametrize(
    ("model", "found"),
    [
        (None, ["G4"]),
        ("gemini-3.8-flash", ["G4"]),
        ("google/gemini-4-argon", ["G4"]),
        ("gemini-2.5-pro", []),
        ("gemini-3-pro-image-preview", []),
    ],
)
def test_gemini_asks_for_signatures_from_its_third_version_on(
    model: str | None, found: list[str]
) -> None:
    call = {"functionCall": {"name": "look", "args": {}}}
    response = {"functionResponse": {"name": "look", "response": {}}}
    messages = [
        {"role": "user", "parts": [{"text": "Go."}]},
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [response]},
    ]

    assert codes(messages, "gemini", model=model) == found


def test_the_refusal_of_gemini_is_said_in_its_own_words() -> None:
    call = {"functionCall": {"name": "default_api:Bash", "args": {}}}
    response = {"functionResponse": {"name": "default_api:Bash", "response": {}}}
    messages = [
        {"role": "user", "parts": [{"text": "Go."}]},
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [response]},
    ]

    (found,) = validate(messages, format="gemini", strict=True)

    assert found.error.startswith(
        "Function call is missing a thought_signature in functionCall parts. This is required for"
        " tools to work correctly, and missing thought_signature may lead to degraded model"
        " performance. Additional data, function call `default_api:Bash`"
    )


def sealed(**more: object) -> Message:
    return {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "AA", **more}


ANSWER = {"type": "message", "role": "assistant", "id": "msg_1", "content": "Done."}
COMPACTED = {"type": "compaction", "id": "cmp_1", "encrypted_content": "BB"}


@pytest.mark.parametrize(
    ("changed", "by_openai", "by_xai"),
    [
        (sealed(), [], []),
        (sealed(encrypted_content="AB"), ["R9"], ["R10"]),
        (sealed(summary=[{"type": "summary_text", "text": "Hm."}]), ["R9"], ["R10"]),
        (sealed(content=[{"type": "reasoning_text", "text": "Hm."}]), ["R9"], ["R10"]),
        (sealed(summary=None), ["R9"], ["R11", "R10"]),
    ],
)
def test_a_sealed_item_goes_back_as_it_came(
    changed: Message, by_openai: list[str], by_xai: list[str]
) -> None:
    before = [USER, COMPACTED, sealed(), ANSWER, USER]
    after = [USER, COMPACTED, changed, ANSWER, USER]

    assert codes(after, "responses", before=before, model="gpt-5.6") == by_openai
    assert codes(after, "responses", before=before, model="grok-4.20") == by_xai


def test_a_compaction_goes_back_as_it_came() -> None:
    before = [USER, COMPACTED, USER]
    after = [USER, {**COMPACTED, "encrypted_content": "BC"}, USER]

    assert codes(before, "responses", before=before, model="grok-5") == []
    assert codes(after, "responses", before=before, model="grok-5") == ["R11"]
    assert codes(after, "responses", before=before) == ["R9"]


def test_reasoning_that_is_not_sealed_may_lack_a_summary() -> None:
    messages = [USER, {"type": "reasoning", "id": "rs_1"}, ANSWER]

    assert codes(messages, "responses", model="grok-5") == []


def test_a_model_of_no_kind_breaks_nothing() -> None:
    junk: Any = ["deepseek-v4"]

    for name in ("openai", "deepseek", "gemini", "responses"):
        validate([USER], format=name, model=junk, strict=True, before=[USER])


# Refusals as users met them


MISSING = (
    "Function call is missing a thought_signature in functionCall parts. This is required for tools"
    " to work correctly, and missing thought_signature may lead to degraded model performance."
    " Additional data, function call `default_api:Skill` , position 2. Please refer to"
    " https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
)
NO_REASONING = (
    "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2"
)
NOT_VERIFIED = (
    "The encrypted content gAAA...wXBV could not be verified."
    " Reason: Encrypted content could not be decrypted or parsed."
)
NOT_DECRYPTED = (
    "Could not decrypt the provided encrypted_content. Ensure the value is the unmodified"
    " encrypted_content from a previous response."
)
NOT_DECODED = (
    "Could not decode the compaction blob. Ensure it is unmodified from the compact response."
)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (MISSING, "G4"),
        ("Corrupted thought signature.", "G8"),
        ("Invalid thought signature.", "G9"),
        ("The `reasoning_content` in the thinking mode must be passed back to the API.", "D2"),
        ("Missing `reasoning_content` field in the assistant message at message index 2", "D1"),
        (NO_REASONING, "K1"),
        (NOT_VERIFIED, "R9"),
        (NOT_DECRYPTED, "R10"),
        (NOT_DECODED, "R11"),
    ],
)
def test_a_refusal_is_known_by_its_text(text: str, code: str) -> None:
    assert names_history_rule(json.dumps({"error": {"message": text}}).encode()) == code


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
    adapter = ADAPTERS[history.format]
    request = Request(
        messages=messages,
        format=history.format,
        observations=history.observations,
        **history.options,
    )
    parsed = adapter.parse(request, Characters())
    numbers = [step.number for step in parsed.trajectory.steps[:-1] if not step.fixed]
    for elided in (numbers, numbers[::2], numbers[1::2], numbers[:1], numbers[-1:]):
        lines = dict.fromkeys(elided, "look -> a key")
        for noted in ((), elided, elided[::2]):
            yield adapter.render(parsed, renditions(parsed, lines, noted), BareMarkers()).messages


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


def test_only_calls_since_the_user_last_asked_need_a_signature() -> None:
    def called(name: str) -> dict[str, Any]:
        return {"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}}]}

    def gave(name: str) -> dict[str, Any]:
        part = {"functionResponse": {"name": name, "response": {}}}
        return {"role": "user", "parts": [part]}

    said = {"role": "model", "parts": [{"text": "Done."}]}
    asked = {"role": "user", "parts": [{"text": "And now?"}]}
    begun = {"role": "user", "parts": [{"text": "Look."}]}
    before = [begun, called("peek"), gave("peek"), said]
    # What the model said in between begins no turn: the call behind it is of the same one.
    talking = {"role": "model", "parts": [{"text": "I look."}, *called("peek")["parts"]]}
    since = [begun, talking, gave("peek"), called("look"), gave("look")]

    assert codes([*before, asked], "gemini", model="gemini-3-pro") == []
    assert codes(since, "gemini", model="gemini-3-pro") == ["G4", "G4"]

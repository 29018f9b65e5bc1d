"""Mistral's own validator, asked about the same messages."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agora.adapters import validate

pytest.importorskip("mistral_common")

from mistral_common.exceptions import MistralCommonException
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.protocol.instruct.validator import ValidationMode, get_validator
from mistral_common.tokens.tokenizers.base import TokenizerVersion

Message = dict[str, Any]


def call(*ids: str) -> Message:
    function = {"name": "look", "arguments": "{}"}
    calls = [{"id": i, "type": "function", "function": function} for i in ids]
    return {"role": "assistant", "content": "", "tool_calls": calls}


def result(call_id: str) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": "seen", "name": "look"}


SYSTEM = {"role": "system", "content": "You are."}
USER = {"role": "user", "content": "Go."}
SAID = {"role": "assistant", "content": "Done."}
A, B, ODD = "aaaaaaaa1", "bbbbbbbb2", "call_1"


def refusal(messages: list[Message], version: TokenizerVersion) -> str | None:
    """Return what Mistral's validator says against `messages`, or None."""
    request: ChatCompletionRequest[Any] = ChatCompletionRequest.from_openai(messages, model="any")
    try:
        get_validator(version, ValidationMode.serving).validate_request(request)
    except MistralCommonException as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("code", "messages"),
    [
        ("M1", [USER, call(A, B), result(A), SAID, USER]),
        ("M1", [USER, call(A)]),
        ("M4", [USER, SAID]),
        ("M5", [USER, call(ODD), result(ODD)]),
        ("M6", [USER, call(A), result(A), result(A)]),
        ("M6", [USER, call(A, A), result(A)]),
        ("M7", [USER, SAID, SYSTEM, USER]),
    ],
)
def test_our_text_is_the_one_mistral_says(code: str, messages: list[Message]) -> None:
    ours = [one.error for one in validate(messages, format="mistral", strict=True)]

    theirs = refusal(messages, TokenizerVersion.v11)

    assert theirs is not None
    assert [one.code for one in validate(messages, format="mistral", strict=True)].count(code)
    assert any(said in theirs.replace("Roles.", "") for said in ours)


alphabet = st.sampled_from(
    [SYSTEM, USER, SAID, call(A), call(A, B), call(A, A), result(A), result(B)]
)


@settings(deadline=None, max_examples=400)
@given(st.lists(alphabet, max_size=7))
def test_what_newer_models_refuse_is_what_breaks_a_rule(rest: list[Message]) -> None:
    messages = [USER, *rest]

    legal = not validate(messages, format="mistral")

    assert legal == (refusal(messages, TokenizerVersion.v13) is None)


@settings(deadline=None, max_examples=200)
@given(st.lists(alphabet | st.sampled_from([call(ODD), result(ODD)]), max_size=6))
def test_what_older_models_refuse_breaks_a_strict_rule(rest: list[Message]) -> None:
    messages = [SYSTEM, USER, *rest]
    found = {one.code for one in validate(messages, format="mistral", strict=True)}

    # The validator now lets the user speak after a tool; endpoints have refused it (M3).
    assert bool(found - {"M3"}) == (refusal(messages, TokenizerVersion.v11) is not None)


@pytest.mark.parametrize("call_id", ["null", ""])
def test_a_call_needs_an_id(call_id: str) -> None:
    messages = [USER, call(call_id), result(call_id)]

    assert refusal(messages, TokenizerVersion.v13) is not None
    assert {one.code for one in validate(messages, format="mistral")} == {"M8"}

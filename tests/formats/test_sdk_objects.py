import copy
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agora
from agora import Budget, Compressor
from agora.formats import FORMATS, to_dicts, to_sdk_objects
from harness.histories import History
from harness.histories.strategies import histories

EAGER = Compressor(edits="every_call", budget=Budget(limit=0), k_recent=1, min_tokens=0)
MESSAGE_FORMATS = [name for name in FORMATS if name != "transcript"]


class Model:
    """An object as the SDKs make them, without their package."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def model_dump(
        self, *, mode: str, by_alias: bool, exclude_unset: bool, exclude: Any, warnings: bool
    ) -> dict[str, Any]:
        assert (mode, by_alias, exclude_unset, warnings) == ("json", True, True, False)
        fields = {key: as_json(one) for key, one in self.fields.items()}
        return {key: one for key, one in fields.items() if key not in (exclude or ())}

    @classmethod
    def model_validate(cls, fields: dict[str, Any]) -> "Model":
        return cls(**fields)


class Older:
    """An object that only knows `to_dict`, and is not made anew."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def to_dict(self) -> dict[str, Any]:
        return {key: as_json(one) for key, one in self.fields.items()}


def as_json(value: Any) -> Any:
    """Return a value as it goes over the wire."""
    if isinstance(value, Model | Older):
        value = value.fields
    if isinstance(value, dict):
        return {key: as_json(one) for key, one in value.items()}
    return [as_json(one) for one in value] if isinstance(value, list | tuple) else value


def with_objects(value: Any, chance: random.Random, depth: int = 4) -> Any:
    """Return messages in which some dicts are objects."""
    if not depth or not isinstance(value, dict | list):
        return value
    if isinstance(value, list):
        return [with_objects(one, chance, depth - 1) for one in value]
    inside = {key: with_objects(one, chance, depth - 1) for key, one in value.items()}
    kind: Any = chance.choice((dict, dict, Model, Older))
    return kind(**inside)


@pytest.mark.parametrize("format_name", MESSAGE_FORMATS)
@settings(deadline=None)
@given(data=st.data())
def test_objects_are_compressed_as_the_dicts_they_stand_for_and_come_back_as_they_were(
    format_name: str, data: st.DataObject
) -> None:
    history: History = data.draw(histories(format_name))
    own = with_objects(history.messages, random.Random(data.draw(st.integers())))
    kept = copy.deepcopy(as_json(own))

    by_dict = EAGER.compress(history.messages, **history.request)
    by_object = EAGER.compress(own, **history.request)

    assert as_json(by_object.messages) == by_dict.messages
    assert (by_object.reason, by_object.decisions) == (by_dict.reason, by_dict.decisions)
    assert as_json(own) == kept
    if not by_dict.changed:
        assert by_object.messages is own
        return
    for at, sent, new in zip(by_dict.positions, by_dict.messages, by_object.messages, strict=True):
        if sent is history.messages[at]:
            assert new is own[at]
        elif isinstance(own[at], Model):
            assert type(new) is Model
        else:
            assert type(new) is dict


@given(histories("anthropic"))
def test_plain_messages_are_not_copied(history: History) -> None:
    assert to_dicts(history.messages) is history.messages


@pytest.mark.parametrize("value", [None, 3, "text", b"bytes", object(), Model, [object()]])
def test_what_is_no_message_stays_what_it_is(value: Any) -> None:
    assert to_dicts(value) is value


def test_an_object_that_cannot_be_read_is_left_as_it_is() -> None:
    class Unreadable:
        def model_dump(self, **options: Any) -> dict[str, Any]:
            raise ValueError("broken")

    class Odd:
        def to_dict(self) -> str:
            return "no dict"

    own = [Unreadable(), Odd()]

    assert to_dicts(own) is own
    assert agora.compress(own).messages is own


def test_a_block_that_got_a_breakpoint_is_of_its_class_and_one_that_was_added_is_a_dict() -> None:
    use, thought = Model(type="tool_use", id="a"), Model(type="thinking", thinking="hm")
    own = [{"role": "assistant", "content": (thought, "text", use)}]
    read = to_dicts(own)
    marked = {**read[0]["content"][2], "cache_control": {"type": "ephemeral"}}
    added = {"type": "text", "text": "[steps 1-2 removed]"}
    written = [{"role": "assistant", "content": ["text", marked, added], "name": "me"}]

    [message] = to_sdk_objects(written, [0], read, own)

    assert message["content"][0] == "text"
    assert type(message["content"][1]) is Model
    assert as_json(message["content"][1]) == marked
    assert message["content"][2] is added
    assert message["name"] == "me"


def test_an_object_whose_class_loses_what_was_changed_comes_back_as_a_dict() -> None:
    class Narrow(Model):
        @classmethod
        def model_validate(cls, fields: dict[str, Any]) -> "Model":
            return cls(role=fields["role"])

    own = [Narrow(role="tool", content="long")]
    written = [{"role": "tool", "content": "short"}]

    assert to_sdk_objects(written, [0], to_dicts(own), own) == written


def chat_of_sdk(steps: int) -> list[Any]:
    """Return the history of an agent that appends `response.choices[0].message`."""
    chat = pytest.importorskip("openai.types.chat")
    messages: list[Any] = [{"role": "user", "content": "Read all files."}]
    for n in range(steps):
        function = {"name": "read_file", "arguments": json.dumps({"path": f"src/part_{n}.py"})}
        call = {"id": f"call_{n}", "type": "function", "function": function}
        answer = {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]}
        messages.append(chat.ChatCompletionMessage.model_validate(answer))
        messages.append({"role": "tool", "tool_call_id": f"call_{n}", "content": f"x = {n}\n" * 90})
    return messages


def test_messages_of_the_openai_sdk_are_compressed_and_stay_its_objects() -> None:
    messages = chat_of_sdk(10)

    compression = EAGER.compress(messages)
    in_dicts = [
        {"role": "assistant", "tool_calls": one.tool_calls} if hasattr(one, "tool_calls") else one
        for one in messages
    ]

    assert compression.changed
    assert agora.validate(compression.messages, format="openai") == []
    assert compression.messages[-2] is messages[-2]
    assert EAGER.compress(in_dicts).tokens_after == compression.tokens_after
    assert agora.parse(messages).steps == agora.parse(to_dicts(messages)).steps


def test_contents_of_the_gemini_sdk_are_compressed_and_stay_its_objects() -> None:
    types = pytest.importorskip("google.genai.types")
    contents: list[Any] = [types.Content(role="user", parts=[types.Part(text="Read all files.")])]
    for n in range(10):
        call = types.Part.from_function_call(name="read_file", args={"n": n})
        answer = types.Part.from_function_response(
            name="read_file", response={"result": f"x = {n}\n" * 90}
        )
        contents += [
            types.Content(role="model", parts=[call]),
            types.Content(role="user", parts=[answer]),
        ]

    compression = EAGER.compress(contents)

    assert compression.format == "gemini"
    assert compression.changed
    assert all(type(one) is types.Content for one in compression.messages)
    assert compression.messages[-1] is contents[-1]

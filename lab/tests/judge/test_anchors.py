import json
from dataclasses import replace

import pytest
from lab.harness.bookings import CODE, by_calls, by_text
from lab.harness.tiny_judge import tiny_tokenizer

from agora_lab.judge.anchors import Recorded, anchors_of, half_of
from agora_lab.judge.calls import calls_of
from agora_lab.judge.rendering import ModelTokens, Rendering
from agora_lab.judge.schemas import schemas
from agora_lab.judge.sources import SOURCES, recorded
from agora_lab.judge.targets import ACTION, NEEDED, action_spans, marks


@pytest.mark.parametrize("trajectory", [by_calls(), by_text()])
def test_an_anchor_stands_before_an_action_that_needs_something_outside_the_floor(
    trajectory: Recorded,
) -> None:
    [anchor] = anchors_of(trajectory)

    assert anchor.needed == (CODE,)
    assert anchor.step == 6
    assert anchor.target is trajectory.messages[-2]
    assert anchor.messages == list(trajectory.messages[:-2])


def test_what_the_floor_has_is_not_needed_from_elsewhere() -> None:
    trajectory = by_calls()
    told = {"role": "user", "content": f"Book {CODE}, traveller 1."}
    messages = (trajectory.messages[0], told, *trajectory.messages[2:])

    assert not list(anchors_of(replace(trajectory, messages=messages)))
    assert not list(anchors_of(by_calls(steps=4)))


def test_messages_that_are_no_trajectory_have_no_anchors() -> None:
    broken = ({"role": "tool", "content": "a result of nothing"},)

    assert not list(anchors_of(replace(by_calls(), messages=broken)))


def test_halves_depend_on_the_group_alone_and_both_are_used() -> None:
    halves = {half_of("coding", f"owner__repo{n}") for n in range(20)}

    assert halves == {"validation", "test"}
    [one] = anchors_of(replace(by_calls("7"), group="g"))
    [other] = anchors_of(replace(by_calls("8"), group="g"))
    assert one.half == other.half


def test_schemas_have_the_names_and_types_of_arguments_and_none_of_their_values() -> None:
    def called(**arguments: object) -> dict[str, object]:
        function = {"name": "book", "arguments": json.dumps(arguments)}
        return {"role": "assistant", "tool_calls": [{"function": function}]}

    first = called(flight="HAT1", bags=1, paid=[{"id": "c1", "amount": 2}], note=None)
    second = called(flight="HAT2", bags=1.5, paid=[], seat={"row": 1})
    [schema] = schemas([[first], [second]])
    parameters = schema["function"]["parameters"]

    assert "HAT1" not in json.dumps(schema)
    assert parameters["required"] == ["flight", "bags", "paid"]
    assert parameters["properties"]["bags"] == {"type": "number"}
    assert parameters["properties"]["paid"]["items"]["required"] == ["id", "amount"]
    assert parameters["properties"]["seat"]["properties"] == {"row": {"type": "integer"}}


def test_arguments_that_are_no_object_are_one_text() -> None:
    calls = [{"function": {"name": "f", "arguments": given}} for given in ("{", "[1]", "")]

    assert [call.arguments for call in calls_of({"tool_calls": calls})] == [
        {"arguments": "{"},
        {"arguments": [1]},
        {},
    ]


def test_the_action_is_the_values_of_a_call_without_their_quotes() -> None:
    rendering = Rendering(tiny_tokenizer())
    [anchor] = anchors_of(by_calls())
    target = rendering.target(anchor.messages, anchor.target, anchor.recorded.tools)
    _, spans = rendering.pieces(target)
    marked = marks(target, anchor.target, anchor.needed, spans)

    assert (
        target
        == f'<tool_call>\n{{"name": "book", "arguments": {{"flight": "{CODE}"}}}}\n</tool_call>'
    )
    assert "".join(target[a:b] for (a, b), m in zip(spans, marked, strict=True) if m) == CODE
    assert {m for m in marked if m} == {NEEDED}


def test_nested_values_are_found_and_what_was_not_needed_is_only_action() -> None:
    arguments = {"flights": [{"id": "HAT1", "bags": 0}, {"id": "é2"}], "note": "", "ok": True}
    call = {"function": {"name": "f", "arguments": json.dumps(arguments)}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    rendering = Rendering(tiny_tokenizer())
    target = rendering.target([], message)
    _, spans = rendering.pieces(target)
    marked = marks(target, message, ["HAT1"], spans)

    assert [target[a:b] for a, b in action_spans(target, message)] == ["HAT1", "0", "é2", "true"]
    kept = [(target[a:b], m) for (a, b), m in zip(spans, marked, strict=True) if m and b > a]
    assert "".join(text for text, m in kept if m == NEEDED) == "HAT1"
    assert "".join(text for text, m in kept if m == ACTION) == "0é2true"


def test_the_action_of_a_text_agent_is_its_command_or_all_it_says() -> None:
    [anchor] = anchors_of(by_text())
    said = str(anchor.target["content"])

    assert [said[a:b] for a, b in action_spans(said, anchor.target)] == [f"book {CODE}"]
    assert action_spans("go north", {"content": "go north"}) == [(0, 8)]


@pytest.mark.parametrize("text", ["plain", "é台灯 mixed 🎈 and more", ""])
def test_pieces_joined_are_the_text(text: str) -> None:
    rendering = Rendering(tiny_tokenizer())
    ids, spans = rendering.pieces(text)

    assert "".join(text[a:b] for a, b in spans) == text
    assert len(ids) == len(spans) == ModelTokens.of(rendering.tokenizer).count(text)


def test_a_prompt_has_its_tools_and_ends_where_the_assistant_begins() -> None:
    rendering = Rendering(tiny_tokenizer())
    [anchor] = anchors_of(by_calls())
    prompt = rendering.prompt(anchor.messages, anchor.recorded.tools)

    assert '"flight"' in prompt.partition("You book flights")[0]
    assert prompt.endswith("<|im_start|>assistant\n")


def test_the_airline_log_has_anchors_with_rebuilt_tools() -> None:
    try:
        found = recorded(SOURCES["airline"])
    except Exception as error:
        pytest.skip(str(error))
    anchors = [anchor for one in found[:40] for anchor in anchors_of(one)]

    assert len(found) == 200
    assert {tool["function"]["name"] for tool in found[0].tools} >= {"book_reservation"}
    assert anchors
    assert all(anchor.target["role"] == "assistant" for anchor in anchors)

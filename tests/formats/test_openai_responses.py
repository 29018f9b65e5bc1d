from typing import Any

import pytest

import agora
from agora import Budget, Compressor
from agora.errors import ParseError
from agora.formats import Parsed, validate
from harness import shortened
from harness.shortened import marker, signed_marker

USER = {"role": "user", "content": [{"type": "input_text", "text": "Find it."}]}


def read(messages: Any, **options: Any) -> Parsed:
    return shortened.read(messages, "responses", **options)


def acts(call_id: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "look", "arguments": "{}"}


def saw(call_id: str, output: Any = "a key") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def thinks(**more: Any) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": "Perhaps here."}]
    return {"type": "reasoning", "id": "rs_1", "summary": summary, **more}


def parse(*items: dict[str, Any]) -> Any:
    return read(list(items))


def elide(*items: dict[str, Any], **numbers: str) -> list[Any]:
    elided = {int(name[1:]): line for name, line in numbers.items()}
    parsed = parse(*items)
    rendered: list[Any] = shortened.write(parsed, "responses", elided).messages
    return rendered


def test_reasoning_goes_with_the_call_it_led_to() -> None:
    parsed = parse(USER, thinks(), acts("a"), saw("a"), acts("b"), saw("b"))

    assert parsed.step_of_message == [0, 1, 1, -1, 2, -2]
    assert parsed.trajectory.steps[0].thought == "Perhaps here."


def test_sealed_reasoning_is_counted_without_being_read() -> None:
    sealed = parse(USER, thinks(encrypted_content="x" * 1600), acts("a"), saw("a"))
    plain = parse(USER, thinks(), acts("a"), saw("a"))

    assert sealed.trajectory.tokens - plain.trajectory.tokens == 300


def test_an_answer_with_its_reasoning_and_hosted_calls_is_never_a_step() -> None:
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text"}]}
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    parsed = parse(USER, thinks(), search, answer, USER, acts("a"), saw("a"))

    assert parsed.step_of_message == [0, 0, 0, 0, 0, 1, -1]


def test_a_step_with_an_item_we_do_not_know_is_never_a_candidate() -> None:
    odd = {"type": "compaction", "encrypted_content": "…"}
    parsed = parse(USER, odd, acts("a"), saw("a"), acts("b"), saw("b"))

    assert [s.fixed for s in parsed.trajectory.steps] == ["holds a compaction item", ""]


def test_outputs_of_a_shape_of_their_own_are_never_replaced() -> None:
    click = {"type": "computer_call", "call_id": "a", "action": {"type": "click", "x": 3}}
    shot = {"type": "computer_screenshot", "image_url": "data:image/png;base64," + "A" * 9_000}
    seen = {"type": "computer_call_output", "call_id": "a", "output": shot}
    shell = {"type": "shell_call", "call_id": "b", "action": {"commands": ["ls"]}}
    ran = {"type": "shell_call_output", "call_id": "b", "output": {"stdout": "x"}}
    parsed = parse(USER, click, seen, shell, ran)

    steps = parsed.trajectory.steps
    assert [s.fixed for s in steps] == [
        "holds a computer_call_output item",
        "holds a shell_call_output item",
    ]
    assert steps[0].tokens < 1_200
    assert steps[1].action == 'shell_call {"commands": ["ls"]}'


def text(words: str) -> dict[str, str]:
    return {"type": "input_text", "text": words}


def test_a_marker_goes_into_an_output_as_text_or_as_a_part() -> None:
    items = (USER, acts("a"), saw("a"), acts("b"), saw("b"), acts("c"), saw("c"))
    assert elide(*items, n2="")[2] == saw("a", f"a key\n\n{marker(2)}")

    parts = (USER, acts("a"), saw("a", [text("a key")]), *items[3:])
    assert elide(*parts, n2="")[2] == saw("a", [text("a key"), text(marker(2))])


def test_a_marker_passes_over_items_that_cannot_hold_it() -> None:
    click = {"type": "computer_call", "call_id": "a", "action": {}}
    seen = {"type": "computer_call_output", "call_id": "a", "output": {"type": "x"}}
    out = elide(USER, click, seen, acts("b"), saw("b"), acts("c"), saw("c"), n2="")

    assert out[0]["content"][-1] == text(signed_marker(2))
    assert out[1:3] == [click, seen]


def test_without_any_message_that_could_hold_a_marker_the_format_says_so() -> None:
    mute = {"role": "user", "content": None}

    with pytest.raises(ParseError, match="no message before step 1"):
        elide(mute, acts("a"), saw("a"), acts("b"), saw("b"), n1="")


def test_a_plain_string_is_the_task_and_comes_back_as_it_is() -> None:
    parsed = read("Find it.")

    assert parsed.trajectory.task == "Find it."
    assert shortened.write(parsed, "responses", {}).messages == "Find it."


def test_system_items_are_fixed_and_odd_content_is_counted() -> None:
    developer = {"type": "message", "role": "developer", "content": "Be good."}
    image = {"role": "user", "content": [{"type": "input_image", "image_url": "x"}, "odd"]}
    parsed = parse(developer, USER, image, acts("a"), saw("a", {"rows": [1]}))

    assert parsed.step_of_message == [0, 0, 0, 1, -1]
    assert parsed.trajectory.steps[0].observation == '{"rows": [1]}'
    assert parsed.trajectory.tokens > 1_000


def test_a_role_and_an_item_that_are_not_known_are_kept_in_place() -> None:
    odd, new = {"role": "critic", "content": "Too slow."}, {"type": "hologram", "id": "h"}
    items = [USER, acts("a"), saw("a"), odd, thinks(), new, acts("b"), saw("b"), acts("c")]
    parsed = parse(*items, saw("c"))

    assert validate([*items, saw("c")], format="responses") == []
    assert [step.removable for step in parsed.trajectory.steps] == [False, True, True]
    assert parsed.trajectory.steps[1].fixed == "holds a hologram item"
    assert elide(*items, saw("c"), n1="", n3="")[3:6] == [odd, thinks(), new]


def test_on_a_model_that_drops_reasoning_at_an_edit_it_counts_as_gone_and_its_items_stay() -> None:
    sealed = thinks(encrypted_content="x" * 4_000)
    items = [USER]
    for call_id in "abcdefgh":
        items += [{**sealed, "id": f"rs_{call_id}"}, acts(call_id), saw(call_id, "a key " * 200)]
    eager = Compressor(edits="every_call", budget=Budget(limit=2_000), k_recent=1, min_tokens=0)

    kept, dropped = (eager.compress(items, model=model) for model in ("gpt-5.6-sol", "gpt-6.1-sol"))

    assert agora.parse(items, format="responses").steps[0].thinking_tokens > 700
    assert kept.thinking.blocks == 0
    assert dropped.thinking.blocks == 8
    assert validate(dropped.messages, format="responses", before=items) == []
    reasoning = [item for item in dropped.messages if item.get("type") == "reasoning"]
    assert all(item in items for item in reasoning)
    assert len(dropped.messages) > len(kept.messages)

from typing import Any

import pytest

from agora.formats import Parsed, format_named
from harness import shortened
from harness.shortened import marker, note, signed_marker

FORMAT: Any = format_named("bedrock")
POINT = {"cachePoint": {"type": "default"}}
LATER = {"cachePoint": {"type": "default", "ttl": "1h"}}
PICTURE = {"image": {"format": "png", "source": {"bytes": b"A" * 100_000}}}
REASONED = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}


def text(words: str) -> dict[str, Any]:
    return {"text": words}


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


USER = user(text("Find it."))


def acts(*ids: str, before: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    uses = [{"toolUse": {"toolUseId": i, "name": "look", "input": {"at": i}}} for i in ids]
    return {"role": "assistant", "content": [*before, *uses]}


def result(tool_id: str, *content: dict[str, Any], **more: Any) -> dict[str, Any]:
    blocks = list(content) or [text("a key")]
    return {"toolResult": {"toolUseId": tool_id, "content": blocks, **more}}


def parse(*messages: dict[str, Any], **options: Any) -> Parsed:
    return shortened.read(list(messages), "bedrock", **options)


def elide(*messages: dict[str, Any], **numbers: str) -> list[Any]:
    elided = {int(name[1:]): line for name, line in numbers.items()}
    parsed = parse(*messages)
    rendered: list[Any] = shortened.write(parsed, "bedrock", elided).messages
    return rendered


def test_a_step_is_the_blocks_of_a_call_and_the_user_message_with_its_results() -> None:
    parsed = parse(USER, acts("a", "b"), user(result("b", {"json": {"n": 2}}), result("a")))

    assert parsed.step_of_message == [0, 1, -1]
    assert parsed.trajectory.steps[0].action == 'look {"at": "a"}\nlook {"at": "b"}'
    assert parsed.trajectory.steps[0].observation == '{"n": 2}\na key'


def test_elided_steps_leave_their_marker_inside_the_result_before_them_or_in_user_text() -> None:
    messages = (USER, acts("a"), user(result("a")), acts("b"), user(result("b")), acts("c"))
    out = elide(*messages, user(result("c")), n2="look b -> x1")

    assert out[2] == user(result("a", text("a key"), text(f"{marker(2)}\n2 look b -> x1")))
    first = elide(*messages, user(result("c")), n1="")[0]
    assert first == user(text("Find it."), text(signed_marker(1)))


def test_user_text_next_to_results_is_user_text_and_masks_the_step() -> None:
    results = user(result("a", PICTURE), result("b"), text("Hurry."), POINT)
    messages = (USER, acts("a", "b"), results, acts("c"), user(result("c")))

    out = elide(*messages, n1="look -> x1")

    said = parse(*messages).trajectory.utterances
    assert [(u.text, u.by_user) for u in said] == [("Hurry.", True)]
    assert out[2] == user(
        result("a", text(note(1, "x1"))),
        result("b", text(note(1))),
        text("Hurry."),
        POINT,
    )


def test_tools_that_the_provider_runs_stay_in_the_message_that_used_them() -> None:
    use = {"toolUse": {"toolUseId": "s", "name": "search", "input": {}, "type": "server_tool_use"}}
    found = {"toolResult": {"toolUseId": "s", "content": []}}
    parsed = parse(USER, acts("a", before=(use, found)), user(result("a")))

    assert parsed.trajectory.steps[0].fixed == ""
    assert len(parsed.trajectory.steps[0].calls) == 1


def test_blocks_we_do_not_know_keep_their_step_from_being_a_candidate() -> None:
    odd: dict[str, Any] = {"hologram": {}}
    parsed = parse(
        USER,
        acts("a", before=(odd,)),
        user(result("a")),
        acts("b", before=({},)),
        user(result("b")),
        acts("c"),
        user(result("c", odd)),
    )

    assert [s.fixed for s in parsed.trajectory.steps] == [
        "holds a hologram block",
        "holds a nameless block",
        "holds a hologram block",
    ]


@pytest.mark.parametrize(
    ("reasoning", "tokens"),
    [
        (REASONED["reasoningContent"], len("hm")),
        ({"redactedContent": b"A" * 400}, 100),
        # The same bytes in base64.
        ({"redactedContent": "QUFB" * 133 + "QQ=="}, 100),
    ],
)
def test_reasoning_is_a_part_of_what_its_step_costs_though_it_cannot_be_read(
    reasoning: dict[str, Any], tokens: int
) -> None:
    plain, reasoned = (
        parse(USER, acts("a", before=before), user(result("a"))).trajectory.steps[0]
        for before in ((), ({"reasoningContent": reasoning},))
    )

    assert reasoned.thinking_tokens == tokens
    assert reasoned.tokens == plain.tokens + tokens


def test_a_marker_stands_inside_the_last_result_whatever_the_user_says_behind_it() -> None:
    message = user(result("a"), result("b"), text("Hurry."))

    marked = user(result("a"), result("b", text("a key"), text("mark")), text("Hurry."))
    assert FORMAT.append_text(message, "mark") == marked
    assert FORMAT.append_text(user(text("Hurry.")), "mark") == user(text("Hurry."), text("mark"))


def test_a_cache_point_of_an_elided_step_moves_to_the_message_that_stays_before_it() -> None:
    later = (acts("b"), user(result("b"), POINT))

    out = elide(USER, acts("a"), user(result("a"), LATER), *later, n1="")

    assert out[0] == user(text("Find it."), text(signed_marker(1)), LATER)
    assert out[1:] == list(later)


def test_two_cache_points_in_one_place_become_one() -> None:
    step = (acts("a"), user(result("a"), POINT), acts("b"), user(result("b"), LATER))

    out = elide(USER, *step, acts("c"), user(result("c")), n1="", n2="")

    assert out[0] == user(text("Find it."), text(signed_marker(1, 2)), POINT)

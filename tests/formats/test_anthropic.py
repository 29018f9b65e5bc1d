from typing import Any

import pytest

from agora import Budget, Compressor
from agora.core import Result
from agora.formats import Parsed, format_named, validate
from harness import shortened
from harness.histories import sample
from harness.shortened import marker, note, signed_marker

FORMAT: Any = format_named("anthropic")
EAGER = Compressor(edits="every_call", budget=Budget(limit=0), k_recent=1, min_tokens=0)
USER = {"role": "user", "content": "Find it."}
CACHE = {"type": "ephemeral"}


def acts(*ids: str, before: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    uses = [{"type": "tool_use", "id": i, "name": "look", "input": {"at": i}} for i in ids]
    return {"role": "assistant", "content": [*before, *uses]}


def result(tool_id: str, content: Any = "a key", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": tool_id, "content": content, **more}


def saw(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}


def parse(*messages: dict[str, Any], **options: Any) -> Parsed:
    return shortened.read(list(messages), "anthropic", **options)


def elide(*messages: dict[str, Any], **numbers: str) -> list[Any]:
    elided = {int(name[1:]): line for name, line in numbers.items()}
    parsed = parse(*messages)
    rendered: list[Any] = shortened.write(parsed, "anthropic", elided).messages
    return rendered


def test_a_step_is_the_blocks_of_a_call_and_the_user_message_with_its_results() -> None:
    parsed = parse(USER, acts("a", "b"), saw(result("b", "two"), result("a", "one")))

    assert parsed.step_of_message == [0, 1, -1]
    assert parsed.trajectory.steps[0].action == 'look {"at": "a"}\nlook {"at": "b"}'
    assert parsed.trajectory.steps[0].observation == "two\none"


def test_elided_steps_leave_their_marker_in_the_result_before_them() -> None:
    messages = (USER, acts("a"), saw(result("a")), acts("b"), saw(result("b")), acts("c"))
    out = elide(*messages, saw(result("c")), n2="look b -> x1")

    own = result("a")["content"]
    assert out[2] == saw(result("a", f"{own}\n\n{marker(2)}\n2 look b -> x1"))
    first = elide(*messages, saw(result("c")), n1="")[0]
    assert first["content"] == f"Find it.\n\n{signed_marker(1)}"


def test_with_thinking_every_step_is_masked_and_no_assistant_block_goes() -> None:
    thinking = acts("a", before=(THOUGHT, text("let me see")))
    messages = (USER, thinking, saw(result("a")), acts("b"), saw(result("b")))

    out = elide(*messages, n1="look a -> x1")

    assert out == [USER, thinking, saw(result("a", note(1, "x1"))), *messages[3:]]
    assert parse(*messages).trajectory.steps[0].thought == "hm\nlet me see"


def test_every_result_of_a_masked_step_is_replaced_and_keeps_its_shape() -> None:
    results = saw(result("a", [text("x")], is_error=True), result("b"), text("Hurry."))
    messages = (USER, acts("a", "b"), results, acts("c"), saw(result("c")))
    out = elide(*messages, n1="look -> x1")

    assert out[2] == saw(
        result("a", [text(note(1, "x1"))], is_error=True),
        result("b", note(1)),
        text("Hurry."),
    )


def test_blocks_we_do_not_know_keep_their_step_from_being_a_candidate() -> None:
    odd = {"type": "container_upload", "file_id": "f"}
    reference = [{"type": "tool_reference", "tool_name": "t"}]
    parsed = parse(
        USER,
        acts("a", before=(odd,)),
        saw(result("a")),
        acts("b", before=({},)),
        saw(result("b")),
        acts("c"),
        saw(result("c", reference)),
    )

    assert [s.fixed for s in parsed.trajectory.steps] == [
        "holds a container_upload block",
        "holds a nameless block",
        "holds a tool_reference block",
    ]


def test_images_and_documents_cost_a_constant() -> None:
    image = {"type": "image", "source": {"type": "base64", "data": "A" * 100_000}}
    parsed = parse(saw(text("Find it."), image), acts("a"), saw(result("a", [image])))

    assert 2_000 < parsed.trajectory.tokens < 3_000
    document = {**image, "type": "document"}
    more = parse(saw(text("Find it."), document), acts("a"), saw(result("a", [document])))
    assert 2_000 < more.trajectory.tokens - parsed.trajectory.tokens < 20_000


def test_thinking_is_a_part_of_what_its_step_costs() -> None:
    plain, thinking = (
        parse(USER, acts("a", before=before), saw(result("a"))).trajectory.steps[0]
        for before in ((), (THOUGHT,))
    )

    assert thinking.thinking_tokens == len("hm")
    assert thinking.tokens == plain.tokens + len("hm")


def test_a_breakpoint_of_an_elided_step_moves_to_the_message_that_stays_before_it() -> None:
    marked = saw(result("a", cache_control=CACHE))
    later = (acts("b"), saw(result("b", cache_control=CACHE)))

    out = elide(USER, acts("a"), marked, *later, n1="")

    assert out[0]["content"] == [text(f"Find it.\n\n{signed_marker(1)}", cache_control=CACHE)]
    assert out[1:] == list(later)


def test_a_message_with_a_breakpoint_of_its_own_keeps_it() -> None:
    user = saw(text("Find it.", cache_control=CACHE))
    marked = saw(result("a", cache_control={"type": "ephemeral", "ttl": "1h"}))
    second = saw(result("b", cache_control=CACHE))
    messages = (user, acts("a"), marked, acts("b"), second, acts("c"), saw(result("c")))

    out = elide(*messages, n1="", n2="")

    assert out[0]["content"][0] == text("Find it.", cache_control=CACHE)
    controls = [block.get("cache_control") for block in out[0]["content"]]
    assert controls == [CACHE, {"type": "ephemeral", "ttl": "1h"}]


def test_a_masked_observation_of_text_keeps_its_breakpoint() -> None:
    says = {"role": "assistant", "content": "Thought: hm\nAction: open box 1"}
    seen = saw(text("Observation: a key", cache_control=CACHE))
    plain = {"role": "user", "content": "Observation: a key"}
    messages = (USER, says, seen, USER, says, plain, USER, says, plain)

    out = elide(*messages, n1="open -> key 1", n2="open")

    assert out[2] == saw(text(f"Observation: {note(1, 'key 1')}", cache_control=CACHE))
    assert out[5] == {"role": "user", "content": f"Observation: {note(2)}"}


SYSTEM = {"role": "system", "content": "Plan mode is on."}


def test_system_text_inside_the_messages_stays_and_masks_the_step_before_it() -> None:
    blocks = {"role": "system", "content": [text("Plan mode is off.")]}
    messages = [USER, acts("a"), saw(result("a")), SYSTEM, acts("b"), saw(result("b")), blocks]
    parsed = parse(*messages)

    assert [step.removable for step in parsed.trajectory.steps] == [False, False]
    assert [(u.text, u.after, u.by_user) for u in parsed.trajectory.utterances] == [
        ("Plan mode is on.", 1, False),
        ("Plan mode is off.", 2, False),
    ]
    out = elide(*messages, n1="", n2="")
    assert out[3] is SYSTEM
    assert out[6] is blocks
    assert validate(out, format="anthropic", strict=True) == []


def test_a_breakpoint_never_moves_onto_system_text() -> None:
    marked = saw(result("a", cache_control=CACHE))
    out = elide(USER, SYSTEM, acts("a"), marked, acts("b"), saw(result("b")), n1="")

    assert out[1] is SYSTEM
    assert out[0]["content"][-1]["cache_control"] == CACHE


def test_half_of_a_call_that_the_provider_answers_fixes_its_step() -> None:
    asked = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    halves = parse(
        USER,
        acts("a", before=(asked,)),
        saw(result("a")),
        acts("b", before=(found,)),
        saw(result("b")),
    )
    whole = parse(USER, acts("a", before=(asked, found)), saw(result("a")))

    assert all("half of a call" in step.fixed for step in halves.trajectory.steps)
    assert not whole.trajectory.steps[0].fixed


@pytest.mark.parametrize(
    ("content", "after"),
    [
        ("a key", "a key\n\nmark"),
        (None, "mark"),
        ([], [text("mark")]),
        (
            [text("a key", cache_control=CACHE)],
            [text("a key\n\nmark", cache_control=CACHE)],
        ),
        ([{"type": "image"}], [{"type": "image"}, text("mark")]),
    ],
)
def test_a_marker_stands_inside_the_last_result(content: Any, after: Any) -> None:
    message = saw(result("a", content), text("Hurry."))

    assert FORMAT.append_text(message, "mark") == saw(result("a", after), text("Hurry."))
    assert not FORMAT.is_user_text(message)
    assert FORMAT.is_user_text(saw(text("Hurry.")))


def test_each_result_answers_its_own_call_and_says_whether_it_failed() -> None:
    parsed = parse(USER, acts("a", "b"), saw(result("b", "two", is_error=True), result("a", "one")))

    assert parsed.trajectory.steps[0].results == (Result("two", 1, True), Result("one", 0, False))


SUMMARY = {"type": "compaction", "content": "The key is under the mat.", "signature": "s"}
COMPACTED = {"role": "assistant", "content": [SUMMARY]}


def steps(*ids: str) -> list[dict[str, Any]]:
    return [m for i in ids for m in (acts(i), saw(result(i)))]


def test_a_summary_on_demand_stands_first_and_is_the_task_until_the_user_speaks() -> None:
    messages = [COMPACTED, *steps("a", "b", "c")]
    trajectory = parse(*messages).trajectory

    assert validate(messages, format="anthropic") == []
    assert trajectory.task == "The key is under the mat."
    assert [step.removable for step in trajectory.steps] == [False, True, True]
    out = elide(*messages, n1="", n2="")
    assert out[0] is COMPACTED
    assert validate(out, format="anthropic", before=messages) == []
    spoken = parse(COMPACTED, USER, *steps("a", "b"))
    assert [step.removable for step in spoken.trajectory.steps] == [True, True]
    assert elide(COMPACTED, USER, *steps("a", "b"), n1="")[0] is COMPACTED


def test_what_stands_before_a_summary_costs_nothing_and_has_no_steps() -> None:
    summed = {"role": "assistant", "content": [SUMMARY, *acts("b")["content"]]}
    rest = [summed, saw(result("b")), *steps("c", "d")]
    messages = [USER, *steps("a"), *rest]
    parsed = parse(*messages)

    assert parsed.trajectory.task == "Find it."
    assert parsed.step_of_message == [0, 0, 0, 1, -1, 2, -2, 3, -3]
    assert parsed.trajectory.steps[0].fixed == "holds a compaction block"
    assert parsed.trajectory.preamble_tokens == 0
    out = elide(*messages, n2="")
    assert out[:4] == messages[:4]
    assert validate(out, format="anthropic", before=messages) == []


def test_nothing_that_an_edit_adds_is_more_than_a_text_block() -> None:
    """API version 2026-10-21 refuses citations on user text and documents of the agent."""
    plain = {"type", "text", "cache_control"}
    added = 0
    for history in sample("anthropic", 150, seed=9):
        known = [block for message in history.messages for block in blocks_of(message)]
        compression = EAGER.compress(history.messages, **history.request)
        for block in [b for message in compression.messages for b in blocks_of(message)]:
            if block not in known and block.get("type") != "tool_result":
                old = {k: v for k, v in block.items() if k != "cache_control"}
                assert block.keys() <= plain or old in known
                added += 1
    assert added


def blocks_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return content if isinstance(content, list) else [text(content)]

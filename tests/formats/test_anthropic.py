"""Anthropic's messages and Bedrock Converse's, which are the same blocks under other names."""

from dataclasses import dataclass
from typing import Any

import pytest

from agora import Budget, Compressor
from agora.core import Result
from agora.formats import Parsed, format_named, validate
from harness import shortened
from harness.histories import sample
from harness.shortened import marker, note, signed_marker

Message = dict[str, Any]
FORMAT: Any = format_named("anthropic")
EAGER = Compressor(edits="every_call", budget=Budget(limit=0), k_recent=1, min_tokens=0)
USER = {"role": "user", "content": "Find it."}
CACHE = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}


def saw(*blocks: Message) -> Message:
    return {"role": "user", "content": list(blocks)}


def text(words: str, **more: Any) -> Message:
    return {"type": "text", "text": words, **more}


def result(tool_id: str, content: Any = "a key", **more: Any) -> Message:
    return {"type": "tool_result", "tool_use_id": tool_id, "content": content, **more}


def acts(*ids: str, before: tuple[Message, ...] = ()) -> Message:
    uses = [{"type": "tool_use", "id": i, "name": "look", "input": {"at": i}} for i in ids]
    return {"role": "assistant", "content": [*before, *uses]}


def in_bedrock(block: Message) -> list[Message]:
    """Return an Anthropic block as Converse writes it; its cache mark is a block of its own."""
    mark = block.get("cache_control")
    ttl = {"ttl": mark["ttl"]} if mark and "ttl" in mark else {}
    point = [{"cachePoint": {"type": "default", **ttl}}] if mark else []
    match block.get("type"):
        case "text":
            return [{"text": block["text"]}, *point]
        case "thinking":
            shown = {"text": block["thinking"], "signature": block["signature"]}
            return [{"reasoningContent": {"reasoningText": shown}}]
        case "tool_use":
            use = {"toolUseId": block["id"], "name": block["name"], "input": block["input"]}
            return [{"toolUse": use}]
        case "tool_result":
            parts = block["content"]
            parts = [text(parts)] if isinstance(parts, str) else parts
            content = [new for part in parts for new in in_bedrock(part)]
            return [{"toolResult": {"toolUseId": block["tool_use_id"], "content": content}}, *point]
        case None:
            return [{}]
        case kind:
            return [{str(kind): {}}]


@dataclass(frozen=True)
class Spelling:
    """One of the two formats: how it writes what the other would."""

    name: str

    def parse(self, *messages: Message) -> Parsed:
        return shortened.read(list(messages), self.name)

    def elide(self, *messages: Message, **lines: str) -> list[Any]:
        """Return the messages without the steps `n1=`, `n2=`, each with its line."""
        numbers = {int(name[1:]): line for name, line in lines.items()}
        written: list[Any] = shortened.write(self.parse(*messages), self.name, numbers).messages
        return written

    def write(self, *messages: Message) -> list[Message]:
        """Return Anthropic messages in this format."""
        if self.name == "anthropic":
            return list(messages)
        return [self._converse(message) for message in messages]

    def _converse(self, message: Message) -> Message:
        content = message["content"]
        blocks = [text(content)] if isinstance(content, str) else content
        return {**message, "content": [new for block in blocks for new in in_bedrock(block)]}


parse, elide = Spelling("anthropic").parse, Spelling("anthropic").elide
both = pytest.mark.parametrize("spelling", [Spelling("anthropic"), Spelling("bedrock")])


@both
def test_a_step_is_the_blocks_of_a_call_and_the_user_message_with_its_results(
    spelling: Spelling,
) -> None:
    messages = (USER, acts("a", "b"), saw(result("b", "two"), result("a", "one")))
    parsed = spelling.parse(*spelling.write(*messages))

    assert parsed.step_of_message == [0, 1, -1]
    [step] = parsed.trajectory.steps
    assert step.action == 'look {"at": "a"}\nlook {"at": "b"}'
    assert step.observation == "two\none"
    assert step.results == (Result("two", 1, False), Result("one", 0, False))


@both
def test_elided_steps_leave_their_marker_in_the_result_before_them_or_in_user_text(
    spelling: Spelling,
) -> None:
    steps = [message for i in "abc" for message in (acts(i), saw(result(i)))]
    messages = spelling.write(USER, *steps)
    left = f"{marker(2)}\n2 look b -> x1"

    out = spelling.elide(*messages, n2="look b -> x1")
    first = spelling.elide(*messages, n1="")[0]
    if spelling.name == "anthropic":
        assert out[2] == saw(result("a", f"a key\n\n{left}"))
        assert first["content"] == f"Find it.\n\n{signed_marker(1)}"
    else:
        [marked] = spelling.write(saw(result("a", [text("a key"), text(left)])))
        assert out[2] == marked
        assert first["content"] == [{"text": "Find it."}, {"text": signed_marker(1)}]


@both
def test_every_result_of_a_masked_step_is_replaced_and_user_text_beside_it_stays(
    spelling: Spelling,
) -> None:
    image = {"type": "image", "source": {"type": "base64", "data": "A" * 100}}
    results = saw(result("a", [text("x"), image]), result("b", [text("y")]), text("Hurry."))
    messages = spelling.write(USER, acts("a", "b"), results, acts("c"), saw(result("c")))
    notes = ([text(note(1, "x1"))], [text(note(1))])

    out = spelling.elide(*messages, n1="look -> x1")

    masked = saw(result("a", notes[0]), result("b", notes[1]), text("Hurry."))
    assert out == spelling.write(USER, acts("a", "b"), masked) + messages[3:]
    said = spelling.parse(*messages).trajectory.utterances
    assert [(u.text, u.by_user) for u in said] == [("Hurry.", True)]


@both
def test_blocks_we_do_not_know_keep_their_step_from_being_a_candidate(spelling: Spelling) -> None:
    odd: Message = {"type": "hologram"}
    befores: tuple[tuple[Message, ...], ...] = ((odd,), ({},), ())
    contents: tuple[Any, ...] = ("a key", "a key", [odd])
    messages = [USER]
    for i, before, content in zip("abc", befores, contents, strict=True):
        messages += [acts(i, before=before), saw(result(i, content))]

    steps = spelling.parse(*spelling.write(*messages)).trajectory.steps
    reasons = ("hologram", "nameless", "hologram")
    assert [step.fixed for step in steps] == [f"holds a {reason} block" for reason in reasons]


@both
def test_thinking_is_a_part_of_what_its_step_costs(spelling: Spelling) -> None:
    plain, thinking = (
        spelling.parse(*spelling.write(USER, acts("a", before=before), saw(result("a"))))
        for before in ((), (THOUGHT,))
    )

    [bare], [step] = plain.trajectory.steps, thinking.trajectory.steps
    assert (step.thinking_tokens, step.tokens) == (len("hm"), bare.tokens + len("hm"))


@both
def test_a_cache_mark_of_an_elided_step_moves_to_the_message_that_stays_before_it(
    spelling: Spelling,
) -> None:
    marked = saw(result("a", cache_control=HOUR))
    messages = spelling.write(
        USER, acts("a"), marked, acts("b"), saw(result("b", cache_control=CACHE))
    )

    out = spelling.elide(*messages, n1="")

    assert out[1:] == messages[3:]
    signed = signed_marker(1)
    if spelling.name == "anthropic":
        assert out[0]["content"] == [text(f"Find it.\n\n{signed}", cache_control=HOUR)]
    else:
        point = {"cachePoint": {"type": "default", "ttl": "1h"}}
        assert out[0]["content"] == [{"text": "Find it."}, {"text": signed}, point]


def test_a_message_with_a_breakpoint_of_its_own_keeps_it() -> None:
    user = saw(text("Find it.", cache_control=CACHE))
    marked = (acts("a"), saw(result("a", cache_control=HOUR)))
    out = elide(user, *marked, acts("b"), saw(result("b")), n1="")

    assert [block["cache_control"] for block in out[0]["content"]] == [CACHE, HOUR]


def test_two_cache_points_of_converse_in_one_place_become_one() -> None:
    bedrock = Spelling("bedrock")
    marked = [acts("a"), saw(result("a", cache_control=CACHE))]
    marked += [acts("b"), saw(result("b", cache_control=HOUR))]
    messages = bedrock.write(USER, *marked, acts("c"), saw(result("c")))

    out = bedrock.elide(*messages, n1="", n2="")

    signed = {"text": signed_marker(1, 2)}
    assert out[0]["content"] == [{"text": "Find it."}, signed, {"cachePoint": {"type": "default"}}]


@pytest.mark.parametrize(
    ("reasoning", "tokens"),
    [
        ({"redactedContent": b"A" * 400}, 100),
        # The same bytes in base64.
        ({"redactedContent": "QUFB" * 133 + "QQ=="}, 100),
    ],
)
def test_sealed_reasoning_is_counted_though_it_cannot_be_read(
    reasoning: Message, tokens: int
) -> None:
    bedrock = Spelling("bedrock")
    user, act, seen = bedrock.write(USER, acts("a"), saw(result("a")))
    sealed = {**act, "content": [{"reasoningContent": reasoning}, *act["content"]]}

    [step] = bedrock.parse(user, sealed, seen).trajectory.steps
    assert step.thinking_tokens == tokens


def test_json_and_tools_that_the_provider_runs_are_read_from_converse() -> None:
    bedrock = Spelling("bedrock")
    user, act, seen = bedrock.write(USER, acts("a"), saw(result("a", [])))
    seen["content"][0]["toolResult"]["content"] = [{"json": {"n": 2}}]
    use = {"toolUse": {"toolUseId": "s", "name": "search", "input": {}, "type": "server_tool_use"}}
    found = {"toolResult": {"toolUseId": "s", "content": []}}
    act["content"][:0] = [use, found]

    [step] = bedrock.parse(user, act, seen).trajectory.steps
    assert (step.fixed, step.observation, len(step.calls)) == ("", '{"n": 2}', 1)


def test_a_marker_stands_inside_the_last_result_of_converse() -> None:
    format: Any = format_named("bedrock")
    words = text("Hurry.")
    [message, marked, spoken, answered] = Spelling("bedrock").write(
        saw(result("a"), result("b"), words),
        saw(result("a"), result("b", [text("a key"), text("mark")]), words),
        saw(words),
        saw(words, text("mark")),
    )

    assert format.append_text(message, "mark") == marked
    assert format.append_text(spoken, "mark") == answered


def test_with_thinking_every_step_is_masked_and_no_assistant_block_goes() -> None:
    thinking = acts("a", before=(THOUGHT, text("let me see")))
    messages = (USER, thinking, saw(result("a")), acts("b"), saw(result("b")))

    out = elide(*messages, n1="look a -> x1")

    assert out == [USER, thinking, saw(result("a", note(1, "x1"))), *messages[3:]]
    assert parse(*messages).trajectory.steps[0].thought == "hm\nlet me see"


def test_a_replaced_result_keeps_its_shape_and_its_error() -> None:
    failed = parse(USER, acts("a"), saw(result("a", [text("x")], is_error=True), text("Hurry.")))
    out = elide(*failed.messages, acts("c"), saw(result("c")), n1="look -> x1")

    noted = [text(note(1, "x1"))]
    assert out[2] == saw(result("a", noted, is_error=True), text("Hurry."))
    assert failed.trajectory.steps[0].failed


def test_images_and_documents_cost_a_constant() -> None:
    image = {"type": "image", "source": {"type": "base64", "data": "A" * 100_000}}
    parsed = parse(saw(text("Find it."), image), acts("a"), saw(result("a", [image])))

    assert 2_000 < parsed.trajectory.tokens < 3_000
    document = {**image, "type": "document"}
    more = parse(saw(text("Find it."), document), acts("a"), saw(result("a", [document])))
    assert 2_000 <= more.trajectory.tokens - parsed.trajectory.tokens < 20_000


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


SUMMARY = {"type": "compaction", "content": "The key is under the mat.", "signature": "s"}
COMPACTED = {"role": "assistant", "content": [SUMMARY]}


def steps(*ids: str) -> list[Message]:
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


def blocks_of(message: Message) -> list[Message]:
    content = message["content"]
    return content if isinstance(content, list) else [text(content)]

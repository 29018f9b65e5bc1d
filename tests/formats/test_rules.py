"""Every rule has messages that break just it, and their repaired twin."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from agora.formats import RuleViolation, formats, validate

# Private: the one rule that belongs to no format.
from agora.formats.base import SHAPE

Message = dict[str, Any]


# OpenAI chat and its relatives


def say(role: str, content: object = "hello", **more: object) -> Message:
    return {"role": role, "content": content, **more}


def call(*ids: object, **more: object) -> Message:
    calls = [
        {"id": i, "type": "function", "function": {"name": "look", "arguments": "{}"}} for i in ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls, **more}


def result(call_id: object, **more: object) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": "seen", **more}


USER = say("user")
SAID = say("assistant")
SYSTEM = say("system")


# Anthropic


def text(value: object = "hello", **more: object) -> Message:
    return {"type": "text", "text": value, **more}


def use(call_id: object, kind: str = "tool_use") -> Message:
    return {"type": kind, "id": call_id, "name": "look", "input": {}}


def answer(call_id: object, content: object = "seen", kind: str = "tool_result") -> Message:
    return {"type": kind, "tool_use_id": call_id, "content": content}


def thought(value: str = "hm") -> Message:
    return {"type": "thinking", "thinking": value, "signature": f"signed {value}"}


def by_user(*blocks: object) -> Message:
    return {"role": "user", "content": list(blocks)}


def by_model(*blocks: object) -> Message:
    return {"role": "assistant", "content": list(blocks)}


MARK = {"cache_control": {"type": "ephemeral"}}
MARKED = answer("a", [text(**MARK)])
LOOP = [USER, by_model(thought("1"), use("a")), by_user(answer("a"))]
LONG_LOOP = [*LOOP, by_model(thought("2"), use("b")), by_user(answer("b"))]


def without(messages: list[Message], *positions: int) -> list[Message]:
    return [message for n, message in enumerate(messages) if n not in positions]


# Responses


def item(kind: str, call_id: object = "call_1", **more: object) -> Message:
    return {"type": kind, "call_id": call_id, **more}


def reasoning(name: str = "rs_1") -> Message:
    return {"type": "reasoning", "id": name, "summary": []}


def sealed(content: str, **more: object) -> Message:
    return {**reasoning(), "encrypted_content": content, **more}


CALL = item("function_call", id="fc_1", name="look", arguments="{}")
OUTPUT = item("function_call_output", output="seen")
ANSWERED = {"type": "message", "id": "msg_1", "role": "assistant", "content": "done"}
THOUGHT_OUT = [USER, reasoning(), CALL, OUTPUT, reasoning("rs_2"), ANSWERED]


# Gemini


def content(role: str | None, *parts: object) -> Message:
    return {"parts": list(parts)} | ({"role": role} if role else {})


TEXT_PART = {"text": "hello"}
CALL_PART = {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "sig"}
RESPONSE_PART = {"functionResponse": {"name": "look", "response": {}}}
ASKED = content("user", TEXT_PART)
CALLED = content("model", CALL_PART)
RESPONDED = content("user", RESPONSE_PART)


# Bedrock


def converse(role: str, *blocks: object) -> Message:
    return {"role": role, "content": list(blocks)}


def tool_use(call_id: object) -> Message:
    return {"toolUse": {"toolUseId": call_id, "name": "look", "input": {}}}


def tool_result(call_id: object) -> Message:
    return {"toolResult": {"toolUseId": call_id, "content": [{"text": "seen"}]}}


HELLO = {"text": "hello"}
POINT = {"cachePoint": {"type": "default"}}
REASONED = {"reasoningContent": {"reasoningText": {"text": "Look.", "signature": "sig"}}}
SEALED = {"reasoningContent": {"redactedContent": b"sealed"}}


class Example(NamedTuple):
    """Messages that break `code` at message `at`, and their repaired twin."""

    code: str
    format: str
    broken: object
    repaired: object
    at: int = 0
    options: Mapping[str, Any] = MappingProxyType({})
    """What else is said of the request."""
    repaired_options: Mapping[str, Any] | None = None
    """The same for the twin, where it differs."""

    def __str__(self) -> str:
        return f"{self.code}-{self.format}"


STRICT = {"strict": True}
BROKEN_LOOP = [USER, by_model(thought("other"), use("a")), by_user(answer("a"))]
REASONED_LOOP = [
    converse("user", HELLO),
    converse("assistant", REASONED, SEALED, tool_use("a")),
    converse("user", tool_result("a")),
]
BARE_LOOP = [
    converse("user", HELLO),
    converse("assistant", tool_use("a")),
    converse("user", tool_result("a")),
]
THINKS = call("a", reasoning_content="hm")
SIGNED = {"parts": [{**CALL_PART, "thoughtSignature": "other"}], "role": "model"}

NO_MESSAGES: tuple[object, ...] = ({}, (USER,), [], None, 3)

EXAMPLES = [
    # Anthropic
    Example("A1", "anthropic", [USER, by_model(use("a"))], LOOP, 1),
    Example("A1", "anthropic", [USER, by_model(use("a")), SAID, USER], LOOP, 1),
    Example("A2", "anthropic", [USER, SAID, by_user(answer("a"))], LOOP, 2),
    Example("A2", "anthropic", [*LOOP, SAID, by_user(answer("a"))], [*LOOP, SAID, USER], 4),
    Example(
        "A3",
        "anthropic",
        [USER, by_model(answer("s", [], kind="advisor_tool_result"), text()), USER],
        [USER, by_model(use("s", "server_tool_use"), answer("s", kind="x_tool_result")), USER],
        1,
    ),
    Example(
        "A3",
        "anthropic",
        [USER, by_model(use("s", "server_tool_use"), answer("s", kind="mcp_tool_result")), USER],
        [USER, by_model(use("s", "mcp_tool_use"), answer("s", kind="mcp_tool_result")), USER],
        1,
    ),
    Example(
        "A6",
        "anthropic",
        [USER, by_model(use("a")), USER, by_user(answer("a"))],
        [USER, by_model(use("a")), by_user(answer("a")), USER],
        3,
    ),
    Example("A7", "anthropic", [SAID, USER], [USER, SAID, USER]),
    Example("A8", "anthropic", [USER, USER], [USER, SAID, USER], 1, STRICT),
    Example(
        "A21",
        "anthropic",
        [USER, by_model(use("a")), SYSTEM, by_user(answer("a"))],
        [USER, SYSTEM],
        2,
        STRICT,
    ),
    Example("A21", "anthropic", [SYSTEM, USER], [USER, SYSTEM, SAID, USER], 0, STRICT),
    Example("A11", "anthropic", [by_user(text(""))], [by_user(text())]),
    Example("A11", "anthropic", [by_user(text(" \n"))], [by_user(text(" hello"))]),
    Example("A11", "anthropic", [say("user", " ")], [say("user", " ok ")]),
    Example("A11", "anthropic", [USER, by_model(), USER], [USER, by_model()], 1),
    Example("A11", "anthropic", [USER], [USER], -1, {"system": [text("")]}, {"system": "Hi."}),
    Example(
        "A12",
        "anthropic",
        [by_user(text(**MARK), text(**MARK)), by_model(use("a")), by_user(MARKED)],
        [by_user(text(), text(**MARK)), by_model(use("a")), by_user(MARKED)],
        2,
        {"system": [text(**MARK)], "tools": [{"name": "look", **MARK}]},
    ),
    Example("A14", "anthropic", BROKEN_LOOP, LOOP, 1, {"before": LOOP}),
    Example(
        "A15",
        "anthropic",
        [USER, by_model(use("a")), by_user(answer("a"))],
        [*LOOP, by_model(use("b")), by_user(answer("b"))],
        1,
        {"thinking": True},
    ),
    Example(
        "A22",
        "anthropic",
        LONG_LOOP,
        [USER, by_model(use("a")), by_user(answer("a")), *LONG_LOOP[3:]],
        1,
        {"before": LONG_LOOP, "model": "claude-fable-5-1", "edited_at": 3},
    ),
    # OpenAI chat and its relatives
    Example(
        "O1",
        "openai",
        [USER, call("a", "b"), result("b"), SAID],
        [USER, call("a", "b"), result("b"), result("a"), SAID],
        1,
    ),
    Example("O1", "openai", [USER, call("a")], [USER, call("a"), result("a")], 1),
    Example("O2", "openai", [USER, result("a")], [USER, call("a"), result("a")], 1),
    Example(
        "O2",
        "openai",
        [USER, call("a"), result("a"), result("a")],
        [USER, call("a"), result("a"), call("a"), result("a")],
        3,
    ),
    Example(
        "O7",
        "openai",
        [USER, call("a"), result("a")],
        [USER, THINKS, result("a")],
        1,
        {"before": [USER, THINKS, result("a")]},
    ),
    Example("T1", "openai", [SYSTEM, USER, USER], [SYSTEM, USER, SAID, USER], 2, STRICT),
    Example("T1", "openai", [SYSTEM, SAID], [USER, call("a"), result("a"), SAID], 1, STRICT),
    # OpenAI Responses
    Example("R1", "responses", [USER, CALL], [USER, CALL, USER, OUTPUT], 1),
    Example(
        "R1",
        "responses",
        [item("local_shell_call", "c", id="lsh_1")],
        [item("local_shell_call", "c", id="lsh_1"), {"type": "local_shell_call_output", "id": "c"}],
    ),
    Example("R2", "responses", [USER, OUTPUT], [USER, CALL, OUTPUT], 1),
    Example("R3", "responses", [USER, reasoning()], [USER, reasoning(), ANSWERED], 1),
    Example("R3", "responses", [reasoning(), USER], [reasoning(), reasoning("rs_2"), CALL, OUTPUT]),
    Example(
        "R4",
        "responses",
        without(THOUGHT_OUT, 1),
        without(THOUGHT_OUT, 1, 2, 3),
        1,
        {"before": THOUGHT_OUT},
    ),
    Example(
        "R4",
        "responses",
        without(THOUGHT_OUT, 4),
        without(THOUGHT_OUT, 4, 5),
        4,
        {"before": THOUGHT_OUT},
    ),
    Example(
        "R9",
        "responses",
        [USER, sealed("other"), CALL, OUTPUT],
        [USER, sealed("sealed"), CALL, OUTPUT],
        1,
        {"before": [USER, sealed("sealed"), CALL, OUTPUT]},
    ),
    # Gemini
    Example("G1", "gemini", [CALLED, RESPONDED], [ASKED, CALLED, RESPONDED, CALLED, RESPONDED]),
    Example("G2", "gemini", [ASKED, RESPONDED], [ASKED, CALLED, RESPONDED], 1),
    Example(
        "G3",
        "gemini",
        [ASKED, content("model", CALL_PART, CALL_PART), RESPONDED],
        [
            ASKED,
            content("model", CALL_PART, CALL_PART),
            content(None, RESPONSE_PART, RESPONSE_PART),
        ],
        2,
    ),
    Example("G3", "gemini", [ASKED, CALLED, ASKED], [ASKED, CALLED, RESPONDED, ASKED], 2),
    Example("G5", "gemini", [ASKED, content("model", TEXT_PART)], [ASKED], 1),
    Example("G6", "gemini", [ASKED, ASKED], [ASKED, content("model", TEXT_PART), ASKED], 1, STRICT),
    Example("G7", "gemini", [content("user", {"text": ""})], [ASKED], 0, STRICT),
    Example(
        "G9",
        "gemini",
        [ASKED, SIGNED, RESPONDED],
        [ASKED, CALLED, RESPONDED],
        1,
        {"before": [ASKED, CALLED, RESPONDED]},
    ),
    # Bedrock, whose blocks stand for Anthropic's
    Example("A1", "bedrock", BARE_LOOP[:2], BARE_LOOP, 1),
    Example("A2", "bedrock", [converse("user", tool_result("a"))], BARE_LOOP),
    Example("A7", "bedrock", [converse("assistant", HELLO)], BARE_LOOP),
    Example("A11", "bedrock", [converse("user", {"text": " "})], BARE_LOOP),
    Example("A11", "bedrock", [converse("user", POINT)], [converse("user", HELLO, POINT)]),
    Example(
        "A12",
        "bedrock",
        [converse("user", HELLO, POINT, HELLO, POINT)],
        [converse("user", HELLO, POINT)],
        0,
        {"system": [HELLO, POINT, HELLO, POINT], "tools": {"tools": [HELLO, POINT]}},
    ),
    Example("A14", "bedrock", BARE_LOOP, REASONED_LOOP, 2, {"before": REASONED_LOOP}),
    Example("A15", "bedrock", BARE_LOOP, REASONED_LOOP, 1, {"thinking": True}),
    Example(
        "B2",
        "bedrock",
        [*BARE_LOOP[:2], converse("user", tool_result("a"), HELLO)],
        [*BARE_LOOP[:2], converse("user", tool_result("a"), POINT)],
        2,
        STRICT,
    ),
    Example("B5", "bedrock", [converse("user", HELLO)] * 2, [converse("user", HELLO, HELLO)], 1),
    Example(
        "B11",
        "bedrock",
        [converse("user", HELLO), converse("assistant", REASONED, POINT), converse("user", HELLO)],
        [converse("user", HELLO), converse("assistant", HELLO, POINT), converse("user", HELLO)],
        1,
        STRICT,
    ),
    # The shape of messages
    *(Example("S1", "openai", value, [USER]) for value in NO_MESSAGES),
    Example("S1", "openai", [USER, "hello"], [USER], 1),
    Example("S1", "openai", [{"content": "hello"}], [USER]),
    Example("S1", "openai", [say("user", {})], [USER]),
    Example("S1", "openai", [say("user", ["hello"])], [say("user", [text()])]),
    Example("S1", "openai", [say("assistant", None)], [say("assistant", None, refusal="No.")]),
    Example("S1", "openai", [USER, say("assistant", tool_calls={})], [USER, SAID], 1),
    Example("S1", "openai", [USER, call(None)], [USER, say("assistant", tool_calls=None)], 1),
    Example("S1", "anthropic", [USER, {**USER, "role": ["user"]}], [USER], 1),
    Example("S1", "anthropic", [by_user({"text": "hello"})], [by_user(text())]),
    Example("S1", "anthropic", [by_user(text(None))], [by_user(text())]),
    Example("S1", "anthropic", [USER, by_model(use(1)), USER], [USER, SAID, USER], 1),
    Example("S1", "anthropic", [by_user(use("a"))], [by_user(text())]),
    Example("S1", "anthropic", [USER, by_model(use("a"), answer("a"))], LOOP, 1),
    Example("S1", "anthropic", [USER, by_model(use("a")), by_user(answer("a", {}))], LOOP, 2),
    Example("S1", "anthropic", [USER], [USER], -1, {"system": 1}, {}),
    Example("S1", "responses", [USER, []], [USER], 1),
    Example("S1", "responses", [{"type": 1}], [{"type": "compaction"}]),
    Example("S1", "responses", [item("function_call", None)], [item("web_search_call", None)]),
    Example("S1", "gemini", [content("user", "hello")], [ASKED]),
    Example("S1", "gemini", [content("assistant", TEXT_PART)], [ASKED]),
    Example("S1", "gemini", [content("user", CALL_PART)], [ASKED]),
    Example("S1", "gemini", [ASKED, content("model", {"functionCall": "look"})], [ASKED], 1),
    Example("S1", "gemini", [{"role": "user", "parts": []}], [ASKED]),
    Example("S1", "bedrock", [{"role": "user", "content": "hello"}], BARE_LOOP),
    Example("S1", "bedrock", [converse("system", HELLO)], BARE_LOOP),
    Example("S1", "bedrock", [converse("user", {"toolResult": {"content": "seen"}})], BARE_LOOP),
    Example("S1", "transcript", [USER], "[SYSTEM]"),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_a_rule_is_broken_where_the_example_breaks_it_and_its_twin_is_legal(
    example: Example,
) -> None:
    options, twin = example.options, example.repaired_options
    violations = validate(example.broken, format=example.format, **options)

    assert [one.code for one in violations] == [example.code]
    assert violations[0].position == example.at
    twin = options if twin is None else twin
    assert validate(example.repaired, format=example.format, **twin) == []
    relaxed = validate(example.broken, format=example.format, **{**options, "strict": False})
    assert not any(one.strict for one in relaxed)


def test_every_rule_has_an_example_a_sentence_and_a_source() -> None:
    rules = {rule.code: rule for format in formats() for rule in (*format.rules, SHAPE)}

    assert {example.code for example in EXAMPLES} == set(rules)
    assert all(rule.sentence and rule.source for rule in rules.values())


@pytest.mark.parametrize(
    ("messages", "name", "words"),
    [
        ([USER, by_model(use("toolu_1")), USER], "anthropic", "immediately after: toolu_1. Each"),
        ([USER, call("call_1", "call_2")], "openai", "not have response messages: call_1, call_2"),
        ([USER, CALL], "responses", "No tool output found for function call call_1."),
        ([OUTPUT], "responses", "for function call output with call_id call_1."),
    ],
)
def test_a_violation_is_told_in_the_words_of_the_provider(
    messages: list[Message], name: str, words: str
) -> None:
    [violation] = validate(messages, format=name)

    assert words in violation.error


def test_a_violation_names_its_place() -> None:
    assert str(RuleViolation("A7", 0, "no")) == "A7 at message 0: no"
    assert str(RuleViolation("A11", -1, "no")) == "A11 at the system prompt: no"


def test_violations_come_in_message_order() -> None:
    messages = [SAID, by_model(use("a")), by_user(text("")), by_user(answer("b"))]

    positions = [one.position for one in validate(messages, format="anthropic", strict=True)]

    assert positions == sorted(positions)
    assert len(positions) > 3


def test_results_over_several_user_messages_are_read_as_one() -> None:
    messages = [USER, by_model(use("a"), use("b")), by_user(answer("a")), by_user(answer("b"))]

    assert validate(messages, format="anthropic") == []


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(without(LONG_LOOP, 1, 2), id="first step gone"),
        pytest.param(without(LONG_LOOP, 3, 4), id="last step gone"),
        pytest.param([USER], id="all gone"),
        pytest.param([USER, *LONG_LOOP[3:], *LONG_LOOP[1:3]], id="order changed"),
        pytest.param([*LOOP, by_model(thought("new"), use("b")), LONG_LOOP[4]], id="changed"),
        pytest.param(
            [*LOOP[:1], by_model(thought("0"), thought("1"), use("a")), *LONG_LOOP[2:]], id="more"
        ),
    ],
)
def test_thinking_since_the_user_last_spoke_may_not_change(after: list[Message]) -> None:
    found = validate(after, format="anthropic", before=LONG_LOOP)

    assert [one.code for one in found] == ["A14"]


def test_thinking_from_before_the_user_last_spoke_may_go() -> None:
    before = [*LONG_LOOP, by_model(text("done")), USER, by_model(thought("3"), use("c"))]
    before.append(by_user(answer("c")))

    assert validate(before, format="anthropic", before=before) == []
    assert validate(without(before, 1, 2), format="anthropic", before=before) == []
    assert validate(without(before, 1, 2, 3, 4), format="anthropic", before=before) == []


def test_thinking_that_comes_to_count_as_latest_must_be_from_before() -> None:
    before = [*LOOP, USER, by_model(thought("2"), use("b")), by_user(answer("b"))]
    joined = without(before, 3)
    forged = [USER, by_model(thought("x"), use("a")), *joined[2:]]

    assert validate(joined, format="anthropic", before=before) == []
    assert [one.code for one in validate(forged, format="anthropic", before=before)] == ["A14"]


def test_two_calls_with_one_id_take_two_results() -> None:
    assert validate([USER, call("", ""), result(""), result("")], format="openai") == []
    assert [one.code for one in validate([USER, call("", ""), result("")], format="openai")] == [
        "O1"
    ]


def test_a_legacy_call_stands_outside_the_alternation_as_other_calls_do() -> None:
    legacy = say("assistant", None, function_call={"name": "look", "arguments": "{}"})
    messages = [USER, legacy, say("function", name="look"), SAID, USER]

    assert validate(messages, format="openai", strict=True) == []


def test_each_of_several_reasoning_items_in_a_row_is_needed() -> None:
    before = [USER, reasoning(), reasoning("rs_2"), CALL, OUTPUT]

    assert validate(before, format="responses", before=before) == []
    for gone, name in ((1, "rs_1"), (2, "rs_2")):
        found = validate(without(before, gone), format="responses", before=before)
        assert [one.code for one in found] == ["R4"]
        assert f"'{name}'" in found[0].error


def test_an_output_may_answer_a_call_that_is_only_referred_to() -> None:
    messages = [USER, {"type": "item_reference", "id": "fc_1"}, OUTPUT]

    assert validate(messages, format="responses") == []


def test_a_model_that_binds_thinking_does_not_ask_for_thinking_at_the_start() -> None:
    bare = [USER, by_model(use("a")), by_user(answer("a"))]

    found = validate(bare, format="anthropic", thinking=True, model="claude-opus-5-5")

    assert found == []
    assert [one.code for one in validate(bare, format="anthropic", thinking=True)] == ["A15"]


def test_thinking_of_a_bound_model_may_be_missing_at_the_start_and_nowhere_else() -> None:
    model = "claude-opus-5-5"
    first = [USER, by_model(use("a")), by_user(answer("a")), *LONG_LOOP[3:]]
    last = [*LONG_LOOP[:3], by_model(use("b")), by_user(answer("b"))]

    assert validate(first, format="anthropic", before=LONG_LOOP, model=model) == []
    found = validate(last, format="anthropic", before=LONG_LOOP, model=model)
    assert [one.code for one in found] == ["A22"]
    added = validate(LONG_LOOP, format="anthropic", before=first, model=model)
    assert [one.code for one in added] == ["A22"]

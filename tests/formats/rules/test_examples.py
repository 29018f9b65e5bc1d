"""Every rule has messages that break just it, and their repaired twin."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from agora.formats import CATALOGUE, validate

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


def aside(*blocks: Message) -> Message:
    return {"role": "system", "content": list(blocks)}


def by_user(*blocks: object) -> Message:
    return {"role": "user", "content": list(blocks)}


def by_model(*blocks: object) -> Message:
    return {"role": "assistant", "content": list(blocks)}


MARK = {"cache_control": {"type": "ephemeral"}}
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
UNSIGNED_PART = {"function_call": {"name": "look", "args": {}}}
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
TOOLS = {"tools": [{"toolSpec": {"name": "look"}}]}


@dataclass(frozen=True)
class Example:
    """Messages that break `code` at `at` and, where that cannot be helped, the rules in `also`."""

    code: str
    format: str
    broken: object
    repaired: object
    at: int = 0
    also: tuple[str, ...] = ()
    said: dict[str, Any] = field(default_factory=dict)
    repaired_told: dict[str, Any] | None = None

    def __str__(self) -> str:
        return f"{self.code}-{self.format}"


STRICT = {"strict": True}

EXAMPLES = [
    # Anthropic
    Example(
        "A1",
        "anthropic",
        [USER, by_model(use("a"), use("b")), by_user(answer("a")), SAID, USER],
        [USER, by_model(use("a"), use("b")), by_user(answer("a"), answer("b")), SAID, USER],
        at=1,
    ),
    Example(
        "A1",
        "anthropic",
        [USER, by_model(use("a")), SAID, USER],
        [USER, by_model(use("a")), SAID, by_user(answer("a")), USER],
        at=1,
    ),
    Example("A1", "anthropic", [USER, by_model(use("a"))], LOOP, at=1),
    Example(
        "A2",
        "anthropic",
        [USER, SAID, by_user(answer("a"))],
        [USER, by_model(use("a")), by_user(answer("a"))],
        at=2,
    ),
    Example(
        "A2",
        "anthropic",
        [*LOOP, SAID, by_user(answer("a"))],
        [*LOOP, SAID, by_user(text())],
        at=4,
    ),
    Example(
        "A3",
        "anthropic",
        [USER, by_model(answer("s", [], kind="advisor_tool_result"), text()), USER],
        [
            USER,
            by_model(use("s", "server_tool_use"), text()),
            USER,
            by_model(answer("s", [], kind="advisor_tool_result"), text()),
            USER,
        ],
        at=1,
    ),
    Example(
        "A3",
        "anthropic",
        [
            USER,
            by_model(use("s", "server_tool_use"), answer("s", kind="mcp_tool_result")),
            USER,
        ],
        [USER, by_model(use("s", "mcp_tool_use"), answer("s", kind="mcp_tool_result")), USER],
        at=1,
    ),
    Example(
        "A6",
        "anthropic",
        [USER, by_model(use("a")), USER, by_user(answer("a"))],
        [USER, by_model(use("a")), by_user(answer("a")), USER],
        at=3,
    ),
    Example("A7", "anthropic", [SAID, USER], [USER, SAID, USER]),
    Example("A8", "anthropic", [USER, USER], [USER, SAID, USER], at=1, said=STRICT),
    Example("A21", "anthropic", [USER, SYSTEM, USER], [USER, SYSTEM], 1, ("A8",), STRICT),
    Example("A21", "anthropic", [SYSTEM, USER], [USER, SYSTEM, SAID, USER], said=STRICT),
    Example("A11", "anthropic", [by_user(text(""))], [by_user(text())]),
    Example("A11", "anthropic", [by_user(text(" \n"))], [by_user(text(" hello"))]),
    Example("A11", "anthropic", [say("user", "")], [USER]),
    Example("A11", "anthropic", [say("user", " ")], [say("user", " ok ")]),
    Example("A11", "anthropic", [USER, by_model(), USER], [USER, by_model()], at=1),
    Example(
        "A11", "anthropic", [USER, say("assistant", ""), USER], [USER, say("assistant", "")], 1
    ),
    Example(
        "A11",
        "anthropic",
        [USER],
        [USER],
        at=-1,
        said={"system": [text("")]},
        repaired_told={"system": [text()]},
    ),
    Example(
        "A12",
        "anthropic",
        [
            by_user(text(**MARK), text(**MARK)),
            by_model(use("a")),
            by_user(answer("a", [text(**MARK)])),
        ],
        [
            by_user(text(), text(**MARK)),
            by_model(use("a")),
            by_user(answer("a", [text(**MARK)])),
        ],
        at=2,
        said={"system": [text(**MARK)], "tools": [{"name": "look", **MARK}]},
    ),
    Example("A13", "anthropic", [by_user(text("", **MARK))], [by_user(text(**MARK))]),
    Example(
        "A13",
        "anthropic",
        [USER, by_model(use("a")), by_user(answer("a", [text("", **MARK)]))],
        [USER, by_model(use("a")), by_user(answer("a", [text("")]))],
        at=2,
    ),
    Example(
        "A14",
        "anthropic",
        [USER, by_model(thought("other"), use("a")), by_user(answer("a"))],
        LOOP,
        at=1,
        said={"before": LOOP},
    ),
    Example(
        "A22",
        "anthropic",
        LONG_LOOP,
        [USER, by_model(use("a")), by_user(answer("a")), *LONG_LOOP[3:]],
        at=1,
        said={"before": LONG_LOOP, "model": "claude-fable-5-1", "edited_at": 3},
    ),
    Example(
        "A15",
        "anthropic",
        [USER, by_model(use("a")), by_user(answer("a"))],
        [*LOOP, by_model(use("b")), by_user(answer("b"))],
        at=1,
        said={"thinking": True},
    ),
    Example(
        "A15",
        "anthropic",
        [USER, SAID, by_user()],
        [USER, SAID, USER],
        at=1,
        also=("A11",),
        said={"thinking": True},
        repaired_told={"thinking": True},
    ),
    # OpenAI chat
    Example(
        "O1",
        "openai",
        [USER, call("a", "b"), result("b"), SAID],
        [USER, call("a", "b"), result("b"), result("a"), SAID],
        at=1,
    ),
    Example("O1", "openai", [USER, call("a")], [USER, call("a"), result("a")], at=1),
    Example("O2", "openai", [USER, result("a")], [USER, call("a"), result("a")], at=1),
    Example(
        "O2",
        "openai",
        [USER, call("a"), result("a"), result("a")],
        [USER, call("a"), result("a"), call("a"), result("a")],
        at=3,
    ),
    Example("S1", "openai", [say("user", {})], [USER]),
    Example("S1", "openai", [say("user", None)], [say("user", [text()])]),
    Example(
        "S1", "openai", [say("assistant", None)], [say("assistant", None, refusal="I will not.")]
    ),
    Example(
        "O7",
        "openai",
        [USER, call("a"), result("a")],
        [USER, call("a", reasoning_content="hm"), result("a")],
        at=1,
        said={"before": [USER, call("a", reasoning_content="hm"), result("a")]},
    ),
    # OpenAI Responses
    Example("R1", "responses", [USER, CALL], [USER, CALL, USER, OUTPUT], at=1),
    Example(
        "R1",
        "responses",
        [item("local_shell_call", "c", id="lsh_1")],
        [item("local_shell_call", "c", id="lsh_1"), {"type": "local_shell_call_output", "id": "c"}],
    ),
    Example("R2", "responses", [USER, OUTPUT], [USER, CALL, OUTPUT], at=1),
    Example(
        "R2",
        "responses",
        [item("custom_tool_call_output", output="")],
        [item("custom_tool_call"), item("custom_tool_call_output", output="")],
    ),
    Example("R3", "responses", [USER, reasoning()], [USER, reasoning(), ANSWERED], at=1),
    Example("R3", "responses", [reasoning(), USER], [reasoning(), reasoning("rs_2"), CALL, OUTPUT]),
    Example(
        "R4",
        "responses",
        without(THOUGHT_OUT, 1),
        without(THOUGHT_OUT, 1, 2, 3),
        at=1,
        said={"before": THOUGHT_OUT},
    ),
    Example(
        "R5",
        "responses",
        without(THOUGHT_OUT, 4),
        without(THOUGHT_OUT, 4, 5),
        at=4,
        said={"before": THOUGHT_OUT},
    ),
    Example(
        "R9",
        "responses",
        [USER, sealed("other"), CALL, OUTPUT],
        [USER, sealed("sealed"), CALL, OUTPUT],
        at=1,
        said={"before": [USER, sealed("sealed"), CALL, OUTPUT]},
    ),
    Example(
        "R10",
        "responses",
        [USER, sealed("sealed", summary=[{"type": "summary_text", "text": "Hm."}]), ANSWERED],
        [USER, sealed("sealed"), ANSWERED],
        at=1,
        said={"model": "grok-5", "before": [USER, sealed("sealed"), ANSWERED]},
    ),
    # Gemini
    Example(
        "G1",
        "gemini",
        [CALLED, RESPONDED],
        [ASKED, CALLED, RESPONDED, CALLED, RESPONDED],
    ),
    Example(
        "G1",
        "gemini",
        [ASKED, content("model", TEXT_PART), CALLED, RESPONDED],
        [ASKED, content("model", TEXT_PART, CALL_PART), RESPONDED],
        at=2,
    ),
    Example("G2", "gemini", [ASKED, RESPONDED], [ASKED, CALLED, RESPONDED], at=1),
    Example(
        "G3",
        "gemini",
        [ASKED, content("model", CALL_PART, CALL_PART), RESPONDED],
        [
            ASKED,
            content("model", CALL_PART, CALL_PART),
            content("function", RESPONSE_PART, RESPONSE_PART),
        ],
        at=2,
    ),
    Example("G3", "gemini", [ASKED, CALLED, ASKED], [ASKED, CALLED, RESPONDED, ASKED], at=2),
    Example("G5", "gemini", [ASKED, content("model", TEXT_PART)], [ASKED], at=1),
    Example(
        "G5",
        "gemini",
        [ASKED, content("model", {"inlineData": {"mimeType": "image/png", "data": ""}})],
        [content("user", {"inlineData": {"mimeType": "image/png", "data": ""}})],
        at=1,
    ),
    Example(
        "G6",
        "gemini",
        [ASKED, content(None, TEXT_PART)],
        [ASKED, content("model", TEXT_PART), ASKED],
        at=1,
        said=STRICT,
    ),
    Example(
        "G7",
        "gemini",
        [content("user", {"text": ""})],
        [
            ASKED,
            content("model", {"text": "", "thoughtSignature": "sig"}),
            content("user", TEXT_PART),
        ],
        said=STRICT,
    ),
    Example(
        "G9",
        "gemini",
        [ASKED, content("model", {**CALL_PART, "thoughtSignature": "other"}), RESPONDED],
        [ASKED, CALLED, RESPONDED],
        at=1,
        said={"before": [ASKED, CALLED, RESPONDED]},
    ),
    Example("S6", "gemini", [content("user", CALL_PART)], [ASKED], also=("G1",)),
    Example(
        "S6",
        "gemini",
        [ASKED, content("model", RESPONSE_PART), ASKED],
        [ASKED, content("model", TEXT_PART), ASKED],
        at=1,
        also=("G2",),
    ),
    Example(
        "S1",
        "gemini",
        [ASKED, content("model", {"functionCall": "look"}), RESPONDED],
        [ASKED, content("model", {"functionCall": {"name": "look"}}), RESPONDED],
        at=1,
    ),
    Example(
        "S1",
        "gemini",
        [ASKED, CALLED, content("user", {"functionResponse": {"response": "seen"}})],
        [ASKED, CALLED, content(None, {"functionResponse": {"parts": [{}]}})],
        at=2,
    ),
    Example(
        "S1",
        "gemini",
        [ASKED, CALLED, content("user", {"functionResponse": {"parts": "seen"}})],
        [ASKED, CALLED, RESPONDED],
        at=2,
    ),
    # Bedrock
    Example(
        "B1",
        "bedrock",
        [converse("user", tool_result("a"))],
        [converse("user", HELLO)],
        said={"tools": TOOLS},
    ),
    Example(
        "B2",
        "bedrock",
        [
            converse("user", HELLO),
            converse("assistant", tool_use("a")),
            converse("user", tool_result("a"), HELLO),
        ],
        [
            converse("user", HELLO),
            converse("assistant", REASONED, tool_use("a"), POINT),
            converse("user", tool_result("a"), POINT),
        ],
        at=2,
        said={"tools": TOOLS, "strict": True},
    ),
    Example("B3", "bedrock", [converse("assistant", HELLO)], [converse("user", HELLO)]),
    Example(
        "B4",
        "bedrock",
        [
            converse("user", HELLO),
            converse("assistant", tool_use("a"), tool_use("b")),
            converse("user", tool_result("a")),
        ],
        [
            converse("user", HELLO),
            converse("assistant", tool_use("a"), tool_use("b")),
            converse("user", tool_result("b"), tool_result("a")),
        ],
        at=1,
        said={"tools": TOOLS},
    ),
    Example(
        "B5",
        "bedrock",
        [converse("user", HELLO), converse("user", HELLO)],
        [converse("user", HELLO, HELLO)],
        at=1,
    ),
    Example("B7", "bedrock", [converse("user", {"text": " "})], [converse("user", HELLO)]),
    Example(
        "B8",
        "bedrock",
        [
            converse("user", HELLO),
            converse("assistant", tool_use("a")),
            converse("user", {"toolResult": {"toolUseId": "a", "content": [], "status": "error"}}),
        ],
        [
            converse("user", HELLO),
            converse("assistant", tool_use("a")),
            converse("user", {"toolResult": {"toolUseId": "a", "content": []}}),
        ],
        at=2,
    ),
    Example("B9", "bedrock", [converse("user", POINT)], [converse("user", HELLO, POINT)]),
    Example("B9", "bedrock", [converse("user")], [converse("user", HELLO)]),
    Example(
        "B11",
        "bedrock",
        [converse("user", HELLO), converse("assistant", REASONED, POINT), converse("user", HELLO)],
        [converse("user", HELLO), converse("assistant", HELLO, POINT), converse("user", HELLO)],
        at=1,
        said=STRICT,
    ),
    Example(
        "A12",
        "bedrock",
        [converse("user", HELLO, POINT, HELLO, POINT)],
        [converse("user", HELLO, POINT)],
        said={"system": [HELLO, POINT, HELLO, POINT], "tools": {"tools": [POINT]}},
    ),
    Example(
        "A14",
        "bedrock",
        [
            converse("user", HELLO),
            converse("assistant", tool_use("a")),
            converse("user", tool_result("a")),
        ],
        [
            converse("user", HELLO),
            converse("assistant", REASONED, SEALED, tool_use("a"), POINT),
            converse("user", tool_result("a")),
        ],
        at=2,
        said={
            "before": [
                converse("user", HELLO),
                converse("assistant", REASONED, SEALED, tool_use("a")),
                converse("user", tool_result("a")),
            ]
        },
    ),
    Example(
        "A15",
        "bedrock",
        [
            converse("user", HELLO),
            converse("assistant", tool_use("a")),
            converse("user", tool_result("a")),
        ],
        [
            converse("user", HELLO),
            converse("assistant", REASONED, tool_use("a")),
            converse("user", tool_result("a")),
        ],
        at=1,
        said={"thinking": True},
    ),
    Example(
        "A12",
        "bedrock",
        [
            converse("user", *[HELLO, POINT] * 5),
            converse("assistant", HELLO),
            converse("user", HELLO),
        ],
        [
            converse("user", *[HELLO, POINT] * 4),
            converse("assistant", HELLO),
            converse("user", HELLO),
        ],
    ),
    Example(
        "S1",
        "bedrock",
        [converse("user", HELLO), converse("assistant", tool_use(1)), converse("user", HELLO)],
        [converse("user", HELLO), converse("assistant", HELLO), converse("user", HELLO)],
        at=1,
    ),
    Example("S6", "bedrock", [converse("user", tool_use("a"))], [converse("user", HELLO)]),
    Example("S1", "bedrock", [converse("user", {"text": 1})], [converse("user", HELLO)]),
    Example(
        "S1",
        "bedrock",
        [
            converse("user", HELLO),
            converse("assistant", tool_use("a")),
            converse("user", {"toolResult": {"toolUseId": "a", "content": "seen"}}),
        ],
        [
            converse("user", HELLO),
            converse("assistant", {"toolUse": {"type": "server_tool_use"}}, {"toolResult": {}}),
            converse("user", HELLO),
        ],
        at=2,
    ),
    # Mistral
    # DeepSeek
    # Kimi
    # Open chat templates
    Example("T1", "openai", [SYSTEM, USER, USER], [SYSTEM, USER, SAID, USER], at=2, said=STRICT),
    Example(
        "T1",
        "openai",
        [SYSTEM, SAID, USER],
        [USER, call("a"), result("a"), SAID, USER],
        at=1,
        said=STRICT,
    ),
    # Texts
    # Shape
    Example("S1", "openai", {}, [USER]),
    Example("S1", "openai", (USER,), [USER]),
    Example("S1", "anthropic", None, [USER]),
    Example("S1", "responses", 3, "hello"),
    Example("S1", "gemini", 1.5, [ASKED]),
    Example("S1", "bedrock", True, [converse("user", HELLO)]),
    Example("S1", "transcript", [USER], "[SYSTEM]"),
    Example("S1", "openai", [USER, "hello"], [USER], at=1),
    Example("S1", "openai", [say("user", ["hello"])], [say("user", [text("hello")])]),
    Example("S1", "anthropic", [USER, None], [USER], at=1),
    Example("S1", "anthropic", [by_user("hello")], [by_user(text())]),
    Example(
        "S1",
        "anthropic",
        [USER, by_model(use("a")), by_user(answer("a", ["seen"]))],
        [USER, by_model(use("a")), by_user(answer("a", None))],
        at=2,
    ),
    Example(
        "S1",
        "anthropic",
        [USER],
        [USER],
        at=-1,
        said={"system": ["You are."]},
        repaired_told={"system": "You are."},
    ),
    Example("S1", "responses", [USER, []], [USER], at=1),
    Example("S1", "responses", [say("user", [1])], [say("user", [{"type": "input_text"}])]),
    Example("S1", "gemini", ["hello"], [ASKED]),
    Example("S1", "gemini", [content("user", "hello")], [ASKED]),
    Example("S1", "bedrock", ["hello"], [converse("user", HELLO)]),
    Example("S1", "bedrock", [converse("user", "hello")], [converse("user", HELLO)]),
    Example("S3", "openai", [{"content": "hello"}], [USER]),
    Example("S3", "anthropic", [USER, {"content": "hello"}], [USER, SAID, USER], at=1),
    Example("S3", "anthropic", [USER, {**USER, "role": ["user"]}], [USER], at=1),
    Example("S3", "responses", [{}], [USER], also=("S1",)),
    Example("S3", "gemini", [content("assistant", TEXT_PART)], [ASKED]),
    Example("S3", "bedrock", [converse("system", HELLO)], [converse("user", HELLO)]),
    Example("S1", "anthropic", [say("user", None)], [USER]),
    Example(
        "S1",
        "anthropic",
        [USER, by_model(use("a")), by_user(answer("a", {}))],
        [USER, by_model(use("a")), by_user(answer("a", []))],
        at=2,
    ),
    Example("S1", "anthropic", [USER], [USER], at=-1, said={"system": 1}, repaired_told={}),
    Example("S1", "responses", [say("user", None)], [USER]),
    *(Example("S1", name, [], [USER]) for name in ("anthropic", "responses")),
    Example("S1", "gemini", [], [ASKED]),
    Example("S1", "bedrock", [], [converse("user", HELLO)]),
    Example("S6", "anthropic", [by_user(use("a"))], [by_user(text())]),
    Example("S6", "anthropic", [USER, aside(use("a"))], [USER, aside(text())], at=1),
    Example(
        "S6",
        "anthropic",
        [USER, by_model(use("a")), aside(answer("a")), USER],
        [*LOOP, aside(text()), SAID, USER],
        at=2,
        also=("A1",),
    ),
    Example(
        "S6",
        "anthropic",
        [USER, by_model(use("a"), answer("a")), by_user(answer("a"))],
        [USER, by_model(use("a")), by_user(answer("a"))],
        at=1,
    ),
    Example("S1", "openai", [USER, say("assistant", tool_calls={})], [USER, SAID], at=1),
    Example("S1", "openai", [USER, call(None)], [USER, say("assistant", tool_calls=None)], at=1),
    Example(
        "S1", "openai", [USER, say("assistant", tool_calls=[1]), result(1)], [USER], 1, ("S1",)
    ),
    Example("S1", "anthropic", [by_user({"text": "hello"})], [by_user(text())]),
    Example("S1", "anthropic", [by_user(text(None))], [by_user(text())]),
    Example(
        "S1",
        "anthropic",
        [USER],
        [USER],
        at=-1,
        said={"system": [text(1)]},
        repaired_told={"system": [text()]},
    ),
    Example("S1", "anthropic", [USER, by_model(use(1)), USER], [USER, SAID, USER], at=1),
    Example("S1", "anthropic", [by_user(answer(None))], [USER]),
    Example(
        "S1",
        "anthropic",
        [USER, by_model(answer(None, kind="x_tool_result")), USER],
        [USER, by_model(use(None, "server_tool_use")), USER],
        at=1,
    ),
    Example("S1", "responses", [{"type": 1}], [{"type": "compaction"}]),
    Example("S1", "responses", [item("function_call", None)], [item("web_search_call", None)]),
    Example("S1", "responses", [item("shell_call_output", 1)], [item("mcp_call", 1)]),
    Example("S1", "gemini", [{"role": "user", "parts": []}], [ASKED]),
    Example("S1", "bedrock", [{"role": "user", "content": "hello"}], [converse("user", HELLO)]),
    Example(
        "S1",
        "bedrock",
        [converse("user", {"toolResult": {}})],
        [converse("user", HELLO)],
    ),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_a_rule_is_broken_where_the_example_breaks_it_and_no_other(example: Example) -> None:
    found = validate(example.broken, format=example.format, **example.said)

    assert sorted({one.code for one in found}) == sorted({example.code, *example.also})
    assert next(one.position for one in found if one.code == example.code) == example.at


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_the_repaired_twin_is_legal(example: Example) -> None:
    said = example.said if example.repaired_told is None else example.repaired_told

    assert validate(example.repaired, format=example.format, **said) == []


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_strict_rules_are_left_out_unless_asked_for(example: Example) -> None:
    found = validate(example.broken, format=example.format, **{**example.said, "strict": False})

    assert not any(one.strict for one in found)


def test_every_rule_that_can_be_checked_has_an_example() -> None:
    checkable = {rule.code for rule in CATALOGUE.values() if rule.checkable}

    assert {example.code for example in EXAMPLES} == checkable


UNANSWERED_USE = (
    "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1."
    " Each `tool_use` block must have a corresponding `tool_result` block in the next message."
)
UNANSWERED_CALLS = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
    " 'tool_call_id'. The following tool_call_ids did not have response messages: call_1, call_2"
)
NO_CALL = "No tool call found for function call output with call_id call_1."


@pytest.mark.parametrize(
    ("messages", "name", "text"),
    [
        ([USER, by_model(use("toolu_1")), USER], "anthropic", UNANSWERED_USE),
        ([USER, call("call_1", "call_2")], "openai", UNANSWERED_CALLS),
        ([USER, CALL], "responses", "No tool output found for function call call_1."),
        ([OUTPUT], "responses", NO_CALL),
    ],
)
def test_the_error_is_the_text_the_provider_answers_with(
    messages: list[Message], name: str, text: str
) -> None:
    assert [one.error for one in validate(messages, format=name)] == [text]


def test_what_is_broken_comes_in_message_order() -> None:
    messages = [SAID, by_model(use("a")), by_user(text("")), by_user(answer("b"))]

    positions = [one.position for one in validate(messages, format="anthropic", strict=True)]

    assert positions == sorted(positions)
    assert len(positions) > 3


# What the examples above cannot say


def test_calls_in_messages_that_the_api_merges_are_reported_where_they_were_written() -> None:
    messages = [USER, by_model(use("a")), by_model(use("b")), USER]

    found = validate(messages, format="anthropic")

    assert [(one.code, one.position) for one in found] == [("A1", 1), ("A1", 2)]


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
        pytest.param([], id="nothing left"),
    ],
)
def test_thinking_since_the_user_last_spoke_may_not_change(after: list[Message]) -> None:
    found = validate(after, format="anthropic", before=LONG_LOOP)

    assert [one.code for one in found if one.code != "S1"] == ["A14"]


def test_thinking_that_becomes_redacted_has_changed() -> None:
    redacted = {**thought("1"), "type": "redacted_thinking"}
    before = [USER, by_model(thought("1"), use("a")), by_user(answer("a"))]
    after = [USER, by_model(redacted, use("a")), by_user(answer("a"))]

    assert "A14" in [one.code for one in validate(after, format="anthropic", before=before)]


def test_thinking_from_before_the_user_last_spoke_may_go() -> None:
    before = [*LONG_LOOP, by_model(text("done")), USER, by_model(thought("3"), use("c"))]
    before.append(by_user(answer("c")))

    assert validate(before, format="anthropic", before=before) == []
    assert validate(without(before, 1, 2), format="anthropic", before=before) == []
    assert validate(without(before, 1, 2, 3, 4), format="anthropic", before=before) == []


def test_a_text_put_beside_results_does_not_hide_that_thinking_is_gone() -> None:
    marked = [USER, by_user(text("note")), by_model(thought("2"), use("b")), LONG_LOOP[4]]

    assert [one.code for one in validate(marked, format="anthropic", before=LONG_LOOP)] == ["A14"]


def test_thinking_that_comes_to_count_as_latest_must_be_from_before() -> None:
    before = [*LOOP, USER, by_model(thought("2"), use("b")), by_user(answer("b"))]
    joined = without(before, 3)
    forged = [USER, by_model(thought("x"), use("a")), *joined[2:]]

    assert validate(joined, format="anthropic", before=before) == []
    assert [one.code for one in validate(forged, format="anthropic", before=before)] == ["A14"]


def test_thinking_is_not_asked_for_while_nothing_was_answered_since_the_user_spoke() -> None:
    assert validate([USER], format="anthropic", thinking=True) == []
    assert validate([USER, by_model()], format="anthropic", thinking=True) == []


def test_a_block_without_a_type_cannot_lead_where_thinking_must() -> None:
    found = validate([USER, by_model({}), by_user()], format="anthropic", thinking=True)

    assert "but found `null`" in next(one.error for one in found if one.code == "A15")


def test_the_same_call_id_in_two_messages_is_legal_where_pairing_is_by_position() -> None:
    messages = [USER, call("a"), result("a"), call("a"), result("a")]

    assert validate(messages, format="openai") == []


def test_two_calls_with_one_id_take_two_results() -> None:
    assert validate([USER, call("", ""), result(""), result("")], format="openai") == []
    assert [one.code for one in validate([USER, call("", ""), result("")], format="openai")] == [
        "O1"
    ]


def test_legacy_functions_need_no_pairs() -> None:
    messages = [
        USER,
        say("assistant", None, function_call={"name": "look", "arguments": "{}"}),
        say("function", None, name="look"),
        say("function", name="look"),
    ]

    assert validate(messages, format="openai") == []


def test_a_legacy_call_stands_outside_the_alternation_as_other_calls_do() -> None:
    legacy = say("assistant", None, function_call={"name": "look", "arguments": "{}"})
    messages = [USER, legacy, say("function", name="look"), SAID, USER]

    assert validate(messages, format="openai", strict=True) == []


def test_parallel_calls_share_the_reasoning_they_were_made_with() -> None:
    second = item("function_call", "call_2", id="fc_2")
    before = [USER, reasoning(), CALL, second, OUTPUT, item("function_call_output", "call_2")]

    assert validate(before, format="responses", before=before) == []
    found = validate(without(before, 1), format="responses", before=before)
    assert [(one.code, one.position) for one in found] == [("R4", 1), ("R4", 2)]


def test_each_of_several_reasoning_items_in_a_row_is_needed() -> None:
    before = [USER, reasoning(), reasoning("rs_2"), CALL, OUTPUT]

    assert validate(before, format="responses", before=before) == []
    for gone, name in ((1, "rs_1"), (2, "rs_2")):
        found = validate(without(before, gone), format="responses", before=before)
        assert [one.code for one in found] == ["R4"]
        assert f"'{name}'" in found[0].error


def test_a_call_made_after_a_result_does_not_need_the_reasoning_from_before_it() -> None:
    later = item("function_call", "call_2", id="fc_2")
    rest = [later, item("function_call_output", "call_2")]
    before = [USER, reasoning(), CALL, OUTPUT, *rest]

    assert validate([USER, *rest], format="responses", before=before) == []


def test_reasoning_is_known_by_its_content_where_it_has_no_id() -> None:
    def nameless(sealed: str) -> Message:
        return {"type": "reasoning", "encrypted_content": sealed}

    before = [USER, nameless("x"), CALL, OUTPUT]

    assert validate(before, format="responses", before=before) == []
    found = validate([USER, nameless("y"), CALL, OUTPUT], format="responses", before=before)
    assert [one.code for one in found] == ["R9", "R4"]


def test_items_that_are_new_or_have_no_name_need_no_reasoning() -> None:
    assert validate([USER, CALL, OUTPUT, SAID], format="responses", before=[USER, SAID]) == []


def test_an_output_may_answer_a_call_that_is_only_referred_to() -> None:
    messages = [USER, {"type": "item_reference", "id": "fc_1"}, OUTPUT]

    assert validate(messages, format="responses") == []


def test_junk_keeps_the_template_rules_from_being_read() -> None:
    found = validate([SYSTEM, None], format="openai", strict=True)

    assert [one.code for one in found] == ["S1"]


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

"""A wire format is one class: what it answers is asked by everything else."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import agora
from agora import Compressor, TokenCounter
from agora.core import Call, Request
from agora.errors import UnknownFormatError
from agora.formats import (
    FORMATS,
    KNOWN,
    BodyFields,
    Format,
    MessageFormat,
    MessageRole,
    ParsedMessage,
    Rule,
    RuleViolation,
    broken_rules,
    detect,
    format_named,
    make_request,
    read_request,
    recall_tool,
)
from agora.logs import read_answer

Line = dict[str, Any]
N1 = Rule("N1", "line {n} answers nothing", "the minutes' own rules")


class BareMinutes(MessageFormat):
    """A made-up format: minutes of a meeting, where `by` says who speaks and `nr` pairs lines."""

    name = "minutes"

    def read_message(self, message: Line, position: int, counter: TokenCounter) -> ParsedMessage:
        tokens, text = counter.count(message["says"]), message["says"]
        if message["by"] == "agent":
            calls = ((message["nr"], Call("do", text)),)
            return ParsedMessage(MessageRole.AGENT, tokens, "", calls=calls)
        if message["by"] == "tool":
            return ParsedMessage(MessageRole.RESULT, tokens, text, answers=(message["nr"],))
        return ParsedMessage(MessageRole.USER, tokens, text)

    def accepts_marker(self, message: Line) -> bool:
        return bool(message["by"] != "agent")

    def is_user_text(self, message: Line) -> bool:
        return bool(message["by"] == "user")

    def append_text(self, message: Line, text: str) -> Line:
        return {**message, "says": f"{message['says']}\n{text}"}

    def replace_results(self, message: Line, notes: list[str]) -> Line:
        return {**message, "says": notes[0]}


class Minutes(BareMinutes):
    """The same with an answer to every question."""

    fields = BodyFields(messages="lines", system=("rules",), server_side=("continues",))
    rules = (N1,)

    def matches_message(self, message: Line) -> bool:
        return "by" in message and "says" in message

    def matches_body(self, body: Mapping[str, Any]) -> bool:
        return "lines" in body

    def is_agent(self, message: Line) -> bool:
        return bool(message.get("by") == "agent")

    def call_ids(self, message: Line) -> list[str]:
        return [message["nr"]] if self.is_agent(message) else []

    def user_message(self, text: str) -> Line:
        return {"by": "user", "says": text}

    def answer(self, body: Mapping[str, Any]) -> list[Any] | None:
        return [body["line"]] if isinstance(body.get("line"), dict) else None

    def tool(self, name: str, description: str, schema: Mapping[str, Any]) -> Line:
        return {"call": name}

    def check(self, request: Request, before: object) -> Iterator[RuleViolation]:
        numbers = {line["nr"] for line in request.messages if line["by"] == "agent"}
        for at, line in enumerate(request.messages):
            if line["by"] == "tool" and line["nr"] not in numbers:
                yield N1.at(at)


@pytest.fixture
def minutes(monkeypatch: pytest.MonkeyPatch) -> Format:
    monkeypatch.setitem(KNOWN, "minutes", Minutes())
    return KNOWN["minutes"]


def lines(steps: int) -> list[Line]:
    made: list[Line] = [{"by": "user", "says": "Find the page with the key."}]
    for n in range(steps):
        text = f"Page {n} says nothing of a key, at some length. " * 60
        made.append({"by": "agent", "nr": f"n{n}", "says": f"open page {n}"})
        made.append({"by": "tool", "nr": f"n{n}", "says": text})
    return made


def test_a_format_from_outside_is_detected_read_and_compressed_by_the_library(
    minutes: Format,
) -> None:
    history = lines(20)
    compression = Compressor(edits="every_call", min_tokens=0).compress(history)

    assert detect(history) == "minutes"
    assert compression.changed
    assert compression.format == "minutes"
    assert len(json.dumps(compression.messages)) < len(json.dumps(history)) / 2
    assert compression.messages[-4:] == history[-4:]
    assert not agora.validate(compression.messages, format="minutes")


def test_a_body_of_a_format_from_outside_is_read(minutes: Format) -> None:
    body = {"model": "m-1", "rules": "Be brief.", "lines": lines(2), "continues": "r-9"}
    request = read_request(body)

    assert (request.format, request.field, request.model) == ("minutes", "lines", "m-1")
    assert (request.system, request.server_side) == ("Be brief.", True)
    assert read_request({"lines": []}, format="minutes").messages == []
    assert recall_tool("minutes") == {"call": "agora_recall"}
    assert read_answer({"line": {"by": "agent", "nr": "a", "says": "go"}}).format == "minutes"
    orphan = [{"by": "tool", "nr": "x", "says": "gone"}]
    assert broken_rules(make_request(orphan))[0].position == 0


def test_the_service_edits_bodies_of_a_format_from_outside(minutes: Format) -> None:
    pytest.importorskip("msgspec")
    from agora.service import Call, Route, Service, settings_from

    route = Route("minutes", "openai", "minutes")
    sheet = {"input": 1.0, "read": 1.0, "write": 1.0, "output": 1.0}
    tables = {"compression": {"min_tokens": 0}, "prices": {"m-1": sheet}}
    settings = settings_from({**tables, "limits": {"workers": 0, "deadline_ms": 60_000}})

    def edited(steps: int, **more: object) -> tuple[Any, str]:
        asked = {"model": "m-1", "rules": "Be brief.", **more, "lines": lines(steps)}
        call = Call(route=route, body=json.dumps(asked).encode(), model="m-1")

        async def edit() -> Any:
            service = Service(settings)
            sent = await service.edit(call)
            await service.close()
            return sent

        sent = asyncio.run(edit())
        return json.loads(sent.body), sent.reason

    out, reason = edited(20)
    library = settings.compressor()
    assert reason == "compressed"
    assert out["lines"] == library.compress(lines(20), model="m-1", system="Be brief.").messages
    assert out["rules"] == "Be brief."
    assert edited(20, continues="r-9")[1] == "server_side_history"


def test_reading_and_writing_is_enough_to_compress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KNOWN, "minutes", BareMinutes())
    compression = Compressor(edits="every_call", min_tokens=0).compress(lines(20), format="minutes")

    assert compression.changed
    with pytest.raises(UnknownFormatError, match="the format 'minutes' has no tools"):
        recall_tool("minutes")
    bare = read_request({"messages": lines(2)}, format="minutes")
    assert (bare.format, bare.field, bare.thinking) == ("minutes", "messages", None)
    format = format_named("minutes")
    assert format.is_agent({"role": "assistant"})
    assert not format.call_ids({})
    assert format.user_message("hi") == {"role": "user", "content": "hi"}
    assert format.answer({"choices": []}) is None


@pytest.mark.parametrize(
    ("name", "message", "ids"),
    [
        ("openai", {"role": "assistant", "tool_calls": [{"id": "a"}, {"id": "b"}]}, ["a", "b"]),
        ("openai", {"role": "assistant", "content": "done"}, []),
        ("responses", {"type": "function_call", "call_id": "a"}, ["a"]),
        ("responses", {"type": "reasoning", "id": "r"}, []),
        ("responses", {"role": "assistant", "content": "done"}, []),
        ("anthropic", {"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]}, ["a"]),
        ("anthropic", {"role": "assistant", "content": "done"}, []),
        ("gemini", {"role": "model", "parts": [{"functionCall": {"name": "f"}}]}, []),
        (
            "bedrock",
            {"role": "assistant", "content": [{"toolUse": {"toolUseId": "a"}}, {"text": "so"}]},
            ["a"],
        ),
        ("bedrock", {"role": "assistant", "content": None}, []),
    ],
)
def test_a_format_knows_the_agents_messages_and_the_ids_of_its_calls(
    name: str, message: Line, ids: list[str]
) -> None:
    format = format_named(name)
    task = format.user_message("Go.")

    assert format.is_agent(message)
    assert list(format.call_ids(message)) == ids
    assert not format.is_agent(task)
    assert detect([task]) in (name, "openai")
    assert not broken_rules(Request(messages=[task], format=name), strict=True)


SPOKEN = {"role": "assistant", "content": [{"text": "done"}]}
TURN = {"role": "model", "parts": [{"text": "done"}]}


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        (
            "openai",
            {"choices": [{"message": {"role": "assistant", "content": "done", "refusal": None}}]},
            [{"role": "assistant", "content": "done"}],
        ),
        ("openai", {"choices": []}, []),
        ("responses", {"output": [{"type": "reasoning"}, 3]}, [{"type": "reasoning"}]),
        ("anthropic", {"role": "assistant", "content": []}, []),
        (
            "anthropic",
            {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
            [{"role": "assistant", "content": [{"type": "text", "text": "done"}]}],
        ),
        ("bedrock", {"output": {"message": SPOKEN}}, [SPOKEN]),
        ("gemini", {"candidates": [{"content": TURN}]}, [TURN]),
        ("gemini", {"candidates": [{"finishReason": "SAFETY"}]}, []),
    ],
)
def test_a_response_is_read_by_the_one_format_that_it_is_in(
    name: str, body: Line, said: list[Any]
) -> None:
    assert format_named(name).answer(body) == said
    others = [other for other in FORMATS if other != name]
    assert [format_named(other).answer(body) for other in others] == [None] * len(others)
    found = read_answer(body)
    assert (found.format, found.messages) == (name, said)


def test_what_no_format_has_is_said_with_the_names_of_those_that_are_known() -> None:
    with pytest.raises(UnknownFormatError, match=r"there is no format 'minutes'"):
        broken_rules(Request(messages=[], format="minutes"))

"""A wire format is one object: what hangs on it is asked by everything else."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

import agora
from agora.compressor import Compressor
from agora.core.forms import Form
from agora.core.markers import Markers
from agora.core.request import Request
from agora.core.tokens import TokenCounter
from agora.core.trajectory import Call
from agora.errors import UnknownFormatError
from agora.formats import (
    FORMATS,
    KNOWN,
    BodyFields,
    Format,
    Parsed,
    Rendered,
    RuleViolation,
    broken_rules,
    detect,
    format_named,
    make_request,
    read_request,
    recall_tool,
)
from agora.formats.base import CATALOGUE
from agora.formats.registry import body_formats, thinking_signed
from agora.formats.render import render_messages
from agora.formats.steps import Assembly, Kind, Reading
from agora.logs.answers import read_answer

Line = dict[str, Any]


class Minutes:
    """A made-up format: minutes of a meeting, where `by` says who speaks and `nr` pairs lines."""

    name = "minutes"

    def parse(self, request: Request, counter: TokenCounter) -> Parsed:
        """Return the trajectory in the minutes."""
        assembly = Assembly(fixed_tokens=0, mask=False)
        for line in request.messages:
            assembly.add(_read(line, counter))
        return assembly.parsed(request)

    def render(self, parsed: Parsed, forms: Mapping[int, Form], markers: Markers) -> Rendered:
        """Return the minutes with their steps shortened."""
        return render_messages(parsed, forms, markers, self)

    def holds(self, message: Line) -> bool:
        """Tell whether a marker can be attached to this line."""
        return bool(message["by"] != "agent")

    def speaks(self, message: Line) -> bool:
        """Tell whether a marker attached here stands among the user's words."""
        return bool(message["by"] == "user")

    def attach(self, message: Line, text: str) -> Line:
        """Return the line with a text behind its own."""
        return {**message, "says": f"{message['says']}\n{text}"}

    def results(self, message: Line) -> int:
        """Return how many results a line carries: all of it is one."""
        return 1

    def note(self, message: Line, notes: list[str]) -> Line:
        """Return the line with another text."""
        return {**message, "says": notes[0]}


def _read(line: Line, counter: TokenCounter) -> Reading:
    tokens, text = counter.count(line["says"]), line["says"]
    if line["by"] == "agent":
        return Reading(Kind.AGENT, tokens, "", calls=((line["nr"], Call("do", text)),))
    if line["by"] == "tool":
        return Reading(Kind.RESULT, tokens, text, answers=(line["nr"],))
    return Reading(Kind.USER, tokens, text)


def _check(request: Request, before: object) -> list[RuleViolation]:
    told = {line["nr"] for line in request.messages if line["by"] == "agent"}
    return [
        RuleViolation("S1", at, CATALOGUE["S1"].says, False)
        for at, line in enumerate(request.messages)
        if line["by"] == "tool" and line["nr"] not in told
    ]


MINUTES = Format(
    adapter=Minutes(),
    check=_check,
    fields=BodyFields(messages="lines", system=("rules",), server_side=("continues",)),
    tells_message=lambda message: "by" in message and "says" in message,
    tells_body=lambda body: "lines" in body,
    acts=lambda line: bool(line["by"] == "agent"),
    call_ids=lambda line: [line["nr"]] if line["by"] == "agent" else [],
    said=lambda text: {"by": "user", "says": text},
    answer=lambda body: [body["line"]] if isinstance(body.get("line"), dict) else None,
    recall={"call": "agora_recall"},
)


@pytest.fixture
def minutes(monkeypatch: pytest.MonkeyPatch) -> Format:
    monkeypatch.setitem(KNOWN, "minutes", MINUTES)
    return MINUTES


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
    from agora.service import Call, Route, settings_from
    from agora.service.edit import Editor
    from agora.service.prompt import read

    route = Route("minutes", "openai", "minutes")
    sheet = {"input": 1.0, "read": 1.0, "write": 1.0, "output": 1.0}
    settings = settings_from({"compression": {"min_tokens": 0}, "prices": {"m-1": sheet}})

    def edited(steps: int, **more: object) -> tuple[Any, str]:
        asked = {"model": "m-1", "rules": "Be brief.", **more, "lines": lines(steps)}
        call = Call(route=route, body=json.dumps(asked).encode(), model="m-1")
        found = Editor(settings).decide(call)
        return json.loads(read(call.body, route).written(found.edit)[0]), found.reason

    out, reason = edited(20)
    library = settings.compressor(settings.sheet("m-1"))
    assert reason == "compressed"
    assert out["lines"] == library.compress(lines(20), system="Be brief.").messages
    assert out["rules"] == "Be brief."
    assert edited(20, continues="r-9")[1] == "server_side_history"


def test_an_adapter_alone_is_enough_to_compress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KNOWN, "minutes", Format(adapter=Minutes()))
    compression = Compressor(edits="every_call", min_tokens=0).compress(lines(20), format="minutes")

    assert compression.changed
    with pytest.raises(UnknownFormatError, match="the format 'minutes' has no tools"):
        recall_tool("minutes")
    bare = read_request({"messages": lines(2)}, format="minutes")
    assert (bare.format, bare.field, bare.thinking) == ("minutes", "messages", None)
    format = format_named("minutes")
    assert format.acts({"role": "assistant"})
    assert not format.call_ids({})
    assert format.said("hi") == {"role": "user", "content": "hi"}
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
    task = format.said("Go.")

    assert format.acts(message)
    assert list(format.call_ids(message)) == ids
    assert not format.acts(task)
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
    with pytest.raises(UnknownFormatError, match=r"no rules for format 'minutes'"):
        broken_rules(Request(messages=[], format="minutes"))
    assert thinking_signed("anthropic")
    assert not thinking_signed("gemini")
    assert not thinking_signed("minutes")
    assert "transcript" not in body_formats()

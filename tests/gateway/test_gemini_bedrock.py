"""Gemini and Bedrock at the gateway: which requests are edited, and what their answers cost."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

import agora
from agora.core.prices import sheet_for
from agora.gateway.edit import Editor, EditorSettings, Job
from agora.gateway.route import CONVERSE, GENERATE, OTHER, Route, by_path
from agora.gateway.tenants import Billed
from agora.gateway.usage import UsageReader
from agora.scorers.lexical import LexicalScorer
from agora.testing import sample
from harness.gateway.strict_upstream import StrictUpstream
from tests.gateway.test_way import House, house

__all__ = ["house"]

PAGE = "A page of text that nobody needs to read twice, as long as it is long. " * 40


def contents(steps: int) -> Iterator[dict[str, Any]]:
    yield {"role": "user", "parts": [{"text": "Find the key."}]}
    for n in range(steps):
        call = {"functionCall": {"name": "open", "args": {"page": n}}, "thoughtSignature": "c2ln"}
        response = {"name": "open", "response": {"output": PAGE}}
        yield {"role": "model", "parts": [call]}
        yield {"role": "user", "parts": [{"functionResponse": response}]}


def converse(steps: int) -> Iterator[dict[str, Any]]:
    yield {"role": "user", "content": [{"text": "Find the key."}]}
    for n in range(steps):
        use = {"toolUseId": f"t{n}", "name": "open", "input": {"page": n}}
        result = {"toolUseId": f"t{n}", "content": [{"text": PAGE}]}
        yield {"role": "assistant", "content": [{"toolUse": use}]}
        yield {"role": "user", "content": [{"toolResult": result}]}


def sent_on(upstream: StrictUpstream) -> Any:
    return json.loads(upstream.received[-1].body)


def test_a_long_request_to_gemini_arrives_shorter(house: House) -> None:
    body = {"contents": list(contents(40)), "generationConfig": {"temperature": 0}}
    path = "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"

    house.ask(path, body, x_goog_api_key="AIza1234")

    out = sent_on(house.upstreams["gemini"])
    assert len(out["contents"]) < len(body["contents"])
    assert out["generationConfig"] == {"temperature": 0}


def test_bedrock_is_compressed_with_a_bearer_token_and_left_alone_when_signed(house: House) -> None:
    tools = {"tools": [{"toolSpec": {"name": "open", "inputSchema": {"json": {}}}}]}
    body = {"messages": list(converse(40)), "toolConfig": tools}
    path = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1:0/converse"

    _, bearer, _ = house.ask(path, body, Authorization="Bearer ABSK1234")
    out = sent_on(house.upstreams["bedrock"])
    assert len(out["messages"]) < len(body["messages"])
    assert out["toolConfig"] == tools

    signature = "AWS4-HMAC-SHA256 Credential=AKIA/20260101/us-east-1/bedrock/aws4_request"
    _, signed, _ = house.ask(path, body, Authorization=signature)
    assert sent_on(house.upstreams["bedrock"]) == body
    assert "signed_body" in signed.values()
    assert "signed_body" not in bearer.values()


@pytest.mark.parametrize(
    ("path", "route", "model"),
    [
        ("/v1beta/models/gemini-3-pro:generateContent", GENERATE, "gemini-3-pro"),
        ("/v1beta/models/gemini-3-pro:streamGenerateContent", GENERATE, "gemini-3-pro"),
        ("/v1beta/models/gemini-3-pro:embedContent", OTHER["gemini"], "gemini-3-pro"),
        ("/model/us.amazon.nova-pro-v1:0/converse", CONVERSE, "us.amazon.nova-pro-v1:0"),
        ("/model/us.amazon.nova-pro-v1:0/converse-stream", CONVERSE, "us.amazon.nova-pro-v1:0"),
        ("/model/us.amazon.nova-pro-v1:0/invoke", OTHER["bedrock"], "us.amazon.nova-pro-v1:0"),
    ],
)
def test_the_path_says_what_is_edited_and_names_the_model(
    path: str, route: Route, model: str
) -> None:
    asked = by_path("POST", path)

    assert asked.route is route
    assert asked.model == model


@pytest.mark.parametrize("route", [GENERATE, CONVERSE], ids=lambda route: route.format)
def test_a_body_is_edited_and_what_stands_around_the_messages_stays(route: Route) -> None:
    editor = Editor(EditorSettings(scorer=LexicalScorer(), schedule="every_call"))
    edited = 0
    for history in sample(route.format, 60, seed=2):
        options: dict[str, Any] = {"generationConfig": {"temperature": 1.0}}
        if route is CONVERSE:
            tools = history.tools or {"tools": [{"toolSpec": {"name": "look"}}]}
            options = {"toolConfig": tools}
        body = json.dumps({**options, route.field: history.messages}).encode()
        job = Job(body=body, route=route, sheet_of=lambda m: sheet_for(m or ""), model="nova")

        outcome = editor(job)

        out = json.loads(outcome.body)
        assert outcome.model == "nova"
        assert {**out, route.field: []} == {**options, route.field: []}
        before = history.messages
        broken = agora.validate(out[route.field], format=route.format, before=before)
        assert not broken
        edited += outcome.changed
    assert edited > 15


def test_what_gemini_says_it_billed_is_read_from_the_last_piece_of_a_stream() -> None:
    reader = UsageReader()
    reader.feed(b'data: {"candidates": [], "usageMetadata": {"promptTokenCount": 100}}\n\n')
    counts = b'"promptTokenCount": 100, "cachedContentTokenCount": 80, "thoughtsTokenCount": 5'
    reader.feed(b'data: {"usageMetadata": {%b, "candidatesTokenCount": 7}}\n\n' % counts)

    assert reader.billed() == Billed(fresh=20, read=80, written=0, output=12)


def test_what_bedrock_says_it_billed_is_read() -> None:
    reader = UsageReader()
    counts = b'"inputTokens": 20, "outputTokens": 7, "cacheReadInputTokens": 80'
    reader.feed(b'{"output": {}, "usage": {%b, "cacheWriteInputTokens": 3}}' % counts)

    assert reader.billed() == Billed(fresh=20, read=80, written=3, output=7)

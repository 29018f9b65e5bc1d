"""Gemini and Bedrock at the gateway: which requests are edited, and what their answers cost."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import agora
from agora.core.prices import sheet_for
from agora.gateway.editing.editor import Editor
from agora.gateway.editing.job import Job
from agora.gateway.editing.settings import EditorSettings
from agora.gateway.routing.routes import CONVERSE, GENERATE, OTHER, Route, by_path
from agora.gateway.watching.bill import Billed
from agora.gateway.watching.usage import UsageReader
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


def reasoned(steps: int, since: int) -> list[dict[str, Any]]:
    """Return a Converse history in which the model reasons from one of its steps on."""
    made = list(converse(steps))
    text = {"text": "The key may be on the next page.", "signature": "c2lnbmF0dXJlLW9mLXN0ZXA="}
    for message in made[1 + 2 * since :: 2]:
        message["content"].insert(0, {"reasoningContent": {"reasoningText": text}})
    return made


def converse_job(messages: list[dict[str, Any]]) -> Job:
    tools = {"tools": [{"toolSpec": {"name": "open", "inputSchema": {"json": {}}}}]}
    body = json.dumps({"toolConfig": tools, "messages": messages}).encode()
    model = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
    return Job(body=body, route=CONVERSE, sheet_of=lambda _: sheet_for(model), model=model)


def test_reasoning_that_begins_later_is_seen_in_a_conversation_that_is_remembered() -> None:
    editor = Editor(EditorSettings(scorer=LexicalScorer()))
    editor(converse_job(reasoned(5, since=6)))
    grows = editor.look(converse_job(reasoned(6, since=6)))
    begins = editor.look(converse_job(reasoned(7, since=6)))

    assert grows.edited is not None
    # From here on steps are masked, so that the body has to be read in full.
    assert begins.edited is None
    editor(converse_job(reasoned(7, since=6)))
    assert editor.look(converse_job(reasoned(8, since=6))).edited is not None


@pytest.mark.parametrize("since", [0, 3, 12, 100])
def test_a_converse_history_gets_the_same_bytes_remembered_or_not(since: int) -> None:
    _same_bytes(lambda steps: converse_job(reasoned(steps, since)))


def test_a_history_for_gemini_gets_the_same_bytes_remembered_or_not() -> None:
    def job(steps: int) -> Job:
        body = json.dumps({"contents": list(contents(steps))}).encode()
        sheet = sheet_for("gemini-2.5-pro")
        return Job(body=body, route=GENERATE, sheet_of=lambda _: sheet, model="gemini-2.5-pro")

    _same_bytes(job)


def _same_bytes(job: Callable[[int], Job]) -> None:
    """Play a conversation through an editor that remembers it, and each call through a new one."""
    editor = Editor(EditorSettings(scorer=LexicalScorer()))
    grew = 0
    for steps in range(4, 30):
        fresh = Editor(EditorSettings(scorer=LexicalScorer(), memory_bytes=0))
        known = editor.look(job(steps)).edited
        grew += known is not None
        known = known or editor(job(steps))

        assert known.body == fresh(job(steps)).body, steps
    assert grew > 15


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

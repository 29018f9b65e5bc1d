"""The real SDKs as clients, a strict provider as upstream, the gateway between them."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from harness.gateway.histories import chat, messages, observation, responses
from harness.gateway.loopback import config_for, gateway, serving
from harness.gateway.scripted_upstream import ScriptedUpstream
from harness.gateway.strict_upstream import StrictUpstream

TEXT = 'The answer is "42", 世界 🙂.'


@pytest.fixture(scope="module")
def upstream() -> Iterator[tuple[StrictUpstream, str]]:
    app = StrictUpstream()
    with serving(app) as url:
        yield app, url


@pytest.fixture(scope="module")
def door(upstream: tuple[StrictUpstream, str]) -> Iterator[str]:
    with gateway(config_for(upstream[1])) as (url, _):
        yield url


def ask_chat(client: openai.OpenAI, body: Any, *, stream: bool) -> str:
    if not stream:
        return client.chat.completions.create(**body).choices[0].message.content or ""
    parts = client.chat.completions.create(
        **body, stream=True, stream_options={"include_usage": True}
    )
    return "".join(p.choices[0].delta.content or "" for p in parts if p.choices)


def ask_responses(client: openai.OpenAI, body: Any, *, stream: bool) -> str:
    if not stream:
        return str(client.responses.create(**body).output_text)
    events = client.responses.create(**body, stream=True)
    return "".join(e.delta for e in events if e.type == "response.output_text.delta")


def ask_messages(client: anthropic.Anthropic, body: Any, *, stream: bool) -> str:
    if not stream:
        return str(client.messages.create(**body).content[0].text)
    with client.messages.stream(**body) as events:
        return "".join(events.text_stream)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("steps", [0, 40])
@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
def test_an_sdk_gets_the_providers_answer_and_long_histories_arrive_shorter(
    upstream: tuple[StrictUpstream, str], door: str, api: str, steps: int, stream: bool
) -> None:
    if api == "messages":
        claude = anthropic.Anthropic(base_url=door, api_key="sk-ant-test", max_retries=0)
        body = messages(steps)
        text = ask_messages(claude, body, stream=stream)
    else:
        gpt = openai.OpenAI(base_url=f"{door}/v1", api_key="sk-test", max_retries=0)
        body = chat(steps) if api == "chat" else responses(steps)
        ask = ask_chat if api == "chat" else ask_responses
        text = ask(gpt, body, stream=stream)

    received = upstream[0].received[-1]
    sent = json.loads(received.body)
    field = "input" if api == "responses" else "messages"
    assert text == TEXT
    assert received.status == 200
    if steps:
        assert len(json.dumps(sent[field])) < 0.8 * len(json.dumps(body[field]))
        assert sent[field][0] == body[field][0] or " elided" in json.dumps(sent[field][0])
        assert sent[field][-1] == body[field][-1]
    else:
        assert sent[field] == body[field]


def test_an_agent_of_thirty_steps_ends_as_it_does_without_the_gateway() -> None:
    ends = []
    app = ScriptedUpstream(steps=30)
    with serving(app) as url, gateway(config_for(url)) as (door, running):
        for base in (url, door):
            client = openai.OpenAI(base_url=f"{base}/v1", api_key="sk-test", max_retries=0)
            ends.append(read_the_book(client))
        reported = running.forwarder.meter.snapshot().by("agora_requests_total", "reason")
        tokens = running.forwarder.meter.snapshot().total("agora_tokens_removed_total")

    assert ends[0] == ends[1]
    assert reported["compressed"] > 10
    assert tokens > 10_000
    assert all(request.status == 200 for request in app.received)
    direct, through = app.received[30], app.received[61]
    assert len(through.body) < 0.8 * len(direct.body)


def read_the_book(client: openai.OpenAI) -> list[str]:
    """Do what the model says until it calls no more tools; return all that it said."""
    parameters = {"type": "object", "properties": {"number": {"type": "integer"}}}
    tool: Any = {"type": "function", "function": {"name": "read_page", "parameters": parameters}}
    history: list[Any] = [{"role": "user", "content": "Read the book."}]
    said = []
    while True:
        asked = client.chat.completions.create(model="gpt-4o", messages=history, tools=[tool])
        message = asked.choices[0].message
        said.append(message.model_dump_json())
        if not message.tool_calls:
            return said
        history.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            assert call.type == "function"
            number = json.loads(call.function.arguments)["number"]
            page = f"This is page {number}. " + observation(number)
            history.append({"role": "tool", "tool_call_id": call.id, "content": page})


def test_an_sdk_sees_the_providers_own_refusal(door: str) -> None:
    client = openai.OpenAI(base_url=f"{door}/v1", api_key="sk-test", max_retries=0)
    broken = chat(3)
    del broken["messages"][3]

    with pytest.raises(openai.BadRequestError, match="did not have response messages"):
        client.chat.completions.create(**broken)


def test_tokens_are_counted_for_the_request_that_will_be_sent(
    upstream: tuple[StrictUpstream, str], door: str
) -> None:
    claude = anthropic.Anthropic(base_url=door, api_key="sk-ant-test", max_retries=0)
    body = messages(40)
    del body["max_tokens"]

    counted = claude.messages.count_tokens(**body).input_tokens

    assert counted < 0.8 * len(json.dumps(body)) / 4

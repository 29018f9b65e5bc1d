"""A wrapped Anthropic client before a provider that binds thinking to the prefix."""

import asyncio
from typing import Any

import pytest

pytest.importorskip("anthropic", reason="the Anthropic client is not installed")
pytest.importorskip("uvicorn", reason="the extra gateway is not installed")

import anthropic

import agora
from agora import Budget, Compressor
from harness.gateway.loopback import serving
from harness.gateway.signing_upstream import SigningUpstream
from harness.shortened import is_edited

MODEL = "claude-fable-5-1"
TOOLS: Any = [{"name": "read", "input_schema": {"type": "object"}}]


def compressor() -> Compressor:
    return Compressor(edits="every_call", budget=Budget(limit=600), min_tokens=0)


def answered(said: Any) -> list[dict[str, Any]]:
    content = [block.model_dump(exclude_none=True) for block in said.content]
    text = f"line of {content[-1]['id']}\n" * 60
    result = {"type": "tool_result", "tool_use_id": content[-1]["id"], "content": text}
    return [{"role": "assistant", "content": content}, {"role": "user", "content": [result]}]


def play(client: Any, messages: list[Any], calls: int) -> None:
    for _ in range(calls):
        said = client.messages.create(model=MODEL, max_tokens=9, tools=TOOLS, messages=messages)
        messages += answered(said)


def test_a_wrapped_client_is_never_refused() -> None:
    upstream = SigningUpstream()
    with serving(upstream) as url:
        client = agora.wrap(anthropic.Anthropic(base_url=url, api_key="k"), compressor())
        play(client, [{"role": "user", "content": "Read all files."}], 24)

    assert upstream.refused == 0
    assert any(is_edited(one.body) for one in upstream.received)


def test_a_conversation_of_another_process_is_continued_without_a_refusal() -> None:
    upstream = SigningUpstream()
    messages: list[Any] = [{"role": "user", "content": "Read all files."}]
    with serving(upstream) as url:
        plain = anthropic.Anthropic(base_url=url, api_key="k", max_retries=0)
        play(plain, messages, 12)
        play(agora.wrap(plain, compressor()), messages, 6)

    assert upstream.refused == 0
    assert any(is_edited(one.body) for one in upstream.received)


def test_an_asynchronous_client_continues_it_too() -> None:
    upstream = SigningUpstream()
    messages: list[Any] = [{"role": "user", "content": "Read all files."}]

    async def played(url: str) -> None:
        client = anthropic.AsyncAnthropic(base_url=url, api_key="k", max_retries=0)
        wrapped = agora.wrap(client, compressor())
        for n in range(18):
            who = client if n < 12 else wrapped
            said = await who.messages.create(
                model=MODEL, max_tokens=9, tools=TOOLS, messages=messages
            )
            messages.extend(answered(said))

    with serving(upstream) as url:
        asyncio.run(played(url))

    assert upstream.refused == 0
    assert any(is_edited(one.body) for one in upstream.received)


def test_a_refusal_for_another_reason_is_the_callers() -> None:
    upstream = SigningUpstream()
    with serving(upstream) as url:
        client = agora.wrap(anthropic.Anthropic(base_url=url, api_key="k", max_retries=0))
        with pytest.raises(anthropic.BadRequestError):
            client.messages.create(model=MODEL, max_tokens=9, tools=TOOLS, messages=[])

    assert upstream.refused == 1


def test_thinking_of_somebody_else_is_given_up_and_the_request_sent_once_more() -> None:
    upstream = SigningUpstream()
    foreign = {"type": "thinking", "thinking": "hm", "signature": "not ours at all, and long"}
    use = {"type": "tool_use", "id": "toolu_0", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_0", "content": "done"}
    messages: list[Any] = [
        {"role": "user", "content": "Read."},
        {"role": "assistant", "content": [foreign, use]},
        {"role": "user", "content": [result]},
    ]
    with serving(upstream) as url:
        client = agora.wrap(anthropic.Anthropic(base_url=url, api_key="k", max_retries=0))
        play(client, messages, 2)

    assert upstream.refused == 1

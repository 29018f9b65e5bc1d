"""Wrapped clients in an experiment: one arm edited, the other as it is, both counted."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="the clients have an environment of their own")
pytest.importorskip("anthropic", reason="the clients have an environment of their own")
pytest.importorskip("uvicorn", reason="the provider here stands on the gateway's harness")

import anthropic
import openai

import agora
from agora.experiment.assignment import Arm
from agora.experiment.store import read_account
from harness.gateway.histories import chat, messages
from harness.gateway.loopback import serving

KEY = "a secret that replicas share"
EVENTS: dict[str, list[dict[str, Any]]] = {
    "/v1/chat/completions": [
        {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []}
        | {"usage": {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}}
        | {}
    ],
    "/v1/messages": [
        {
            "type": "message_start",
            "message": {
                "id": "1",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {"input_tokens": 60, "cache_read_input_tokens": 40, "output_tokens": 1},
            },
        },
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
        | {"usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ],
}
WHOLE: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 7,
            "total_tokens": 107,
            "prompt_tokens_details": {"cached_tokens": 40},
        },
    },
    "/v1/messages": {
        **EVENTS["/v1/messages"][0]["message"],
        "usage": {"input_tokens": 60, "cache_read_input_tokens": 40, "output_tokens": 7},
    },
}


class Provider:
    """Answers with a usage of 100 tokens in and 7 out; keeps what it got."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[bytes, bytes]] = []
        self.status = 200

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for _ in range(2):
                message = await receive()
                await send({"type": f"{message['type']}.complete"})
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.bodies.append(json.loads(body))
        self.headers.append(dict(scope["headers"]))
        kind, said = b"application/json", json.dumps(WHOLE[scope["path"]]).encode()
        if self.bodies[-1].get("stream"):
            kind = b"text/event-stream"
            said = b"".join(
                b"event: %b\ndata: %b\n\n"
                % (each.get("type", "message").encode(), json.dumps(each).encode())
                for each in EVENTS[scope["path"]]
            )
        headers = [(b"content-type", kind)]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": said})


@pytest.fixture
def provider() -> Iterator[tuple[Provider, str]]:
    app = Provider()
    with serving(app) as url:
        yield app, url


@pytest.fixture
def experiment(tmp_path: Path) -> Iterator[agora.Experiment]:
    experiment = agora.Experiment(tmp_path, key=KEY, share=0.5)
    yield experiment
    experiment.close()


def in_arm(experiment: agora.Experiment, arm: Arm) -> str:
    tenant = experiment.tenant_of("sk-1")
    names = (f"task-{n}" for n in range(100))
    return next(
        name
        for name in names
        if (seat := experiment.seat(name, first=True, tenant=tenant)) and seat.arm is arm
    )


def settings(url: str) -> dict[str, Any]:
    return {"base_url": url, "api_key": "sk-1", "max_retries": 0}


def ask(url: str, way: str, experiment: agora.Experiment, name: str) -> None:
    """Send one long prompt in one of the ways that the SDKs have."""
    compressor = agora.Compressor(schedule="every_call", min_tokens=200)
    sdk, _, call = way.partition("/")
    head = {"extra_headers": {"X-Agora-Conversation": name}}
    stream = {"stream": True} if "stream" in call else {}
    if sdk == "anthropic":
        body = messages(40, 900)
        given: dict[str, Any] = {"max_tokens": 9, "model": "claude-sonnet-5"}
        given |= {"messages": body["messages"], **head, **stream}
        client = agora.wrap(anthropic.Anthropic(**settings(url)), compressor, experiment=experiment)
        answer: Any = client.messages.create(**given)
    else:
        given = {"model": "gpt-5", "messages": chat(40, 900)["messages"], **head, **stream}
        if call.startswith("a"):

            async def run() -> None:
                wrapped = agora.wrap(
                    openai.AsyncOpenAI(**settings(f"{url}/v1")), compressor, experiment=experiment
                )
                found: Any = await wrapped.chat.completions.create(**given)
                if stream:
                    assert [event async for event in found]
                await wrapped.close()

            asyncio.run(run())
            return
        client_: Any = agora.wrap(
            openai.OpenAI(**settings(f"{url}/v1")), compressor, experiment=experiment
        )
        kind = client_.chat.completions
        answer = (kind.with_raw_response if call == "raw" else kind).create(**given)
    if stream:
        assert list(answer)


@pytest.mark.parametrize(
    "way",
    "openai/sync openai/stream openai/async openai/astream openai/raw anthropic/sync "
    "anthropic/stream".split(),
)
def test_one_arm_is_edited_and_both_are_counted(
    provider: tuple[Provider, str], experiment: agora.Experiment, tmp_path: Path, way: str
) -> None:
    app, url = provider
    for arm in (Arm.AGORA, Arm.EVERYTHING):
        ask(url, way, experiment, in_arm(experiment, arm))
    experiment.close()
    edited, whole = (len(body["messages"]) for body in app.bodies)
    account = read_account(tmp_path)

    assert json.dumps(app.bodies[0]) != json.dumps(app.bodies[1])
    assert len(json.dumps(app.bodies[0])) < len(json.dumps(app.bodies[1])) / 2
    assert edited <= whole
    assert all(b"x-agora-conversation" not in headers for headers in app.headers)
    assert {each.arm for each in account.open.values()} == {"agora", "everything"}
    for each in account.open.values():
        assert (each.calls, each.answered, each.prompt_tokens) == (1, 1, 100)
        assert each.output_tokens == 7
        assert each.dollars > 0
        assert each.affected
        assert not each.born


def test_a_refused_call_is_counted_by_its_status(
    provider: tuple[Provider, str], experiment: agora.Experiment, tmp_path: Path
) -> None:
    app, url = provider
    app.status = 429
    with pytest.raises(openai.RateLimitError):
        ask(url, "openai/sync", experiment, in_arm(experiment, Arm.EVERYTHING))
    experiment.close()
    (found,) = read_account(tmp_path).open.values()

    assert (found.calls, found.answered, found.errors) == (1, 0, {"429": 1})


def test_without_a_header_a_conversation_is_known_by_what_its_user_said(
    provider: tuple[Provider, str], experiment: agora.Experiment, tmp_path: Path
) -> None:
    app, url = provider
    client = agora.wrap(openai.OpenAI(**settings(f"{url}/v1")), experiment=experiment)
    turns: list[Any] = [{"role": "user", "content": "find the part"}]
    client.chat.completions.create(model="gpt-5", messages=turns)
    turns += [{"role": "assistant", "content": "so"}, {"role": "user", "content": "on"}]
    client.chat.completions.create(model="gpt-5", messages=turns)
    experiment.close()
    (found,) = read_account(tmp_path).open.values()

    assert found.calls == 2
    assert found.born
    assert not found.affected
    assert len(app.bodies) == 2

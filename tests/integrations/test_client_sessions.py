"""The rules of sessions with the SDKs themselves: their retries, their streams."""

import json
from collections import deque
from collections.abc import Collection
from http.server import BaseHTTPRequestHandler
from itertools import groupby, pairwise
from typing import Any

import pytest

pytest.importorskip("openai", reason="the clients have an environment of their own")
pytest.importorskip("anthropic", reason="the clients have an environment of their own")

import anthropic
import openai

import agora
from tests.integrations.loopback import chat_events, serving

RESULT = "the log of the harbour office says that the crane was moved at six " * 40
STEPS = 30
SETTINGS: dict[str, Any] = {"forgetting": 0.0, "max_cost_ratio": 2.0}
"""For edits in a short conversation."""
Body = dict[str, Any]


def openai_step(number: int) -> list[Body]:
    function = {"name": "read_file", "arguments": json.dumps({"path": f"{number}.log"})}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": f"KEY{number} {RESULT}"},
    ]


def anthropic_step(number: int) -> list[Body]:
    use = {"type": "tool_use", "id": f"toolu_{number}", "name": "read_file"}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{number}"}
    return [
        {"role": "assistant", "content": [{**use, "input": {"path": f"{number}.log"}}]},
        {"role": "user", "content": [{**result, "content": f"KEY{number} {RESULT}"}]},
    ]


def answer_of(path: str, body: Body) -> Body:
    """Return an answer that makes the call of the conversation's next step."""
    number = sum(message["role"] == "assistant" for message in body["messages"]) + 1
    if path.endswith("/messages"):
        usage = {"input_tokens": 9, "output_tokens": 9}
        said = {"role": "assistant", "content": anthropic_step(number)[0]["content"]}
        return {"id": "m", "type": "message", "model": body["model"], "usage": usage, **said}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": openai_step(number)[0]}
    return {"id": "c", "object": "chat.completion", "created": 1, "choices": [choice]}


def sent_by(endpoint: str, failing: Collection[int], status: int) -> list[bytes]:
    """Play a conversation by price; the provider fails once at each of these calls."""
    received: list[bytes] = []
    left = set(failing)

    class Provider(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            received.append(raw)
            body = json.loads(raw)
            calls = len(list(groupby(received)))
            fails = calls in left
            left.discard(calls)
            said = json.dumps({"error": {}} if fails else answer_of(self.path, body)).encode()
            self.send_response(status if fails else 200)
            self.send_header("content-type", "application/json")
            self.send_header("retry-after-ms", "1")
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *said: Any) -> None:
            pass

    with serving(Provider) as url:
        if endpoint == "openai":
            client: Any = openai.OpenAI(base_url=f"{url}/v1", api_key="key", max_retries=2)
            ask, step = agora.wrap(client, **SETTINGS).chat.completions.create, openai_step
            options: Body = {"model": "gpt-5"}
        else:
            client = anthropic.Anthropic(base_url=url, api_key="key", max_retries=2)
            ask, step = agora.wrap(client, **SETTINGS).messages.create, anthropic_step
            options = {"model": "claude-sonnet-4-6", "max_tokens": 9}
        messages: list[Body] = [{"role": "user", "content": "Read every log."}]
        for number in range(1, STEPS + 1):
            messages += step(number)
            ask(messages=messages, **options)
    assert not left
    return received


@pytest.mark.parametrize("status", [429, 500])
@pytest.mark.parametrize("endpoint", ["openai", "anthropic"])
def test_a_call_that_the_sdk_tries_again_is_sent_as_the_same_bytes(
    endpoint: str, status: int
) -> None:
    undisturbed = sent_by(endpoint, (), status)
    # Any call may fail: those with a new edit, those before it and those after it.
    disturbed = sent_by(endpoint, range(1, STEPS + 1, 2), status)

    assert len(undisturbed) == STEPS
    assert any(len(later) < len(body) for body, later in pairwise(undisturbed))
    assert len(disturbed) == STEPS + STEPS // 2
    assert [body for body, _ in groupby(disturbed)] == undisturbed


@pytest.mark.parametrize("pause", [0.0, 4_000.0])
def test_the_clock_runs_from_the_end_of_a_streamed_answer(
    pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, received = 0.0, []

    class Provider(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            received.append(raw)
            body = json.loads(raw)
            answer = {**answer_of(self.path, body), "model": body["model"], "usage": None}
            said = b"".join(chat_events(answer))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *said: Any) -> None:
            pass

    monkeypatch.setattr(
        "agora.integrations.base.Session", lambda made: agora.Session(made, clock=lambda: now)
    )
    with serving(Provider) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="key", max_retries=0)
        ask: Any = agora.wrap(client).chat.completions.create
        messages: list[Body] = [{"role": "user", "content": "Read every log."}]
        for number in range(1, STEPS + 1):
            messages += openai_step(number)
            now += pause if number == STEPS else 1.0
            deque(ask(model="claude-sonnet-4-6", messages=messages, stream=True), maxlen=0)

    assert (len(received[-1]) < len(received[-2])) is bool(pause)

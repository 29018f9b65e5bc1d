"""Requests made up from an OpenAPI description, and what the gateway answers."""

import json
import time
from collections.abc import Iterator
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings

from agora.gateway.config import Compression
from harness.gateway.histories import chat, messages, responses
from harness.gateway.loopback import config_for, gateway, serving
from harness.gateway.strict_upstream import StrictUpstream

_ANY = {"description": "an answer"}
_TEXT = {"type": "string", "maxLength": 200}
# Arbitrary values are slow to generate, so they are used only where they make a difference.
_MORE = {"anyOf": [_TEXT, {"type": "number"}, {"type": "null"}]}
_BLOCK = {
    "type": "object",
    "properties": {
        "type": {"enum": ["text", "tool_use", "tool_result", "input_text", "thinking", "odd"]},
        "text": _TEXT,
        "id": {"enum": ["a", "b"]},
        "tool_use_id": {"enum": ["a", "b"]},
        "name": _TEXT,
        "input": {"type": "object"},
        "content": {},
    },
    "required": ["type"],
    "additionalProperties": _MORE,
}
_MESSAGE = {
    "type": "object",
    "properties": {
        "role": {"enum": ["system", "user", "assistant", "tool", "odd"]},
        "content": {
            "anyOf": [_TEXT, {"type": "array", "items": _BLOCK, "maxItems": 4}, {"type": "null"}]
        },
        "tool_calls": {"type": "array", "items": {"type": "object"}, "maxItems": 2},
        "tool_call_id": {"enum": ["a", "b"]},
        "type": {"enum": ["message", "function_call", "function_call_output", "reasoning", "odd"]},
        "call_id": {"enum": ["a", "b"]},
    },
    "required": ["role", "content"],
    "additionalProperties": _MORE,
}
_PLAIN = {
    "type": "object",
    "properties": {"role": {"enum": ["user", "assistant"]}, "content": {**_TEXT, "minLength": 1}},
    "required": ["role", "content"],
    "additionalProperties": False,
}
"""What a provider takes in any order that begins with the user."""


def _post(field: str) -> dict[str, Any]:
    messages = {"type": "array", "items": _MESSAGE, "minItems": 1, "maxItems": 6}
    plain = {"type": "array", "items": _PLAIN, "minItems": 1, "maxItems": 6}
    body = {
        "type": "object",
        "properties": {
            "model": {"enum": ["gpt-4o", "gpt-4", "claude-sonnet-4-6", ""]},
            # With `{}` among them, anything would do, and that is what would be made.
            field: {"anyOf": [plain, messages]},
            "max_tokens": {"type": "integer"},
            "tools": {"type": "array", "items": {"type": "object"}, "maxItems": 2},
            "system": {},
            "stream": {"type": "boolean"},
            "thinking": {},
            "previous_response_id": {"type": "string"},
        },
        # Without these nearly all bodies lack the messages, and nothing behind that is tried.
        "required": ["model", field],
    }
    bypass = {
        "name": "x-agora-bypass",
        "in": "header",
        "schema": {"enum": ["0", "0", "0", "1", "odd"]},
    }
    return {
        "post": {
            "parameters": [bypass],
            "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
            "responses": {"default": _ANY},
        }
    }


OPENAPI = {
    "openapi": "3.0.2",
    "info": {"title": "agora gateway", "version": "1"},
    "paths": {
        "/v1/chat/completions": _post("messages"),
        "/v1/responses": _post("input"),
        "/v1/messages": _post("messages"),
        "/v1/messages/count_tokens": _post("messages"),
        "/v1/agora/score": _post("messages"),
        "/livez": {"get": {"responses": {"200": _ANY}}},
        "/readyz": {"get": {"responses": {"200": _ANY}}},
        "/metrics": {"get": {"responses": {"200": _ANY}}},
        "/{anything}": {
            "get": {
                "parameters": [
                    {
                        "name": "anything",
                        "in": "path",
                        "required": True,
                        "schema": {"type": "string"},
                    }
                ],
                "responses": {"default": _ANY},
            }
        },
    },
}


_HISTORIES = {
    "/v1/chat/completions": ("messages", chat(40, 1_000)["messages"]),
    "/v1/responses": ("input", responses(40, 1_000)["input"]),
    "/v1/messages": ("messages", messages(40, 1_000)["messages"]),
    "/v1/messages/count_tokens": ("messages", messages(40, 1_000)["messages"]),
    "/v1/agora/score": ("messages", chat(40, 1_000)["messages"]),
}
_AT_ONCE = 40
"""Bodies between two looks at the clock. They are made up whether the test asks or returns at once,
so a limit inside of it is none."""


def conformance(
    count: int, *, most_seconds: float = 600.0
) -> tuple[dict[int, int], dict[str, int]]:
    """Send so many requests and return how often each status came back, and what became of them.

    To make a body up takes longer than to answer it, so each one is asked at every place that takes
    a body, on its own and behind a long history: on their own they are short, and nothing in them
    would ever be elided.

    Each of the operations has its share of the seconds; what it has not asked by then is not asked.
    """
    schema: Any = schemathesis.openapi.from_dict(OPENAPI)
    statuses: dict[int, int] = {}
    with (
        serving(StrictUpstream()) as upstream_url,
        # Nothing is too short to be read.
        gateway(config_for(upstream_url, compression=Compression(min_tokens=0))) as (url, app),
    ):
        operations = [result.ok() for result in schema.get_all_operations()]
        for operation in operations:
            seconds = most_seconds / len(operations)
            _ask(operation, url, max(1, count // len(operations)), seconds, statuses)
        said = app.forwarder.meter.snapshot().by("agora_requests_total", "reason")
    return statuses, {reason: int(n) for reason, n in said.items()}


def _ask(
    operation: Any, url: str, count: int, most_seconds: float, statuses: dict[int, int]
) -> None:
    until = time.monotonic() + most_seconds
    from_one = 3 * len(_HISTORIES) if operation.path in _HISTORIES else 1
    done = 0

    def ask(case: Any) -> None:
        nonlocal done
        headers = {"content-type": "application/json", **case.headers}
        answers = [
            session.post(url + path, json.dumps(body), headers=headers)
            for path, body in _bodies(operation.path, case.body)
        ] or [case.call(base_url=url, session=session)]
        done += len(answers)
        for answer in answers:
            statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1

    made_up = given(case=operation.as_strategy())
    with requests.Session() as session:
        while done < count and time.monotonic() < until:
            few = settings(
                max_examples=min(_AT_ONCE, -(-(count - done) // from_one)),
                deadline=None,
                suppress_health_check=list(HealthCheck),
                database=None,
                phases=[Phase.generate],
            )
            seed(done)(few(made_up(ask)))()


def _bodies(made_for: str, body: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return a body that was made up for one place as all of them would take it."""
    field, _ = _HISTORIES.get(made_for, ("", []))
    if not isinstance(body, dict) or not isinstance(body.get(field), list):
        return
    made_up = body[field]
    rest = {name: value for name, value in body.items() if name != field}
    for path, (name, history) in _HISTORIES.items():
        yield path, {**rest, name: made_up}
        yield path, {**rest, name: history + made_up}
        # Nearly every body has something illegal next to its messages.
        yield path, {"model": rest.get("model", ""), name: history + made_up}

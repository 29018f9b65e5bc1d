"""Requests made up from an OpenAPI description: none of them gets a 5xx."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from agora.gateway.config import Compression
from tests.gateway.loopback import config_for, gateway, serving
from tests.gateway.strict_upstream import StrictUpstream

schemathesis = pytest.importorskip("schemathesis", reason="makes requests up")

_ANY = {"description": "an answer"}
_MESSAGE = {
    "type": "object",
    "properties": {
        "role": {"enum": ["system", "user", "assistant", "tool", "odd"]},
        "content": {},
        "tool_calls": {"type": "array", "items": {"type": "object"}},
        "tool_call_id": {"type": "string"},
        "type": {"type": "string"},
    },
}


def _post(field: str) -> dict[str, Any]:
    body = {
        "type": "object",
        "properties": {
            "model": {"type": "string"},
            field: {"anyOf": [{"type": "array", "items": _MESSAGE}, {}]},
            "tools": {},
            "system": {},
            "stream": {"type": "boolean"},
            "thinking": {},
            "previous_response_id": {"type": "string"},
        },
    }
    bypass = {"name": "x-agora-bypass", "in": "header", "schema": {"type": "string"}}
    return {
        "post": {
            "parameters": [bypass],
            "requestBody": {"content": {"application/json": {"schema": body}}},
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


def conformance(count: int) -> dict[int, int]:
    """Send so many requests and return how often each status came back."""
    schema = schemathesis.openapi.from_dict(OPENAPI)
    statuses: dict[int, int] = {}
    with (
        serving(StrictUpstream()) as upstream_url,
        # Nothing is too short to be read.
        gateway(config_for(upstream_url, compression=Compression(min_tokens=0))) as (url, _),
    ):
        operations = [result.ok() for result in schema.get_all_operations()]
        for operation in operations:

            @settings(
                max_examples=max(1, count // len(operations)),
                deadline=None,
                suppress_health_check=list(HealthCheck),
                database=None,
            )
            @given(case=operation.as_strategy())
            def ask(case: Any) -> None:
                status = case.call(base_url=url).status_code
                statuses[status] = statuses.get(status, 0) + 1

            ask()
    return statuses


def test_no_request_gets_a_server_error() -> None:
    statuses = conformance(80)

    assert statuses[200] > 10
    assert not [status for status in statuses if status >= 500]

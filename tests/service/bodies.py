"""Requests of drawn histories, as the bodies of each API."""

import json
from collections.abc import Iterator
from typing import Any

from agora.service import Route, route_of
from harness.histories import History, sample

PATHS = {
    "openai": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/gemini-3-pro:generateContent",
    "bedrock": "/model/anthropic.claude-sonnet-4-5/converse",
}
MODELS = {"openai": "gpt-4o", "responses": "gpt-5", "anthropic": "claude-sonnet-4-5"}


def route_for(format: str) -> Route:
    route = route_of("POST", PATHS[format])
    assert route is not None
    return route


def body_of(history: History) -> dict[str, Any]:
    fields = route_for(history.format).fields
    body: dict[str, Any] = {}
    if history.format in MODELS:
        body["model"] = MODELS[history.format]
    if history.system is not None:
        body[fields.system[0]] = history.system
    if history.tools is not None:
        body[fields.tools[0]] = history.tools
    if history.thinking and history.format == "anthropic":
        body["thinking"] = {"type": "enabled", "budget_tokens": 1_024}
    return {**body, fields.messages: history.messages}


def drawn(format: str, count: int, seed: int = 0) -> Iterator[bytes]:
    for n, history in enumerate(sample(format, count, seed=seed)):
        text = json.dumps(body_of(history), ensure_ascii=n % 2 == 0, indent=n % 3 or None)
        yield text.encode("utf-8", "surrogatepass")

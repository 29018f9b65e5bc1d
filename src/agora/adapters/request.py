"""Requests read: from whole bodies, or from messages and what the caller says of them."""

from typing import Any

from agora.adapters.detect import detect, known_format
from agora.core.request import Observations, Request
from agora.errors import UnknownFormatError


def make_request(
    messages: Any,
    *,
    format: str | None = None,
    system: object = None,
    tools: object = None,
    thinking: bool | None = None,
    observations: Observations | None = None,
    model: str | None = None,
) -> Request:
    """Return the request that these keywords describe; the format is detected when not given.

    >>> make_request("[USER] hi").format
    'transcript'

    Raises:
        UnknownFormatError: there is no such format, or none fits the messages.
    """
    return Request(
        messages=messages,
        format=known_format(format) if format else detect(messages, system=system),
        system=system,
        tools=tools,
        thinking=thinking,
        observations=observations,
        model=model,
    )


def read_request(body: Any, *, format: str | None = None) -> Request:
    """Return the request in `body`: a request's JSON, or bare messages in any format.

    >>> read_request({"model": "m", "input": "hi", "previous_response_id": "r"}).server_side
    True
    """
    if not isinstance(body, dict):
        return Request(format=format or detect(body), messages=body, field="", body=body)
    if "input" in body:
        return Request(
            format="responses",
            messages=body["input"],
            field="input",
            body=body,
            model=body.get("model"),
            system=body.get("instructions"),
            tools=body.get("tools"),
            server_side=bool(body.get("previous_response_id") or body.get("conversation")),
        )
    if "contents" in body:
        return _read_gemini(body)
    if "messages" not in body:
        raise UnknownFormatError(
            "the body has neither messages nor input nor contents",
            ("openai", "responses", "anthropic", "gemini", "bedrock"),
        )
    system = body.get("system")
    found = format or _format_of(body)
    if found == "bedrock":
        return _read_bedrock(body)
    return Request(
        format=found,
        messages=body["messages"],
        field="messages",
        body=body,
        model=body.get("model"),
        system=system,
        tools=body.get("tools"),
        thinking=_thinking(body.get("thinking")),
    )


_CONVERSE = ("toolConfig", "inferenceConfig", "additionalModelRequestFields", "modelId")
"""Fields that only a Converse body has."""


def _format_of(body: dict[str, Any]) -> str:
    if any(name in body for name in _CONVERSE):
        return "bedrock"
    system = body.get("system")
    blocks = system if isinstance(system, list) else ()
    if any(isinstance(block, dict) and "type" not in block for block in blocks):
        return "bedrock"
    found = detect(body["messages"])
    return "anthropic" if system and found != "bedrock" else found


def _read_gemini(body: dict[str, Any]) -> Request:
    """Return a `generateContent` body taken apart; the SDK's spelling is read as well."""
    settings = body.get("generationConfig", body.get("generation_config"))
    thinking = None
    if isinstance(settings, dict):
        thinking = _thinks(settings.get("thinkingConfig", settings.get("thinking_config")))
    return Request(
        format="gemini",
        messages=body["contents"],
        field="contents",
        body=body,
        model=body.get("model"),
        system=body.get("systemInstruction", body.get("system_instruction")),
        tools=body.get("tools"),
        thinking=thinking,
    )


def _thinks(setting: object) -> bool | None:
    if not isinstance(setting, dict):
        return None
    return setting.get("thinkingBudget", setting.get("thinking_budget")) != 0


def _read_bedrock(body: dict[str, Any]) -> Request:
    """Return a Converse body taken apart. Without `toolConfig` it is known to have no tools."""
    more = body.get("additionalModelRequestFields")
    setting = more.get("thinking", more.get("reasoning_config")) if isinstance(more, dict) else None
    return Request(
        format="bedrock",
        messages=body["messages"],
        field="messages",
        body=body,
        model=body.get("modelId"),
        system=body.get("system"),
        tools=body.get("toolConfig") or {},
        thinking=_thinking(setting),
    )


def _thinking(setting: object) -> bool | None:
    if not isinstance(setting, dict):
        return None
    return setting.get("type") != "disabled"

"""Gemini `generateContent`; the Python SDK's spelling is read as well."""

from collections.abc import Mapping
from typing import Any

from agora.adapters.base import Message
from agora.adapters.format import BodyFields, Format
from agora.adapters.gemini_contents import GeminiContents
from agora.adapters.rules.gemini import check
from agora.adapters.rules.shape import as_list, as_object
from agora.core.recall import TOOL_DESCRIPTION, TOOL_NAME, TOOL_SCHEMA


def _tells(message: Message) -> bool:
    return "parts" in message and "content" not in message


def _tells_body(body: Mapping[str, Any]) -> bool:
    return "contents" in body


def _thinks(body: Mapping[str, Any]) -> bool | None:
    settings = body.get("generationConfig", body.get("generation_config"))
    if not isinstance(settings, dict):
        return None
    thinking = settings.get("thinkingConfig", settings.get("thinking_config"))
    if not isinstance(thinking, dict):
        return None
    return thinking.get("thinkingBudget", thinking.get("thinking_budget")) != 0


def _acts(message: Message) -> bool:
    return message.get("role") == "model"


def _said(text: str) -> Message:
    return {"role": "user", "parts": [{"text": text}]}


def _answer(body: Mapping[str, Any]) -> list[Any] | None:
    if not isinstance(body.get("candidates"), list):
        return None
    first = as_object(next(iter(as_list(body["candidates"])), None))
    turn = as_object(first.get("content"))
    return [turn] if isinstance(turn.get("parts"), list) else []


# Under `parameters` Gemini reads a schema language of its own, which refuses
# `additionalProperties`.
_DECLARED = {
    "name": TOOL_NAME,
    "description": TOOL_DESCRIPTION,
    "parametersJsonSchema": TOOL_SCHEMA,
}
FORMAT = Format(
    adapter=GeminiContents(),
    check=check,
    fields=BodyFields(
        messages="contents", system=("systemInstruction", "system_instruction"), thinks=_thinks
    ),
    tells_message=_tells,
    tells_body=_tells_body,
    acts=_acts,
    said=_said,
    answer=_answer,
    recall={"functionDeclarations": [_DECLARED]},
)

"""OpenAI Responses: `input` items."""

from collections.abc import Mapping
from typing import Any

from agora.adapters.base import Message
from agora.adapters.format import BodyFields, Format
from agora.adapters.openai_responses import OpenAIResponses
from agora.adapters.rules.responses import check
from agora.core.recall import TOOL_DESCRIPTION, TOOL_NAME, TOOL_SCHEMA

_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file"})


def _tells(message: Message) -> bool:
    return "type" in message and not ("parts" in message and "content" not in message)


def _tells_part(part: Message) -> bool:
    return part.get("type") in _PARTS


def _tells_body(body: Mapping[str, Any]) -> bool:
    return "input" in body


def _acts(message: Message) -> bool:
    if message.get("role") is not None:
        return bool(message["role"] == "assistant")
    kind = str(message.get("type", ""))
    return kind == "reasoning" or kind.endswith("_call")


def _call_ids(message: Message) -> list[str]:
    called = "call_id" in message and str(message.get("type", "")).endswith("_call")
    return [str(message["call_id"])] if called else []


def _answer(body: Mapping[str, Any]) -> list[Any] | None:
    output = body.get("output")
    if not isinstance(output, list):
        return None
    return [item for item in output if isinstance(item, dict)]


_FUNCTION = {"name": TOOL_NAME, "description": TOOL_DESCRIPTION, "parameters": TOOL_SCHEMA}
FORMAT = Format(
    adapter=OpenAIResponses(),
    check=check,
    fields=BodyFields(
        messages="input",
        system=("instructions",),
        server_side=("previous_response_id", "conversation"),
    ),
    tells_message=_tells,
    tells_part=_tells_part,
    tells_body=_tells_body,
    acts=_acts,
    call_ids=_call_ids,
    answer=_answer,
    recall={"type": "function", **_FUNCTION},
)

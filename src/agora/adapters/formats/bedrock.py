"""Bedrock Converse."""

from collections.abc import Mapping
from typing import Any

from agora.adapters.base import Message
from agora.adapters.bedrock_converse import BedrockConverse
from agora.adapters.format import BodyFields, Format
from agora.adapters.rules.bedrock import check
from agora.adapters.rules.shape import as_object
from agora.core.recall import TOOL_DESCRIPTION, TOOL_NAME, TOOL_SCHEMA

_BLOCKS = frozenset(
    {
        *("text", "toolUse", "toolResult", "reasoningContent", "cachePoint", "guardContent"),
        *("image", "document", "video", "citationsContent"),
    }
)
"""Fields that name a Converse block, which has no `type`."""
_ONLY = ("toolConfig", "inferenceConfig", "additionalModelRequestFields", "modelId")
"""Fields that only a Converse body has."""


def _tells_part(part: Message) -> bool:
    return "type" not in part and not _BLOCKS.isdisjoint(part)


def _tells_body(body: Mapping[str, Any]) -> bool:
    if "messages" not in body:
        return False
    if any(name in body for name in _ONLY):
        return True
    system = body.get("system")
    blocks = system if isinstance(system, list) else ()
    return any(isinstance(block, dict) and "type" not in block for block in blocks)


def _thinks(body: Mapping[str, Any]) -> bool | None:
    more = body.get("additionalModelRequestFields")
    setting = more.get("thinking", more.get("reasoning_config")) if isinstance(more, dict) else None
    return setting.get("type") != "disabled" if isinstance(setting, dict) else None


def _call_ids(message: Message) -> list[str]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else ()
    uses = (as_object(as_object(block).get("toolUse")) for block in blocks)
    return [str(use["toolUseId"]) for use in uses if "toolUseId" in use]


def _said(text: str) -> Message:
    return {"role": "user", "content": [{"text": text}]}


def _answer(body: Mapping[str, Any]) -> list[Any] | None:
    spoken = as_object(as_object(body.get("output")).get("message"))
    return [spoken] if isinstance(spoken.get("content"), list) else None


_SPEC = {"name": TOOL_NAME, "description": TOOL_DESCRIPTION, "inputSchema": {"json": TOOL_SCHEMA}}
FORMAT = Format(
    adapter=BedrockConverse(),
    check=check,
    fields=BodyFields(
        messages="messages",
        system=("system",),
        tools=("toolConfig",),
        thinking=("additionalModelRequestFields",),
        model="modelId",
        thinks=_thinks,
    ),
    tells_part=_tells_part,
    tells_body=_tells_body,
    call_ids=_call_ids,
    said=_said,
    answer=_answer,
    recall={"toolSpec": _SPEC},
    signs_thinking=True,
)

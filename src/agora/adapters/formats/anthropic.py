"""Anthropic Messages."""

from collections.abc import Mapping
from typing import Any

from agora.adapters.anthropic_messages import AnthropicMessages
from agora.adapters.base import Message
from agora.adapters.format import BodyFields, Format
from agora.adapters.formats.settings import thinking_setting
from agora.adapters.rules.anthropic import check
from agora.core.recall import TOOL_DESCRIPTION, TOOL_NAME, TOOL_SCHEMA

_BLOCKS = frozenset(
    {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "document"}
)


def _tells_part(part: Message) -> bool:
    kind = part.get("type")
    return kind in _BLOCKS or (kind == "image" and "source" in part)


def _call_ids(message: Message) -> list[str]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else ()
    return [str(block["id"]) for block in blocks if isinstance(block, dict) and "id" in block]


def _answer(body: Mapping[str, Any]) -> list[Any] | None:
    content = body.get("content")
    if not isinstance(content, list) or body.get("role") != "assistant":
        return None
    return [{"role": "assistant", "content": content}] if content else []


FORMAT = Format(
    adapter=AnthropicMessages(),
    check=check,
    fields=BodyFields(
        messages="messages",
        system=("system",),
        thinking=("thinking",),
        thinks=thinking_setting,
        drops_thinking=True,
    ),
    tells_part=_tells_part,
    call_ids=_call_ids,
    answer=_answer,
    recall={"name": TOOL_NAME, "description": TOOL_DESCRIPTION, "input_schema": TOOL_SCHEMA},
    signs_thinking=True,
)

"""Anthropic Messages."""

from collections.abc import Iterator, Mapping
from typing import Any

from agora.adapters.anthropic_messages import AnthropicMessages
from agora.adapters.base import Message
from agora.adapters.format import BodyFields, Format, Recall
from agora.adapters.formats.settings import thinking_setting
from agora.adapters.formats.tool_arguments import step_in
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


def _asked(message: Message) -> Iterator[tuple[str, object]]:
    content = message.get("content")
    if message.get("role") != "assistant" or not isinstance(content, list):
        return
    for block in content:
        if block.get("type") == "tool_use" and block.get("name") == TOOL_NAME:
            yield str(block.get("id")), step_in(block.get("input"))


def _answered(message: Message, texts: Mapping[str, str]) -> Message:
    content = message.get("content")
    if message.get("role") != "user" or not isinstance(content, list):
        return message
    blocks = [_answered_block(block, texts) for block in content]
    if all(new is old for new, old in zip(blocks, content, strict=True)):
        return message
    return {**message, "content": blocks}


def _answered_block(block: Any, texts: Mapping[str, str]) -> Any:
    if not isinstance(block, dict) or block.get("type") != "tool_result":
        return block
    text = texts.get(str(block.get("tool_use_id")))
    if text is None:
        return block
    # The client called it an error; with the step in place it is none.
    return {**{k: v for k, v in block.items() if k != "is_error"}, "content": text}


FORMAT = Format(
    adapter=AnthropicMessages(),
    check=check,
    fields=BodyFields(
        messages="messages",
        system=("system",),
        thinking=("thinking",),
        thinks=thinking_setting("thinking"),
        drops_thinking=True,
    ),
    aliases=("anthropic_messages", "messages"),
    tells_part=_tells_part,
    call_ids=_call_ids,
    answer=_answer,
    recall=Recall(
        tool={"name": TOOL_NAME, "description": TOOL_DESCRIPTION, "input_schema": TOOL_SCHEMA},
        asked=_asked,
        answer=_answered,
    ),
    signs_thinking=True,
)

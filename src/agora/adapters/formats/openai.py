"""OpenAI chat completions, and whatever speaks that dialect."""

from collections.abc import Mapping
from typing import Any

from agora.adapters.base import Message
from agora.adapters.format import BodyFields, Format
from agora.adapters.formats.settings import thinking_setting
from agora.adapters.openai_chat import OpenAIChat
from agora.adapters.rules.openai_chat import check
from agora.adapters.rules.shape import as_list, as_object
from agora.core.recall import TOOL_DESCRIPTION, TOOL_NAME, TOOL_SCHEMA

_PARTS = frozenset({"image_url", "input_audio", "file", "refusal"})
_ANSWERED = ("content", "tool_calls", "function_call", "refusal", "reasoning_content")


def _tells(message: Message) -> bool:
    if "type" in message or ("parts" in message and "content" not in message):
        return False
    if message.get("role") in ("tool", "function"):
        return True
    return "tool_calls" in message or "function_call" in message


def _tells_part(part: Message) -> bool:
    return part.get("type") in _PARTS


def _call_ids(message: Message) -> list[str]:
    return [str(call.get("id")) for call in message.get("tool_calls") or ()]


def _answer(body: Mapping[str, Any]) -> list[Any] | None:
    """Return the first choice as it would be sent back: without the fields that say nothing."""
    if not isinstance(body.get("choices"), list):
        return None
    message = as_object(as_object(next(iter(as_list(body["choices"])), None)).get("message"))
    kept = {field: message[field] for field in _ANSWERED if message.get(field)}
    return [{"role": "assistant", **kept}] if kept else []


_FUNCTION = {"name": TOOL_NAME, "description": TOOL_DESCRIPTION, "parameters": TOOL_SCHEMA}
FORMAT = Format(
    adapter=OpenAIChat(),
    check=check,
    fields=BodyFields(
        messages="messages",
        system=("system",),
        thinking=("thinking",),
        thinks=thinking_setting,
        drops_thinking=True,
    ),
    tells_message=_tells,
    tells_part=_tells_part,
    call_ids=_call_ids,
    answer=_answer,
    recall={"type": "function", "function": _FUNCTION},
    signs_thinking=True,
)

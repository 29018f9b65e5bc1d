"""Messages as OpenTelemetry's conventions write them, as chat messages."""

from typing import Any

from agora.formats.base import as_list, as_object
from agora.logs.values import as_json, as_text

_ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
    # smolagents logs its own roles and sends these instead.
    "tool-call": "assistant",
    "tool-response": "user",
}
Message = dict[str, Any]


def as_chat(value: Any) -> list[Message]:
    """Return a message of any convention as chat messages, most often one."""
    fields = as_object(value)
    role = _ROLES.get(as_text(fields.get("role", "user")), "user")
    message: Message = {"role": role, "content": None}
    results: list[Message] = []
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[Message] = []
    content = fields.get("content")
    parts = _content_parts(content)
    if parts is None:
        parts = as_list(as_json(fields.get("parts"))) or [
            as_object(as_object(one).get("message_content", one))
            for one in as_list(fields.get("contents"))
        ]
        texts += [as_text(content)] if content else []
    for part in map(as_object, parts):
        kind = part.get("type")
        if kind in ("tool_call", "tool_use"):
            calls.append(_tool_call(part))
        elif kind in ("tool_call_response", "tool_result"):
            given = next((part[k] for k in ("response", "result", "content") if k in part), "")
            call_id = str(part.get("id", part.get("tool_use_id")))
            results.append({"role": "tool", "tool_call_id": call_id, "content": as_text(given)})
        elif kind in ("reasoning", "thinking"):
            thoughts.append(as_text(part.get("content", part.get("thinking"))))
        elif kind == "text" or "text" in part:
            texts.append(as_text(part.get("content", part.get("text"))))
        elif part:
            texts.append(as_text(part))
    listed = as_list(as_json(fields.get("tool_calls")))
    calls += [_tool_call(as_object(as_object(call).get("tool_call", call))) for call in listed]
    if role == "tool" and not results:
        call_id = str(fields.get("tool_call_id", fields.get("id", "")))
        return [{"role": "tool", "tool_call_id": call_id, "content": "\n".join(texts)}]
    message["content"] = "\n".join(texts) if texts else None
    if thoughts:
        message["reasoning_content"] = "\n".join(thoughts)
    if calls and role == "assistant":
        message["tool_calls"] = _once(calls)
    elif message["content"] is None:
        if results:
            return results
        message["content"] = ""
    return [*results, message]


def _once(calls: list[Message]) -> list[Message]:
    """Return the calls without duplicates: some are both among the parts and beside them."""
    seen: set[str] = set()
    out = []
    for call in calls:
        if not call["id"] or call["id"] not in seen:
            out.append(call)
        seen.add(call["id"])
    return out


def _content_parts(content: object) -> list[Any] | None:
    """Return content that is a list of parts, or the JSON of one; None if it is plain text."""
    parts = as_json(content)
    if isinstance(parts, list) and all(as_object(part).get("type") for part in parts):
        return parts
    return None


def _tool_call(part: dict[str, object]) -> Message:
    inner = as_object(part.get("function")) or part
    arguments = next((inner[k] for k in ("arguments", "input", "args") if k in inner), "{}")
    return {
        "id": str(part.get("id", "")),
        "type": "function",
        "function": {"name": as_text(inner.get("name")), "arguments": as_text(arguments)},
    }

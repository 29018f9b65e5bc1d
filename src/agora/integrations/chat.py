"""A framework's messages as chat completions messages, one for each, and back.

Signed thinking is beside the content, as `thinking_blocks`. A framework's own objects are never
rebuilt from dicts, so that ids and metadata stay with the messages that stay.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from agora.core.compression import Compression

T = TypeVar("T")
Message = dict[str, Any]


def rebuilt(
    messages: Sequence[T],
    chat: Sequence[Message],
    compression: Compression,
    edit: Callable[[T, Message, Message], T],
) -> list[T]:
    """Return a framework's messages to send.

    Args:
        messages: The framework's own messages.
        chat: The same as chat completions messages, in which nothing is a framework's object.
        compression: The compression of `chat`.
        edit: Returns a copy of its first argument with the change from its second to its third.
    """
    pairs = zip(compression.positions, compression.messages, strict=True)
    return [
        messages[at] if new is chat[at] else edit(messages[at], chat[at], new) for at, new in pairs
    ]


def edited_text(old: Message, new: Message) -> tuple[bool, str]:
    """Return True if a message keeps its own content, and the text that is added or put instead."""
    before, after = old.get("content") or "", new["content"] or ""
    if isinstance(before, str) and isinstance(after, str):
        if before and after.startswith(before):
            return True, after[len(before) :].removeprefix("\n\n")
        return (True, "") if before == after else (not before, after)
    parts = [text_part(after)] if isinstance(after, str) else list(after)
    kept = bool(before) and parts[: len(before)] == before
    return kept, "\n\n".join(part["text"] for part in parts[len(before) if kept else 0 :])


def edited_content(content: Any, old: Message, new: Message, part: Callable[[str], Any]) -> Any:
    """Return a framework's content with the change from `old` to `new`, its text as a `part`."""
    keeps, text = edited_text(old, new)
    if keeps and not text:
        return content
    if not keeps or not content:
        return text
    return [*content, part(text)] if isinstance(content, list) else f"{content}\n\n{text}"


def loses_thinking(old: Message, new: Message) -> bool:
    """Return True if the thinking of a message is no longer sent."""
    return bool(old.get("thinking_blocks")) and not new.get("thinking_blocks")


def assistant(content: object, calls: list[Message], thoughts: list[Message]) -> Message:
    """Return a message of the agent, without the fields that would be empty."""
    beside = {"tool_calls": calls, "thinking_blocks": thoughts}
    filled = {name: parts for name, parts in beside.items() if parts}
    return {"role": "assistant", "content": content, **filled}


def text_part(text: str) -> Message:
    """Return a text as a part of a chat message."""
    return {"type": "text", "text": text}


def image_part() -> Message:
    """Return an image as a part: only its presence counts."""
    return {"type": "image_url", "image_url": {"url": "data:"}}


def call_part(call_id: str | None, name: str, arguments: str | Mapping[str, Any]) -> Message:
    """Return one of a chat message's tool calls."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def tool_part(name: str, description: str | None, parameters: object) -> Message:
    """Return a tool of chat completions."""
    function = {"name": name, "description": description or "", "parameters": parameters}
    return {"type": "function", "function": function}


def thinking_part(text: str, signature: str) -> Message:
    """Return signed thinking as a chat message's `thinking_blocks` hold it."""
    return {"type": "thinking", "thinking": text, "signature": signature}

"""A chat of an agent that acts by text, written as tool calls and read back."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agora_lab.chats import Chat, Message, text_of, with_text

TOOL = "act"


def with_calls(chat: Chat) -> list[dict[str, Any]]:
    """Write each step as a call of one tool and its result.

    Peers that trim tool results expect this form. The number and order of messages do not change.
    """
    if chat.calls:
        return [dict(message) for message in chat.messages]
    written: list[dict[str, Any]] = [
        {"role": str(message.get("role", "user")), "content": text_of(message)}
        for message in chat.messages
    ]
    for step in chat.steps:
        if step.end == step.start + 1:
            continue
        key = f"step_{step.number}"
        arguments = json.dumps({"action": step.action})
        call = {"id": key, "type": "function", "function": {"name": TOOL, "arguments": arguments}}
        written[step.start] = {"role": "assistant", "content": "", "tool_calls": [call]}
        result = written[step.start + 1]["content"]
        written[step.start + 1] = {"role": "tool", "tool_call_id": key, "content": result}
        for at in range(step.start + 2, step.end):
            written[at]["role"] = "user"
    return written


def without_calls(
    chat: Chat, contents: Sequence[object], before: Sequence[Mapping[str, Any]]
) -> list[Message]:
    """Return the chat's own messages, with the texts that a peer has changed.

    Raises:
        ValueError: The number of contents and messages differs.
    """
    if len(contents) != len(chat.messages):
        raise ValueError(f"{len(contents)} contents came back for {len(chat.messages)} messages")
    return [
        message if content == old["content"] else with_text(message, text_of({"content": content}))
        for message, content, old in zip(chat.messages, contents, before, strict=True)
    ]

"""A chat of an agent that acts by text, written as tool calls and read back."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agora_lab.chats import Chat, ChatStep, Message, text_of, with_text

TOOL = "act"


def with_calls(chat: Chat) -> list[dict[str, Any]]:
    """Return the messages with each step as a call of one tool and its result.

    This is the form in which peers that trim tool results expect them. The number
    and order of messages do not change.
    """
    written = [
        {"role": str(message.get("role", "user")), "content": text_of(message)}
        for message in chat.preamble
    ]
    return [*written, *(message for step in chat.steps for message in _call(step))]


def without_calls(
    chat: Chat, contents: Sequence[object], before: Sequence[Mapping[str, Any]]
) -> list[Message]:
    """Return the chat's own messages, with the texts that a peer has changed.

    Raises:
        ValueError: the number of contents and messages differs.
    """
    own = [*chat.preamble, *(message for step in chat.steps for message in step.messages)]
    if len(contents) != len(own):
        raise ValueError(f"{len(contents)} contents came back for {len(own)} messages")
    return [
        message if content == old["content"] else with_text(message, text_of({"content": content}))
        for message, content, old in zip(own, contents, before, strict=True)
    ]


def _call(step: ChatStep) -> list[dict[str, Any]]:
    said, *observed = step.messages
    if not observed:
        return [{"role": "assistant", "content": text_of(said)}]
    key = f"step_{step.number}"
    arguments = json.dumps({"action": text_of(said)})
    call = {"id": key, "type": "function", "function": {"name": TOOL, "arguments": arguments}}
    result, *others = observed
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": key, "content": text_of(result)},
        *({"role": "user", "content": text_of(other)} for other in others),
    ]

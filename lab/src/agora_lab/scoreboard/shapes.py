"""Chat messages with tool calls: the one shape in which every contender sees a session."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agora import EstimatedTokens

Message = dict[str, Any]
_COUNTER = EstimatedTokens()
_MESSAGE_TOKENS = 4
_IMAGE = "[image]"
_TOOL = "bash"


def from_anthropic(messages: Sequence[Mapping[str, Any]]) -> tuple[list[Message], list[int]]:
    """Return chat messages, and for each message how many chat messages precede it.

    Thinking stays beside the assistant's message, under `thinking`.
    """
    chat: list[Message] = []
    starts: list[int] = []
    for message in messages:
        starts.append(len(chat))
        blocks = message["content"]
        if isinstance(blocks, str):
            chat.append({"role": message["role"], "content": blocks})
        elif message["role"] == "assistant":
            chat.append(_assistant(blocks))
        else:
            chat += _user(blocks)
    starts.append(len(chat))
    return chat, starts


def _assistant(blocks: Iterable[Mapping[str, Any]]) -> Message:
    message: Message = {"role": "assistant", "content": ""}
    texts: list[str] = []
    for block in blocks:
        match block.get("type"):
            case "text":
                texts.append(str(block.get("text", "")))
            case "tool_use":
                arguments = json.dumps(block.get("input", {}), ensure_ascii=False)
                function = {"name": str(block.get("name", "")), "arguments": arguments}
                call = {"id": str(block["id"]), "type": "function", "function": function}
                message.setdefault("tool_calls", []).append(call)
            case "thinking" | "redacted_thinking":
                message.setdefault("thinking", []).append(dict(block))
    message["content"] = "\n".join(texts)
    return message


def _user(blocks: Iterable[Mapping[str, Any]]) -> list[Message]:
    chat: list[Message] = []
    for block in blocks:
        if block.get("type") == "tool_result":
            text = _text(block.get("content"))
            chat.append({"role": "tool", "tool_call_id": block["tool_use_id"], "content": text})
        else:
            chat.append({"role": "user", "content": _text([block])})
    return chat


def _text(content: Any) -> str:
    if not isinstance(content, list):
        return "" if content is None else str(content)
    return "\n".join(str(b.get("text", "")) if b.get("type") == "text" else _IMAGE for b in content)


def to_anthropic(chat: Sequence[Message]) -> tuple[str, list[Message]]:
    """Return the system text and the messages that a chat is for Anthropic's Messages API."""
    system: list[str] = []
    messages: list[Message] = []
    for message in chat:
        role, text = message["role"], message.get("content") or ""
        if role == "system":
            system.append(text)
            continue
        blocks: list[dict[str, Any]] = []
        if role == "tool":
            blocks = [
                {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": text}
            ]
        else:
            blocks += message.get("thinking", ())
            if text:
                blocks.append({"type": "text", "text": text})
            for call in message.get("tool_calls", ()):
                function = call["function"]
                value = json.loads(function["arguments"] or "{}")
                use = {"id": call["id"], "name": function["name"], "input": value}
                blocks.append({"type": "tool_use", **use})
        role = "assistant" if role == "assistant" else "user"
        if messages and role == "user" and messages[-1]["role"] == "user":
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": blocks})
    return "\n".join(system), messages


def from_commands(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Return the chat of an agent that acts by blocks of bash, with a call for each block."""
    chat: list[Message] = []
    for message in messages:
        role, text = str(message["role"]), _text(message.get("content"))
        before, fence, rest = text.partition("```bash\n")
        command, end, after = rest.partition("\n```")
        previous = chat[-1] if chat else {}
        if role == "assistant" and fence and end:
            arguments = json.dumps({"command": command}, ensure_ascii=False)
            function = {"name": _TOOL, "arguments": arguments}
            call = {"id": f"call_{len(chat)}", "type": "function", "function": function}
            spoken = (before + after).strip()
            chat.append({"role": role, "content": spoken, "tool_calls": [call]})
        elif role == "user" and previous.get("tool_calls"):
            call_id = previous["tool_calls"][0]["id"]
            chat.append({"role": "tool", "tool_call_id": call_id, "content": text})
        else:
            chat.append({"role": role, "content": text})
    return chat


def arguments_of(message: Mapping[str, Any]) -> str:
    """Return the texts in the arguments of a message's calls, as the tools get them."""
    texts: list[str] = []
    for call in message.get("tool_calls") or ():
        try:
            waiting: list[Any] = [json.loads(call["function"]["arguments"] or "{}")]
        except ValueError:
            waiting = [call["function"]["arguments"]]
        while waiting:
            value = waiting.pop()
            if isinstance(value, dict):
                waiting += reversed(value.values())
            elif isinstance(value, list):
                waiting += reversed(value)
            else:
                texts.append(str(value))
    return "\n".join(texts)


def text_of(message: Mapping[str, Any]) -> str:
    """Return all that the model reads in a message, its thinking aside."""
    return f"{message.get('content') or ''}\n{arguments_of(message)}"


def estimate(message: Mapping[str, Any]) -> int:
    """Return about how many tokens a message has, its thinking included."""
    texts = [str(message.get("content") or "")]
    texts += [str(call["function"]) for call in message.get("tool_calls") or ()]
    texts += [str(block.get("thinking", "")) for block in message.get("thinking") or ()]
    return _MESSAGE_TOKENS + sum(map(_COUNTER.count, texts))

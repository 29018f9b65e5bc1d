"""Chat completions messages in the wire format that a framework will send them in."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]
ASIDE = ("thinking_blocks", "reasoning_details")
"""Where LiteLLM's dialect and OpenRouter's keep signed thinking: beside a message's content."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a framework's message lies in a wire message."""

    position: int
    """Which of the framework's messages; -1 for what it keeps apart from them."""
    blocks: int = 1
    result: bool = False
    """Whether it is a `tool_result` block among others."""


@dataclass(frozen=True, slots=True)
class Wire:
    """A request's messages, and which of the framework's own each of them stands for."""

    messages: list[Message]
    places: list[list[Place]]
    tools: list[Message]
    system: str | None = None
    aside: tuple[int, ...] = ()
    """System messages of the framework that are sent apart from the messages."""


def text_part(text: str) -> Message:
    """Return a text as a part of a chat message."""
    return {"type": "text", "text": text}


def image_part(url: str = "data:") -> Message:
    """Return an image as a part; what counts is that it is one."""
    return {"type": "image_url", "image_url": {"url": url}}


def call(call_id: str, name: str, arguments: str) -> Message:
    """Return one of a chat message's calls; `arguments` is JSON."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(
    name: str, description: str | None, parameters: object, *, strict: bool | None = None
) -> Message:
    """Return a tool of chat completions."""
    function = {"name": name, "description": description or "", "parameters": parameters}
    if strict:
        function["strict"] = strict
    return {"type": "function", "function": function}


def thought(format: str, text: str, signature: str | None) -> Message:
    """Return a model's thinking as the format has it."""
    if format == "responses":
        summary = [{"type": "summary_text", "text": text}]
        return {"type": "reasoning", "summary": summary, "encrypted_content": signature}
    return {"type": "thinking", "thinking": text, "signature": signature}


def redacted(data: Any) -> Message:
    """Return Anthropic's thinking that only the provider can read."""
    sealed = base64.b64encode(data).decode() if isinstance(data, bytes) else str(data)
    return {"type": "redacted_thinking", "data": sealed}


def thoughts_aside(fields: Mapping[str, Any]) -> list[Message]:
    """Return the signed thinking that is kept beside a message's content."""
    found = [one for name in ASIDE for one in fields.get(name) or ()]
    return [
        redacted(one["data"])
        if one.get("data")
        else thought("anthropic", one.get("thinking") or one.get("text") or "", one["signature"])
        for one in found
        if one.get("data") or one.get("signature")
    ]


def wire_of(
    format: str, chat: Sequence[Message], system: str | None, tools: Sequence[Message]
) -> Wire:
    """Return `chat` as a framework sends it in that format."""
    if format == "anthropic":
        return _blocks(chat, system, tools)
    whole = [{"role": "system", "content": system}, *chat] if system else list(chat)
    shift = len(whole) - len(chat)
    if format == "responses":
        return _items(whole, shift, tools)
    whole = [_plain(message) for message in whole]
    return Wire(whole, [[Place(n - shift)] for n in range(len(whole))], list(tools))


def _plain(message: Message) -> Message:
    """Return the message without what no chat completions message has."""
    if message.get("tool_calls") or not ("tool_calls" in message or "thoughts" in message):
        return message
    return {k: v for k, v in message.items() if k not in ("tool_calls", "thoughts")}


def _items(chat: Sequence[Message], shift: int, tools: Sequence[Message]) -> Wire:
    messages: list[Message] = []
    places: list[list[Place]] = []
    for number, message in enumerate(chat):
        items = _items_of(message)
        messages += items
        places += [[Place(max(number - shift, -1))] for _ in items]
    flat = [{"type": "function", **given.get("function", given)} for given in tools]
    return Wire(messages, places, flat)


def _items_of(message: Message) -> list[Message]:
    content = message["content"]
    if message["role"] == "tool":
        output = {"type": "function_call_output", "call_id": message["tool_call_id"]}
        return [{**output, "output": _parts(content)}]
    if message["role"] != "assistant":
        return [{"role": message["role"], "content": _parts(content)}]
    items = list(message.get("thoughts", ()))
    if content:
        items.append({"role": "assistant", "content": content})
    items += [
        {"type": "function_call", "call_id": made["id"], **made["function"]}
        for made in message.get("tool_calls", ())
    ]
    return items


def _parts(content: Any) -> Any:
    if isinstance(content, str):
        return content
    return [
        {"type": "input_image", "image_url": part["image_url"]["url"]}
        if part.get("type") == "image_url"
        else {**part, "type": "input_text" if part.get("type") == "text" else part.get("type")}
        for part in content
    ]


def _blocks(chat: Sequence[Message], system: str | None, tools: Sequence[Message]) -> Wire:
    """Return Anthropic messages: what tools and user say in a row is one user message."""
    messages: list[Message] = []
    places: list[list[Place]] = []
    aside = [n for n, message in enumerate(chat) if message["role"] in ("system", "developer")]
    texts = [system or "", *(str(chat[n]["content"]) for n in aside)]
    for position, message in enumerate(chat):
        if position in aside:
            continue
        if message["role"] == "assistant":
            blocks = _agent_blocks(message)
            messages.append({"role": "assistant", "content": blocks})
            places.append([Place(position, len(blocks))])
            continue
        result = message["role"] == "tool"
        content = message["content"] if not result else _result(message)
        blocks = _as_blocks(content)
        place = Place(position, len(blocks), result)
        if messages and messages[-1]["role"] == "user":
            before = _as_blocks(messages[-1]["content"])
            messages[-1] = {"role": "user", "content": before + blocks}
            places[-1].append(place)
        else:
            whole = content if isinstance(content, str) else blocks
            messages.append({"role": "user", "content": whole})
            places.append([place])
    text = "\n\n".join(filter(None, texts)) or None
    return Wire(messages, places, [_named(given) for given in tools], text, tuple(aside))


def _agent_blocks(message: Message) -> list[Message]:
    blocks = [*message.get("thoughts", ()), *_as_blocks(message.get("content") or "")]
    for made in message.get("tool_calls", ()):
        function = made["function"]
        arguments = json.loads(function["arguments"] or "{}")
        use = {"id": made["id"], "name": function["name"], "input": arguments}
        blocks.append({"type": "tool_use", **use})
    return blocks


def _result(message: Message) -> list[Message]:
    result = {"type": "tool_result", "tool_use_id": message["tool_call_id"]}
    return [{**result, "content": _as_blocks(message["content"])}]


def _as_blocks(content: Any) -> list[Message]:
    if isinstance(content, str):
        return [text_part(content)] if content else []
    return [
        {"type": "image", "source": {"type": "url", "url": part["image_url"]["url"]}}
        if part.get("type") == "image_url"
        else part
        for part in content
    ]


def _named(given: Message) -> Message:
    function = given.get("function", given)
    named = {"name": function.get("name"), "input_schema": function.get("parameters")}
    if function.get("description"):
        named["description"] = function["description"]
    return named

"""Anthropic Messages: content blocks, results inside user messages, thinking."""

import json
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agora.adapters.assembly import Assembly, Kind, Reading, texts_of
from agora.adapters.base import Context, Message, Parsed, Rendered
from agora.adapters.rendering import Masked, append_text, render_messages
from agora.adapters.spoken import mark_observations
from agora.core.elide import Markers
from agora.core.tokens import (
    CALL_TOKENS,
    FILE_TOKENS,
    IMAGE_TOKENS,
    MESSAGE_TOKENS,
    TokenCounter,
)
from agora.core.trajectory import Call

_MEDIA_TOKENS = {"image": IMAGE_TOKENS, "document": FILE_TOKENS}
_THINKING = frozenset({"thinking", "redacted_thinking"})
_KNOWN_AGENT = _THINKING | {"text", "tool_use", "server_tool_use", "mcp_tool_use"}
_KNOWN_RESULT = frozenset({"text", "image", "document", "search_result"})


class AnthropicMessages:
    """Reads and writes `messages` of the Messages API."""

    name = "anthropic"

    def parse(self, messages: Any, context: Context) -> Parsed:
        """Return the trajectory in `messages`.

        Once there is thinking, every step is masked, never removed: the API
        may count a whole tool loop as one assistant message, whose thinking
        blocks have to come back as they were.
        """
        counter = context.counter
        fixed = counter.count(json.dumps(context.tools)) if context.tools else 0
        fixed += _count_system(context.system, counter)
        readings = [_read(message, counter) for message in messages]
        mark_observations(readings, context.observations)
        assembly = Assembly(fixed_tokens=fixed, mask=bool(context.thinking))
        for message, reading in zip(messages, readings, strict=True):
            # From here on, not from the start: an earlier prompt could not know of it.
            assembly.mask = assembly.mask or _has_thinking(message)
            assembly.add(reading)
        return assembly.parsed(messages)

    def render(self, parsed: Parsed, elided: Mapping[int, str], markers: Markers) -> Rendered:
        """Return the messages without the elided steps, the caller's cache breakpoints moved up."""
        rendered = render_messages(parsed, elided, markers, self)
        return _move_breakpoints(rendered, _lost_breakpoints(parsed, elided))

    def holds(self, message: Message) -> bool:
        """Tell whether a marker can be attached to this message."""
        return message.get("role") == "user" and isinstance(message.get("content"), str | list)

    def attach(self, message: Message, text: str) -> Message:
        """Return the message with `text` after its own content."""
        return {**message, "content": append_text(message["content"], text, "text")}

    def mask(self, message: Message, first: str, others: str) -> Masked:
        """Return the user message with the content of its results replaced."""
        content = message["content"]
        if isinstance(content, str):
            return Masked({**message, "content": first}, 1)
        results = sum(block.get("type") == "tool_result" for block in content)
        if not results:
            # What an agent that acts by text observed: the whole message is the result.
            controls = [b["cache_control"] for b in content if "cache_control" in b]
            note: Message = {"type": "text", "text": first}
            if controls:
                note["cache_control"] = controls[-1]
            return Masked({**message, "content": [note]}, 1)
        blocks: list[Message] = []
        text = first
        for block in content:
            if block.get("type") == "tool_result":
                parts = isinstance(block.get("content"), list)
                block = {**block, "content": [{"type": "text", "text": text}] if parts else text}
                text = others
            blocks.append(block)
        return Masked({**message, "content": blocks}, results)


def _read(message: Message, counter: TokenCounter) -> Reading:
    content = message["content"]
    agent = message["role"] == "assistant"
    if type(content) is str:
        tokens = MESSAGE_TOKENS + counter.count(content)
        return Reading(Kind.AGENT if agent else Kind.USER, tokens, content)
    return _read_agent(content, counter) if agent else _read_user(content, counter)


def _read_agent(content: list[Message], counter: TokenCounter) -> Reading:
    tokens = MESSAGE_TOKENS
    texts, thoughts, calls = [], [], []
    opaque = ""
    for block in content:
        kind = block.get("type", "")
        if kind == "text":
            texts.append(block["text"])
            tokens += counter.count(block["text"])
        elif kind == "tool_use":
            arguments = json.dumps(block.get("input", {}), ensure_ascii=False)
            call = Call(str(block.get("name", "tool")), arguments)
            calls.append((str(block["id"]), call))
            tokens += CALL_TOKENS + counter.count(call.name) + counter.count(arguments)
        elif kind == "thinking":
            thoughts.append(str(block.get("thinking", "")))
            tokens += counter.count(thoughts[-1])
        else:
            tokens += counter.count(json.dumps(block, ensure_ascii=False))
            if kind not in _KNOWN_AGENT and not kind.endswith("_tool_result"):
                opaque = f"holds a {kind or 'nameless'} block"
    return Reading(
        Kind.AGENT, tokens, "\n".join(texts), "\n".join(thoughts), tuple(calls), opaque=opaque
    )


def _read_user(content: list[Message], counter: TokenCounter) -> Reading:
    tokens, user_tokens = MESSAGE_TOKENS, 0
    answers: list[str] = []
    observations: list[str] = []
    spoken: list[Message] = []
    opaque = ""
    for block in content:
        if block.get("type") == "tool_result":
            answers.append(str(block["tool_use_id"]))
            text, cost, odd = _read_result(block.get("content"), counter)
            observations.append(text)
            tokens += cost
            opaque = opaque or odd
        else:
            spoken.append(block)
            user_tokens += _media_tokens(block)
    said = texts_of(spoken)
    user_tokens += counter.count(said)
    if not answers:
        return Reading(Kind.USER, tokens + user_tokens, said)
    return Reading(
        Kind.RESULT,
        tokens,
        "\n".join(observations),
        answers=tuple(answers),
        user_text=said if spoken else None,
        user_tokens=user_tokens,
        opaque=opaque,
    )


def _read_result(content: object, counter: TokenCounter) -> tuple[str, int, str]:
    """Return a result's text, its tokens, and why it is never replaced, or an empty reason."""
    if isinstance(content, str):
        return content, counter.count(content), ""
    opaque = ""
    text, tokens = "", 0
    if isinstance(content, list):
        text = texts_of(content)
        tokens = counter.count(text) + sum(map(_media_tokens, content))
        odd = [b for b in content if b.get("type") not in _KNOWN_RESULT]
        opaque = f"holds a {odd[0].get('type')} block" if odd else ""
    return text, tokens, opaque


def _media_tokens(block: Message) -> int:
    return _MEDIA_TOKENS.get(str(block.get("type")), 0)


def _has_thinking(message: Message) -> bool:
    content = message["content"]
    return isinstance(content, list) and any(b.get("type") in _THINKING for b in content)


def _count_system(system: object, counter: TokenCounter) -> int:
    if isinstance(system, str):
        return counter.count(system)
    return counter.count(texts_of(system)) if isinstance(system, list) else 0


def _lost_breakpoints(parsed: Parsed, elided: Mapping[int, str]) -> dict[int, object]:
    """Return `cache_control` of removed messages, by the position of the message."""
    steps = parsed.trajectory.steps
    lost: dict[int, object] = {}
    for position, owner in enumerate(parsed.owners):
        number = abs(owner)
        if number in elided and steps[number - 1].form == "drop":
            for block in parsed.messages[position]["content"]:
                if isinstance(block, dict) and "cache_control" in block:
                    lost[position] = block["cache_control"]
    return lost


def _move_breakpoints(rendered: Rendered, lost: Mapping[int, object]) -> Rendered:
    """Set each lost breakpoint on the last block of the nearest message before it that stayed."""
    messages = list(rendered.messages)
    for position, control in lost.items():
        at = bisect_left(rendered.positions, position) - 1
        content = messages[at]["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if "cache_control" not in content[-1]:
            content = [*content[:-1], {**content[-1], "cache_control": control}]
            messages[at] = {**messages[at], "content": content}
    return replace(rendered, messages=messages)

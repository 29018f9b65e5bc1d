"""Anthropic Messages: content blocks, results inside user messages, thinking."""

import json
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace

from agora.adapters.assembly import Kind, Reading, is_text, texts_of
from agora.adapters.base import Message, Parsed, Rendered
from agora.adapters.rendering import append_text, render_messages
from agora.adapters.thinking import assembled
from agora.core.forms import Form
from agora.core.markers import Markers
from agora.core.request import Request
from agora.core.tokens import (
    CALL_TOKENS,
    FILE_TOKENS,
    IMAGE_TOKENS,
    MESSAGE_TOKENS,
    TokenCounter,
)
from agora.core.trajectory import Call

_MEDIA_TOKENS = {"image": IMAGE_TOKENS, "document": FILE_TOKENS}
_KNOWN_RESULT = frozenset({"text", "image", "document", "search_result"})


_KINDS = {"assistant": Kind.AGENT, "user": Kind.USER}


class AnthropicMessages:
    """Reads and writes `messages` of the Messages API."""

    name = "anthropic"

    def parse(self, request: Request, counter: TokenCounter) -> Parsed:
        """Return the trajectory in the messages.

        Once there is thinking, every step is masked, never removed: the API
        may count a whole tool loop as one assistant message, whose thinking
        blocks have to come back as they were. Models that bind thinking to
        the prefix lose it at an edit, so there a step may be removed (A22).
        """
        fixed = counter.count(json.dumps(request.tools)) if request.tools else 0
        fixed += _count_system(request.system, counter)
        readings = [_read(message, counter) for message in request.messages]
        return assembled(request, readings, fixed_tokens=fixed)

    def render(self, parsed: Parsed, forms: Mapping[int, Form], markers: Markers) -> Rendered:
        """Return the messages without the elided steps, the caller's cache breakpoints moved up."""
        rendered = render_messages(parsed, forms, markers, self)
        return _move_breakpoints(rendered, _lost_breakpoints(parsed, forms))

    def holds(self, message: Message) -> bool:
        """Tell whether a marker can be attached to this message."""
        return message.get("role") == "user" and isinstance(message.get("content"), str | list)

    def speaks(self, message: Message) -> bool:
        """Tell whether a marker attached here stands among the user's words."""
        content = message["content"]
        return isinstance(content, str) or not any(map(_is_result, content))

    def attach(self, message: Message, text: str) -> Message:
        """Return the message with `text` added: inside its last tool result, or after its content.

        Never as a block next to a tool result: there it would be the user's.
        """
        content = message["content"]
        blocks = list(content) if isinstance(content, list) else []
        for at in range(len(blocks) - 1, -1, -1):
            if _is_result(blocks[at]):
                blocks[at] = {**blocks[at], "content": _with(blocks[at].get("content"), text)}
                return {**message, "content": blocks}
        return {**message, "content": append_text(content, text, "text")}

    def results(self, message: Message) -> int:
        """Return how many results a user message carries; 1 where all of it is one."""
        content = message["content"]
        return 1 if isinstance(content, str) else sum(map(_is_result, content)) or 1

    def note(self, message: Message, notes: list[str]) -> Message:
        """Return the user message with a note for the content of each result."""
        content = message["content"]
        if isinstance(content, str):
            return {**message, "content": notes[0]}
        if not any(map(_is_result, content)):
            # What an agent that acts by text observed: the whole message is the result.
            controls = [b["cache_control"] for b in content if "cache_control" in b]
            note: Message = {"type": "text", "text": notes[0]}
            if controls:
                note["cache_control"] = controls[-1]
            return {**message, "content": [note]}
        texts = iter(notes)
        blocks: list[Message] = []
        for block in content:
            if _is_result(block):
                text = next(texts)
                parts = isinstance(block.get("content"), list)
                block = {**block, "content": [{"type": "text", "text": text}] if parts else text}
            blocks.append(block)
        return {**message, "content": blocks}


def _with(content: object, text: str) -> object:
    """Return a result's content with `text` after it, in its only block where that is text.

    So it is the same bytes for a framework that writes each result as one text.
    """
    if isinstance(content, list) and len(content) == 1 and is_text(content[0]):
        only = content[0]
        return [{**only, "text": append_text(only["text"], text, "text")}]
    return append_text(content or ([] if isinstance(content, list) else ""), text, "text")


def _read(message: Message, counter: TokenCounter) -> Reading:
    content = message["content"]
    role = message["role"]
    if type(content) is str:
        tokens = MESSAGE_TOKENS + counter.count(content)
        return Reading(_KINDS.get(role, Kind.PLACED), tokens, content)
    if role == "assistant":
        return _read_agent(content, counter)
    reading = _read_user(content, counter)
    if role != "user":
        reading.kind = Kind.PLACED
    return reading


def _read_agent(content: list[Message], counter: TokenCounter) -> Reading:
    tokens = MESSAGE_TOKENS
    thinking = 0
    texts, thoughts, calls = [], [], []
    opaque = ""
    served: set[str] = set()
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
            thinking += counter.count(thoughts[-1])
        elif kind == "redacted_thinking":
            thinking += counter.count(json.dumps(block, ensure_ascii=False))
        else:
            tokens += counter.count(json.dumps(block, ensure_ascii=False))
            if kind.endswith("_tool_result"):
                served ^= {str(block.get("tool_use_id"))}
            elif kind.endswith("_tool_use"):
                served ^= {str(block.get("id"))}
            else:
                opaque = f"holds a {kind or 'nameless'} block"
    if served:
        # Removed on its own, one half would leave the other without its counterpart.
        opaque = opaque or "holds half of a call that the provider answers"
    return Reading(
        Kind.AGENT,
        tokens + thinking,
        "\n".join(texts),
        "\n".join(thoughts),
        tuple(calls),
        opaque=opaque,
        thinking_tokens=thinking,
    )


def _read_user(content: list[Message], counter: TokenCounter) -> Reading:
    tokens, user_tokens = MESSAGE_TOKENS, 0
    answers: list[str] = []
    results: list[tuple[str, bool]] = []
    spoken: list[Message] = []
    opaque = ""
    for block in content:
        if block.get("type") == "tool_result":
            answers.append(str(block["tool_use_id"]))
            text, cost, odd = _read_result(block.get("content"), counter)
            results.append((text, bool(block.get("is_error"))))
            tokens += cost
            opaque = opaque or odd
        else:
            spoken.append(block)
            if "text" not in block:
                user_tokens += _block_tokens(block, counter)
    said = texts_of(spoken)
    user_tokens += counter.count(said)
    if not answers:
        mixed = not all(map(is_text, spoken))
        return Reading(Kind.USER, tokens + user_tokens, said, mixed=mixed)
    return Reading(
        Kind.RESULT,
        tokens,
        "\n".join([text for text, _ in results]),
        answers=tuple(answers),
        user_text=said if spoken else None,
        user_tokens=user_tokens,
        opaque=opaque,
        results=tuple(results),
    )


def _read_result(content: object, counter: TokenCounter) -> tuple[str, int, str]:
    """Return a result's text, its tokens, and why it is never replaced, or an empty reason."""
    if isinstance(content, str):
        return content, counter.count(content), ""
    opaque = ""
    text, tokens = "", 0
    if isinstance(content, list):
        text = texts_of(content)
        blocks = (b for b in content if "text" not in b)
        tokens = counter.count(text) + sum(_block_tokens(block, counter) for block in blocks)
        odd = [b for b in content if b.get("type") not in _KNOWN_RESULT]
        opaque = f"holds a {odd[0].get('type')} block" if odd else ""
    return text, tokens, opaque


def _block_tokens(block: Message, counter: TokenCounter) -> int:
    """Return what a block without text costs: media a flat number, what is not known its JSON."""
    tokens = _MEDIA_TOKENS.get(str(block.get("type")))
    return counter.count(json.dumps(block, ensure_ascii=False)) if tokens is None else tokens


def _count_system(system: object, counter: TokenCounter) -> int:
    if isinstance(system, str):
        return counter.count(system)
    return counter.count(texts_of(system)) if isinstance(system, list) else 0


def _is_result(block: Message) -> bool:
    return block.get("type") == "tool_result"


def _lost_breakpoints(parsed: Parsed, forms: Mapping[int, Form]) -> dict[int, object]:
    """Return `cache_control` of removed messages, by the position of the message."""
    lost: dict[int, object] = {}
    for position, owner in enumerate(parsed.owners):
        form = forms.get(abs(owner))
        if form is not None and not form.in_place:
            for block in parsed.messages[position]["content"]:
                if isinstance(block, dict) and "cache_control" in block:
                    lost[position] = block["cache_control"]
    return lost


def _move_breakpoints(rendered: Rendered, lost: Mapping[int, object]) -> Rendered:
    """Set each lost breakpoint on the last block of the nearest message before it that stayed."""
    messages = list(rendered.messages)
    for position, control in lost.items():
        at = bisect_left(rendered.positions, position) - 1
        while messages[at]["role"] not in _KINDS:
            # There is always one: the task stands before every step.
            at -= 1
        content = messages[at]["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if "cache_control" not in content[-1]:
            content = [*content[:-1], {**content[-1], "cache_control": control}]
            messages[at] = {**messages[at], "content": content}
    return replace(rendered, messages=messages)

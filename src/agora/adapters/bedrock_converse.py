"""Bedrock Converse: content blocks named by their field, results inside user messages."""

import json
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace

from agora.adapters.assembly import Kind, Reading, is_text, texts_of
from agora.adapters.base import Message, Parsed, Rendered
from agora.adapters.rendering import render_messages
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

_MEDIA_TOKENS = {
    "image": IMAGE_TOKENS,
    "document": FILE_TOKENS,
    "video": FILE_TOKENS,
    "audio": FILE_TOKENS,
}
_KNOWN_AGENT = frozenset({*_MEDIA_TOKENS, "cachePoint", "citationsContent", "toolResult"})
_KNOWN_RESULT = frozenset({*_MEDIA_TOKENS, "text", "json", "searchResult"})
SERVED = "server_tool_use"
"""The type of a call that the provider answers itself, in the same message."""


class BedrockConverse:
    """Reads and writes `messages` of Converse."""

    name = "bedrock"

    def parse(self, request: Request, counter: TokenCounter) -> Parsed:
        """Return the trajectory in the request.

        Once there is reasoning, every step is masked, never removed, as in
        Anthropic's own format: the models that sign their reasoning want it
        back as it was. Those that bind it to the prefix lose it at an edit.
        """
        fixed = counter.count(_json(request.tools)) if request.tools else 0
        fixed += _count_system(request.system, counter)
        readings = [_read(message, counter) for message in request.messages]
        return assembled(request, readings, fixed_tokens=fixed)

    def render(self, parsed: Parsed, forms: Mapping[int, Form], markers: Markers) -> Rendered:
        """Return the messages without the elided steps, the caller's cache points moved up."""
        rendered = render_messages(parsed, forms, markers, self)
        return _move_points(rendered, _lost_points(parsed, forms))

    def holds(self, message: Message) -> bool:
        """Tell whether a marker can be attached to this message."""
        return message.get("role") == "user"

    def speaks(self, message: Message) -> bool:
        """Tell whether a marker attached here stands among the user's words."""
        return not any("toolResult" in block for block in message["content"])

    def attach(self, message: Message, text: str) -> Message:
        """Return the message with `text` added: as a block, or inside its last tool result.

        Never as a block next to a tool result: some models refuse such a turn.
        """
        blocks = list(message["content"])
        note = {"text": text}
        for at in range(len(blocks) - 1, -1, -1):
            if "toolResult" in blocks[at]:
                result = blocks[at]["toolResult"]
                result = {**result, "content": [*result.get("content", ()), note]}
                blocks[at] = {**blocks[at], "toolResult": result}
                return {**message, "content": blocks}
        return {**message, "content": [*blocks, note]}

    def results(self, message: Message) -> int:
        """Return how many results a user message carries; 1 where all of it is one."""
        return sum("toolResult" in block for block in message["content"]) or 1

    def note(self, message: Message, notes: list[str]) -> Message:
        """Return the user message with a note for the content of each result."""
        content = message["content"]
        if not any("toolResult" in block for block in content):
            # What an agent that acts by text observed: the whole message is the result.
            points = [block for block in content if "cachePoint" in block]
            return {**message, "content": [{"text": notes[0]}, *points[-1:]]}
        texts = iter(notes)
        blocks: list[Message] = []
        for block in content:
            if "toolResult" in block:
                noted = {**block["toolResult"], "content": [{"text": next(texts)}]}
                block = {**block, "toolResult": noted}
            blocks.append(block)
        return {**message, "content": blocks}


def _read(message: Message, counter: TokenCounter) -> Reading:
    if message["role"] == "assistant":
        return _read_agent(message["content"], counter)
    return _read_user(message["content"], counter)


def _read_agent(content: list[Message], counter: TokenCounter) -> Reading:
    tokens = MESSAGE_TOKENS
    thinking = 0
    texts, thoughts, calls = [], [], []
    opaque = ""
    for block in content:
        use = block.get("toolUse")
        if "text" in block:
            texts.append(block["text"])
            tokens += counter.count(block["text"])
        elif use is not None:
            arguments = _json(use.get("input", {}))
            made = Call(str(use.get("name", "tool")), arguments)
            tokens += CALL_TOKENS + counter.count(made.name) + counter.count(arguments)
            if use.get("type") != SERVED:
                calls.append((str(use["toolUseId"]), made))
        elif "reasoningContent" in block:
            thought, cost = _read_reasoning(block["reasoningContent"], counter)
            thoughts.append(thought)
            thinking += cost
        else:
            tokens += _other_tokens(block, counter)
            if block.keys().isdisjoint(_KNOWN_AGENT):
                opaque = f"holds a {next(iter(block), 'nameless')} block"
    return Reading(
        Kind.AGENT,
        tokens + thinking,
        "\n".join(texts),
        "\n".join(thoughts),
        tuple(calls),
        opaque=opaque,
        thinking_tokens=thinking,
    )


def _read_reasoning(reasoning: object, counter: TokenCounter) -> tuple[str, int]:
    """Return the reasoning that can be read, and what all of it costs."""
    block = reasoning if isinstance(reasoning, dict) else {}
    shown = block.get("reasoningText")
    text = shown.get("text") if isinstance(shown, dict) else None
    thought = text if isinstance(text, str) else ""
    sealed = block.get("redactedContent")
    tokens = counter.count(thought)
    if isinstance(sealed, str):
        # Base64 of the tokens themselves: about four characters for three bytes, and about four
        # bytes for a token. In boto3 the bytes.
        tokens += len(sealed) * 3 // 16
    elif isinstance(sealed, bytes):
        tokens += len(sealed) // 4
    return thought, tokens


def _read_user(content: list[Message], counter: TokenCounter) -> Reading:
    tokens, user_tokens = MESSAGE_TOKENS, 0
    answers: list[str] = []
    results: list[tuple[str, bool]] = []
    spoken: list[Message] = []
    opaque = ""
    for block in content:
        result = block.get("toolResult")
        if result is not None:
            answers.append(str(result["toolUseId"]))
            text, cost, odd = _read_result(result.get("content", ()), counter)
            results.append((text, result.get("status") == "error"))
            tokens += cost
            opaque = opaque or odd
        elif "cachePoint" not in block:
            spoken.append(block)
            if "text" not in block:
                user_tokens += _other_tokens(block, counter)
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


def _read_result(content: list[Message], counter: TokenCounter) -> tuple[str, int, str]:
    """Return a result's text, its tokens, and why it is never replaced, or an empty reason."""
    texts: list[str] = []
    tokens = 0
    opaque = ""
    for block in content:
        if isinstance(block.get("text"), str):
            texts.append(block["text"])
        elif "json" in block:
            texts.append(_json(block["json"]))
        else:
            tokens += _other_tokens(block, counter)
            if block.keys().isdisjoint(_KNOWN_RESULT):
                opaque = f"holds a {next(iter(block), 'nameless')} block"
    text = "\n".join(texts)
    return text, tokens + counter.count(text), opaque


def _other_tokens(block: Message, counter: TokenCounter) -> int:
    if "cachePoint" in block:
        return 0
    for name, tokens in _MEDIA_TOKENS.items():
        if name in block:
            return tokens
    return counter.count(_json(block))


def _json(value: object) -> str:
    """Return a value as JSON; bytes and decimals, which boto3 takes, as their text."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _count_system(system: object, counter: TokenCounter) -> int:
    if isinstance(system, str):
        return counter.count(system)
    return counter.count(texts_of(system)) if isinstance(system, list) else 0


def _lost_points(parsed: Parsed, forms: Mapping[int, Form]) -> dict[int, Message]:
    """Return the last cache point of each removed message, by the message's position."""
    lost: dict[int, Message] = {}
    for position, owner in enumerate(parsed.owners):
        form = forms.get(abs(owner))
        if form is not None and not form.in_place:
            for block in parsed.messages[position]["content"]:
                if "cachePoint" in block:
                    lost[position] = block
    return lost


def _move_points(rendered: Rendered, lost: Mapping[int, Message]) -> Rendered:
    """Set each lost cache point at the end of the nearest message before it that stayed.

    It is lost for good where that message ends with one already, or with a
    document, after most of which Bedrock refuses a cache point.
    """
    messages = list(rendered.messages)
    for position, point in lost.items():
        at = bisect_left(rendered.positions, position) - 1
        content = messages[at]["content"]
        if content[-1].keys().isdisjoint(("cachePoint", "document")):
            messages[at] = {**messages[at], "content": [*content, point]}
    return replace(rendered, messages=messages)

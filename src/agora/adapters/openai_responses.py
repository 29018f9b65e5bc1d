"""OpenAI Responses: `input` items, where a call and its output are items of their own."""

import json
from collections.abc import Mapping

from agora.adapters.assembly import Assembly, Kind, Reading, is_text, texts_of
from agora.adapters.base import Message, Parsed, Rendered
from agora.adapters.rendering import append_text, render_messages
from agora.adapters.spoken import mark_observations
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
    "input_image": IMAGE_TOKENS,
    "computer_screenshot": IMAGE_TOKENS,
    "input_file": FILE_TOKENS,
}
_CALLS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
    "computer_call": "action",
}
"""The calls that the client answers, with the field that says what to do."""
TEXT_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})
"""Outputs whose content may be any text, so that it can be replaced or added to."""
_HOSTED = frozenset({"web_search_call", "file_search_call", "code_interpreter_call", "mcp_call"})
"""Calls that the provider answers itself, inside the item."""


_KINDS = {"user": Kind.USER, "system": Kind.FIXED, "developer": Kind.FIXED}


class OpenAIResponses:
    """Reads and writes `input` of the Responses API."""

    name = "responses"

    def parse(self, request: Request, counter: TokenCounter) -> Parsed:
        """Return the trajectory in the input, a list of items or a plain string."""
        messages = request.messages
        fixed = counter.count(json.dumps(request.tools)) if request.tools else 0
        if isinstance(request.system, str):
            fixed += counter.count(request.system)
        assembly = Assembly(fixed_tokens=fixed, mask=False)
        if isinstance(messages, str):
            assembly.add(Reading(Kind.USER, counter.count(messages), messages))
            return assembly.parsed(request)
        readings = [_read(item, counter) for item in messages]
        mark_observations(readings, request.observations, request.system)
        for reading in readings:
            assembly.add(reading)
        return assembly.parsed(request)

    def render(self, parsed: Parsed, forms: Mapping[int, Form], markers: Markers) -> Rendered:
        """Return the items without the elided steps."""
        if isinstance(parsed.messages, str):
            return Rendered(parsed.messages, ())
        return render_messages(parsed, forms, markers, self)

    def holds(self, message: Message) -> bool:
        """Tell whether a marker can be attached to this item."""
        return isinstance(message.get(_content_field(message)), str | list)

    def speaks(self, message: Message) -> bool:
        """Tell whether a marker attached here stands among the user's words."""
        return message.get("role") == "user"

    def attach(self, message: Message, text: str) -> Message:
        """Return the item with `text` after its own content."""
        field = _content_field(message)
        return {**message, field: append_text(message[field], text, "input_text")}

    def results(self, message: Message) -> int:  # noqa: ARG002
        """Return how many results a message carries: all of it is one."""
        return 1

    def note(self, message: Message, notes: list[str]) -> Message:
        """Return the output, or the message that an agent by text observed, with a note inside."""
        field = _content_field(message)
        parts = isinstance(message[field], list)
        content = [{"type": "input_text", "text": notes[0]}] if parts else notes[0]
        return {**message, field: content}


def _content_field(item: Message) -> str:
    """Return the field of an item that takes a marker; one that no item has, if none does."""
    if item.get("role") == "user":
        return "content"
    return "output" if item.get("type") in TEXT_OUTPUTS else ""


def _read(item: Message, counter: TokenCounter) -> Reading:
    kind = item.get("type", "message")
    if kind == "message":
        return _read_message(item, counter)
    if kind in _CALLS:
        name = str(item.get("name") or kind)
        asked = item.get(_CALLS[kind], "")
        arguments = asked if isinstance(asked, str) else json.dumps(asked, ensure_ascii=False)
        tokens = CALL_TOKENS + counter.count(name) + counter.count(arguments)
        call_id = str(item.get("call_id", item.get("id")))
        return Reading(Kind.AGENT, tokens, calls=((call_id, Call(name, arguments)),))
    if kind.endswith("_call_output"):
        return _read_output(item, kind, counter)
    if kind == "reasoning":
        return _read_reasoning(item, counter)
    tokens = MESSAGE_TOKENS + counter.count(json.dumps(item, ensure_ascii=False))
    if kind in _HOSTED:
        return Reading(Kind.AGENT, tokens)
    # Compaction items, references, approvals and what is not known yet: never touched, and no
    # step that they stand in is a candidate.
    return Reading(Kind.AGENT, tokens, opaque=f"holds a {kind} item")


def _read_message(item: Message, counter: TokenCounter) -> Reading:
    content = item.get("content")
    text, tokens = _content(content, counter)
    tokens += MESSAGE_TOKENS
    role = item.get("role")
    if role == "assistant":
        return Reading(Kind.AGENT, tokens, text)
    mixed = isinstance(content, list) and not all(map(is_text, content))
    return Reading(_KINDS.get(str(role), Kind.PLACED), tokens, text, mixed=mixed)


def _read_output(item: Message, kind: str, counter: TokenCounter) -> Reading:
    text, tokens = _content(item.get("output"), counter)
    call_id = str(item.get("call_id", item.get("id")))
    # The other outputs have a shape of their own; a marker would not fit. They go or stay whole.
    opaque = "" if kind in TEXT_OUTPUTS else f"holds a {kind} item"
    return Reading(Kind.RESULT, MESSAGE_TOKENS + tokens, text, answers=(call_id,), opaque=opaque)


def _read_reasoning(item: Message, counter: TokenCounter) -> Reading:
    # Models with open weights send what they thought itself, the others a summary.
    shown = (item.get("summary"), item.get("content"))
    thought = texts_of(part for parts in shown if isinstance(parts, list) for part in parts)
    tokens = MESSAGE_TOKENS + counter.count(thought)
    sealed = item.get("encrypted_content")
    if isinstance(sealed, str):
        # Base64 of the tokens themselves, never shown as text: about four characters for three
        # bytes, and about four bytes for a token.
        tokens += len(sealed) * 3 // 16
    return Reading(Kind.AGENT, tokens, thought=thought)


def _content(content: object, counter: TokenCounter) -> tuple[str, int]:
    if type(content) is str:
        return content, counter.count(content)
    if isinstance(content, list):
        text = texts_of(content)
        media = sum(
            _MEDIA_TOKENS.get(str(part.get("type")), 0)
            for part in content
            if isinstance(part, dict)
        )
        return text, counter.count(text) + media
    if isinstance(content, dict):
        kind = str(content.get("type"))
        if kind in _MEDIA_TOKENS:
            return "", _MEDIA_TOKENS[kind]
        text = json.dumps(content, ensure_ascii=False)
        return text, counter.count(text)
    return "", 0

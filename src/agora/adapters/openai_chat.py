"""OpenAI chat completions: `role`, `content`, `tool_calls`, and whatever speaks that dialect."""

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

# Bound once: looking a member up costs as much as a third of reading a short message does.
_AGENT, _RESULT = Kind.AGENT, Kind.RESULT
_MEDIA_TOKENS = {"image_url": IMAGE_TOKENS, "input_audio": FILE_TOKENS, "file": FILE_TOKENS}


class OpenAIChat:
    """Reads and writes `messages` of the chat completions API."""

    name = "openai"

    def parse(self, request: Request, counter: TokenCounter) -> Parsed:
        """Return the trajectory in the messages."""
        readings = [_read(message, counter) for message in request.messages]
        mark_observations(readings, request.observations, request.system)
        fixed = counter.count(json.dumps(request.tools)) if request.tools else 0
        if isinstance(request.system, str):
            fixed += counter.count(request.system)
        assembly = Assembly(fixed_tokens=fixed, mask=False, apart=True, bound=request.is_bound)
        for reading in readings:
            assembly.add(reading)
        return assembly.parsed(request)

    def render(self, parsed: Parsed, forms: Mapping[int, Form], markers: Markers) -> Rendered:
        """Return the messages without the elided steps."""
        return render_messages(parsed, forms, markers, self)

    def holds(self, message: Message) -> bool:
        """Tell whether a marker can be attached to this message."""
        return message.get("role") in _HOLDERS and isinstance(message.get("content"), str | list)

    def speaks(self, message: Message) -> bool:
        """Tell whether a marker attached here stands among the user's words."""
        return message.get("role") == "user"

    def attach(self, message: Message, text: str) -> Message:
        """Return the message with `text` after its own content."""
        return {**message, "content": append_text(message["content"], text, "text")}

    def results(self, message: Message) -> int:  # noqa: ARG002
        """Return how many results a message carries: all of it is one."""
        return 1

    def note(self, message: Message, notes: list[str]) -> Message:
        """Return the tool message with a note for its content."""
        parts = isinstance(message.get("content"), list)
        content = [{"type": "text", "text": notes[0]}] if parts else notes[0]
        return {**message, "content": content}


_HOLDERS = frozenset({"user", "tool", "function"})
_FIXED = frozenset({"system", "developer"})
_FUNCTION = "function:"
"""Before `tool_calls` a call had no id: its name stands for one."""


def _read(message: Message, counter: TokenCounter) -> Reading:
    role = message["role"]
    content = message.get("content")
    if type(content) is str:
        text, tokens = content, MESSAGE_TOKENS + counter.count(content)
    elif content is None:
        text, tokens = "", MESSAGE_TOKENS
    else:
        text = texts_of(content)
        tokens = MESSAGE_TOKENS + counter.count(text) + sum(map(_media_tokens, content))
    if role == "tool":
        return Reading(_RESULT, tokens, text, answers=(message["tool_call_id"],))
    if role == "assistant":
        return _read_agent(message, text, tokens, counter)
    if role == "user":
        mixed = isinstance(content, list) and not all(map(is_text, content))
        return Reading(Kind.USER, tokens, text, speaker=str(message.get("name", "")), mixed=mixed)
    if role == "function":
        return Reading(_RESULT, tokens, text, answers=(_FUNCTION + str(message.get("name")),))
    return Reading(Kind.FIXED if role in _FIXED else Kind.PLACED, tokens, text)


def _read_agent(message: Message, text: str, tokens: int, counter: TokenCounter) -> Reading:
    calls = []
    for call in message.get("tool_calls") or ():
        body = call.get("function") or call.get("custom") or {}
        name = str(body.get("name", "")) or "tool"
        arguments = str(body.get("arguments", body.get("input", "")))
        calls.append((call["id"], Call(name, arguments)))
        # Counted as one text: a second count of a short one costs as much as the first.
        tokens += CALL_TOKENS + counter.count(name + arguments)
    legacy = message.get("function_call")
    if legacy:
        name, arguments = str(legacy.get("name")), str(legacy.get("arguments", ""))
        calls.append((_FUNCTION + name, Call(name, arguments)))
        tokens += CALL_TOKENS + counter.count(name + arguments)
    thought = message.get("reasoning_content") or message.get("reasoning") or ""
    if not isinstance(thought, str):
        thought = ""
    details = message.get("reasoning_details")
    if isinstance(details, list):
        thought = thought or texts_of(details)
        tokens += sum(map(_sealed_tokens, details))
    if thought:
        tokens += counter.count(thought)
    return Reading(_AGENT, tokens, text, thought, tuple(calls))


def _sealed_tokens(detail: object) -> int:
    """Return about what encrypted reasoning costs: base64 of the tokens, never shown as text."""
    sealed = detail.get("data") if isinstance(detail, dict) else None
    return len(sealed) * 3 // 16 if isinstance(sealed, str) else 0


def _media_tokens(part: object) -> int:
    return _MEDIA_TOKENS.get(str(part.get("type")), 0) if isinstance(part, dict) else 0

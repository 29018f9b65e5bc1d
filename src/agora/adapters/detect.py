"""Which wire format a prompt is in."""

import re
from typing import Any

from agora.errors import UnknownFormatError

FORMATS = ("openai", "responses", "anthropic", "gemini", "bedrock", "transcript", "react")
_ALIASES = {
    "openai_chat": "openai",
    "chat": "openai",
    "openai_responses": "responses",
    "anthropic_messages": "anthropic",
    "messages": "anthropic",
    "gemini_contents": "gemini",
    "contents": "gemini",
    "bedrock_converse": "bedrock",
    "converse": "bedrock",
}
_ROLE_MARK = re.compile(r"(?:^|\s)\[(?:SYSTEM|USER|ASSISTANT)\]")
_REACT_MARK = re.compile(r"^(?:Thought|Action|Observation)(?: \d{1,6})?:", re.MULTILINE)
_ANTHROPIC_BLOCKS = frozenset(
    {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "document"}
)
_CHAT_PARTS = frozenset({"image_url", "input_audio", "file", "refusal"})
_RESPONSES_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file"})
_BEDROCK_BLOCKS = frozenset(
    {
        *("text", "toolUse", "toolResult", "reasoningContent", "cachePoint", "guardContent"),
        *("image", "document", "video", "citationsContent"),
    }
)
"""Fields that name a Converse block, which has no `type`."""


def known_format(name: str) -> str:
    """Return the format's own name for `name`, which may be an alias."""
    name = _ALIASES.get(name, name)
    if name not in FORMATS:
        raise UnknownFormatError(f"there is no format {name!r}", FORMATS)
    return name


def detect(messages: Any, *, system: object = None) -> str:
    """Return the format of `messages`.

    The first message that only one format could hold decides. Plain role and
    text messages fit three of them: they are taken for Anthropic's when
    `system` is passed along as blocks, for chat completions otherwise.

    >>> detect([{"role": "user", "content": "hi"}])
    'openai'
    >>> detect([{"role": "user", "parts": [{"text": "hi"}]}])
    'gemini'
    >>> detect("[USER] hi")
    'transcript'
    """
    if isinstance(messages, str):
        role, react = _ROLE_MARK.search(messages), _REACT_MARK.search(messages)
        # Whichever comes first: what is observed comes later, and may hold marks of either kind.
        if role and not (react and react.start() < role.start()):
            return "transcript"
        if react:
            return "react"
        raise UnknownFormatError("the text has neither role marks nor ReAct lines", FORMATS)
    if not isinstance(messages, list | tuple):
        found = type(messages).__name__
        raise UnknownFormatError(f"messages are a list or a string, not {found}", FORMATS)
    for message in messages:
        name = _telling(message)
        if name:
            return name
    return "anthropic" if isinstance(system, list) else "openai"


def _telling(message: object) -> str:
    """Return the one format that could hold this message, or an empty string."""
    if not isinstance(message, dict):
        return ""
    if "parts" in message and "content" not in message:
        return "gemini"
    if "type" in message:
        return "responses"
    if message.get("role") in ("tool", "function"):
        return "openai"
    if "tool_calls" in message or "function_call" in message:
        return "openai"
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, dict):
            continue
        if "type" not in part and not _BEDROCK_BLOCKS.isdisjoint(part):
            return "bedrock"
        kind = part.get("type")
        if kind in _ANTHROPIC_BLOCKS or (kind == "image" and "source" in part):
            return "anthropic"
        if kind in _CHAT_PARTS:
            return "openai"
        if kind in _RESPONSES_PARTS:
            return "responses"
    return ""

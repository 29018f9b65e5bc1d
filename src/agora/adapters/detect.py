"""Which wire format a prompt is in."""

from typing import Any

from agora.adapters.registry import format_names, formats
from agora.errors import UnknownFormatError

PLAIN = "openai"
"""What plain role and text messages are taken for."""
PLAIN_WITH_SYSTEM = "anthropic"
"""The same where system text comes next to them."""


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
        return _of_text(messages)
    if not isinstance(messages, list | tuple):
        found = type(messages).__name__
        raise UnknownFormatError(f"messages are a list or a string, not {found}", format_names())
    for message in messages:
        name = _telling(message)
        if name:
            return name
    return PLAIN_WITH_SYSTEM if isinstance(system, list) else PLAIN


def _of_text(text: str) -> str:
    for format in formats():
        if format.mark is not None and format.mark.search(text):
            return format.name
    raise UnknownFormatError("the text has no role marks", format_names())


def _telling(message: object) -> str:
    """Return the one format that could hold this message, or an empty string."""
    if not isinstance(message, dict):
        return ""
    known = formats()
    for format in known:
        if format.tells_message(message):
            return format.name
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict):
            for format in known:
                if format.tells_part(part):
                    return format.name
    return ""

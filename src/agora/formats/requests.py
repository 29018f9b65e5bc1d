"""Read requests: the format of messages, and whole bodies or messages with the caller's options."""

from typing import Any

from agora.core.request import Observations, Request
from agora.errors import UnknownFormatError
from agora.formats.base import BodyFields, as_list, thinking_setting
from agora.formats.registry import FORMATS, find_format, format_names, formats, known_format

_PLAIN = "openai"
"""The format assumed for plain role and text messages."""
_PLAIN_WITH_SYSTEM = "anthropic"
"""The same where system text comes next to them."""
_PLAIN_FIELDS = BodyFields(messages="messages", system=("system",), thinks=thinking_setting)
"""For a format without fields of its own: a text in a body."""
_ROLES = frozenset(FORMATS) - {"bedrock"}
"""The formats that role and text messages next to a system text may be detected as."""


def detect(messages: Any, *, system: object = None) -> str:
    """Return the format of `messages`.

    The first message that only one format could hold decides. Plain role and text messages fit
    three of them: they are taken for Anthropic's when `system` is passed along as blocks, for chat
    completions otherwise.

    >>> detect([{"role": "user", "content": "hi"}])
    'openai'
    >>> detect([{"role": "user", "parts": [{"text": "hi"}]}])
    'gemini'
    >>> detect("[USER] hi")
    'transcript'

    Raises:
        UnknownFormatError: No format fits.
    """
    if isinstance(messages, str):
        return _of_text(messages)
    if not isinstance(messages, list | tuple):
        kind = type(messages).__name__
        raise UnknownFormatError(f"messages are a list or a string, not {kind}", format_names())
    for message in messages:
        name = _only_format(message)
        if name:
            return name
    return _PLAIN_WITH_SYSTEM if isinstance(system, list) else _PLAIN


def make_request(
    messages: Any,
    *,
    format: str | None = None,
    system: object = None,
    tools: object = None,
    thinking: bool | None = None,
    observations: Observations | None = None,
    model: str | None = None,
) -> Request:
    """Return the request that these keywords describe; the format is detected by default.

    >>> make_request("[USER] hi").format
    'transcript'

    Raises:
        UnknownFormatError: There is no such format, or none fits the messages.
    """
    return Request(
        messages=messages,
        format=known_format(format) if format else detect(messages, system=system),
        system=system,
        tools=tools,
        thinking=thinking,
        observations=observations,
        model=model,
    )


def read_request(body: Any, *, format: str | None = None) -> Request:
    """Return the request in `body`: a request's JSON, or bare messages in any format.

    >>> read_request({"model": "m", "input": "hi", "previous_response_id": "r"}).server_side
    True

    Raises:
        UnknownFormatError: No format fits.
    """
    if not isinstance(body, dict):
        return Request(format=format or detect(body), messages=body, field="", body=body)
    name = _of_body(body, format)
    known = find_format(name)
    fields = known.fields if known is not None else None
    if fields is None or fields.messages not in body:
        # Items of one format may be under another's name for messages.
        fields = _PLAIN_FIELDS
    return fields.request(name, body)


def _of_text(text: str) -> str:
    for format in formats():
        if format.text_pattern is not None and format.text_pattern.search(text):
            return format.name
    raise UnknownFormatError("the text has no role marks", format_names())


def _only_format(message: object) -> str:
    """Return the one format that could hold this message, or an empty string."""
    if not isinstance(message, dict):
        return ""
    for format in formats():
        if format.matches_message(message):
            return format.name
    for part in as_list(message.get("content")):
        if isinstance(part, dict):
            for format in formats():
                if format.matches_part(part):
                    return format.name
    return ""


def _of_body(body: dict[str, Any], wanted: str | None) -> str:
    matches = [format for format in formats() if format.matches_body(body)]
    for format in matches:
        if format.fields is not None and format.fields.messages != _PLAIN_FIELDS.messages:
            # No other format has this name for its messages, so it decides.
            return format.name
    known = find_format(wanted) if wanted else None
    fields = (known.fields if known is not None else None) or _PLAIN_FIELDS
    if fields.messages not in body:
        names = tuple(format.name for format in formats() if format.fields is not None)
        raise UnknownFormatError("the body has neither messages nor input nor contents", names)
    if wanted:
        return wanted
    if matches:
        return matches[0].name
    name = detect(body[_PLAIN_FIELDS.messages])
    return _PLAIN_WITH_SYSTEM if body.get("system") and name in _ROLES else name

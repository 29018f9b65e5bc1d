"""Requests read: from whole bodies, or from messages and what the caller says of them."""

from typing import Any

from agora.adapters.detect import PLAIN_WITH_SYSTEM, detect
from agora.adapters.format import BodyFields
from agora.adapters.formats.settings import thinking_setting
from agora.adapters.registry import FORMATS, body_formats, find_format, formats, known_format
from agora.core.request import Observations, Request
from agora.errors import UnknownFormatError


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
    """Return the request that these keywords describe; the format is detected when not given.

    >>> make_request("[USER] hi").format
    'transcript'

    Raises:
        UnknownFormatError: there is no such format, or none fits the messages.
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
    """
    if not isinstance(body, dict):
        return Request(format=format or detect(body), messages=body, field="", body=body)
    name = _format_of(body, format)
    found = find_format(name)
    fields = found.fields if found is not None else None
    if fields is None or fields.messages not in body:
        # Items of one format may stand under another's name for messages.
        fields = _PLAIN_FIELDS
    return fields.request(name, body)


_PLAIN_FIELDS = BodyFields(
    messages="messages",
    system=("system",),
    thinking=("thinking",),
    thinks=thinking_setting,
)
"""Of a format without fields of its own: a text in a body."""
_ROLES = frozenset(FORMATS) - {"bedrock"}
"""What messages with roles may be taken for though system text next to them says Anthropic's."""


def _format_of(body: dict[str, Any], asked: str | None) -> str:
    told = [format for format in formats() if format.tells_body(body)]
    for format in told:
        if format.fields is not None and format.fields.messages != _PLAIN_FIELDS.messages:
            # Nobody else calls its messages so, whatever was asked for.
            return format.name
    known = find_format(asked) if asked else None
    fields = (known.fields if known is not None else None) or _PLAIN_FIELDS
    if fields.messages not in body:
        raise UnknownFormatError(
            "the body has neither messages nor input nor contents", tuple(body_formats())
        )
    if asked:
        return asked
    if told:
        return told[0].name
    found = detect(body[_PLAIN_FIELDS.messages])
    return PLAIN_WITH_SYSTEM if body.get("system") and found in _ROLES else found

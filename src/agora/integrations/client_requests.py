"""The prompt in a request that a client of openai or anthropic is about to send."""

import copy
from typing import Any

from agora.core.request import Request
from agora.formats import read_request

_FORMATS = {
    "/chat/completions": "openai",
    "/responses": "responses",
    "/messages": "anthropic",
    "/messages/count_tokens": "anthropic",
}
_NO_CALL = "/count_tokens"
"""The end of a path that sends a prompt to no model."""


def request_in(options: Any) -> Request | None:
    """Return the prompt in a request that is about to be sent, if it is one of ours to edit."""
    path = _path(options)
    format = next((f for end, f in _FORMATS.items() if path.endswith(end)), None)
    body, extra = options.json_data, getattr(options, "extra_json", None)
    if format is None or options.method.lower() != "post" or not isinstance(body, dict):
        return None
    request = read_request({**body, **extra} if extra else body, format=format)
    return None if request.server_side else request


def with_messages(options: Any, field: str, messages: Any) -> Any:
    """Return a request with other messages."""
    edited = copy.copy(options)
    # Fields of `extra_body` come before those of the same name when the SDK joins them.
    extra = getattr(options, "extra_json", None) or {}
    place = "extra_json" if field in extra else "json_data"
    setattr(edited, place, {**getattr(options, place), field: messages})
    return edited


def asks_a_model(options: Any) -> bool:
    """Return True unless a request only counts a prompt's tokens."""
    return not _path(options).endswith(_NO_CALL)


def _path(options: Any) -> str:
    return str(options.url).partition("?")[0].rstrip("/")

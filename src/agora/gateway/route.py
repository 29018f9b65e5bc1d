"""What a request is: which dialect it speaks, and what of it may be edited."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Header = tuple[bytes, bytes]
Family = Literal["openai", "anthropic"]
"""Whose API it is: by it an upstream is chosen, and errors take its shape."""

BYPASS = b"x-agora-bypass"
_OWN = b"x-agora-"
_NO = frozenset({b"", b"0", b"false", b"no", b"off"})


@dataclass(frozen=True, slots=True)
class Route:
    """One kind of request."""

    name: str
    """What metrics and logs call it."""
    family: Family
    format: str = ""
    """The wire format of its messages; empty where they are not ours to read."""
    field: str = "messages"
    """Where in the body the messages stand."""


CHAT = Route("chat", "openai", "openai")
RESPONSES = Route("responses", "openai", "responses", "input")
MESSAGES = Route("messages", "anthropic", "anthropic")
COUNT_TOKENS = Route("count_tokens", "anthropic", "anthropic")
"""Edited like the request it counts for, so that what is counted is what will be sent."""
OTHER = Route("other", "openai")
OTHER_ANTHROPIC = Route("other", "anthropic")

_ROUTES: Mapping[str, Route] = MappingProxyType(
    {
        "/v1/chat/completions": CHAT,
        "/v1/responses": RESPONSES,
        "/v1/messages": MESSAGES,
        "/v1/messages/count_tokens": COUNT_TOKENS,
    }
)


def route_of(method: str, path: str, headers: Iterable[Header]) -> Route:
    """Return the route of a request; what is not known by its path is passed through.

    >>> route_of("POST", "/v1/messages", []).format
    'anthropic'
    >>> route_of("GET", "/v1/models", [(b"anthropic-version", b"2023-06-01")]).family
    'anthropic'
    """
    if method == "POST":
        found = _ROUTES.get(path)
        if found is not None:
            return found
    # Both APIs have /v1/models and /v1/files; only one of them demands this header.
    if path.startswith("/v1/messages") or any(name == b"anthropic-version" for name, _ in headers):
        return OTHER_ANTHROPIC
    return OTHER


def bypassed(headers: Iterable[Header]) -> bool:
    """Tell whether the client asked for its own bytes to go on.

    >>> bypassed([(b"x-agora-bypass", b"1")]), bypassed([(b"x-agora-bypass", b"false")])
    (True, False)
    """
    return any(name == BYPASS and value.strip().lower() not in _NO for name, value in headers)


_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""What is said between two neighbours and not end to end (RFC 9110, 7.6.1)."""
_SET_ANEW = frozenset({b"host", b"content-length", b"expect"})


def onward(headers: Iterable[Header]) -> list[Header]:
    """Return the request headers that go on, in order and as they were written.

    >>> onward([(b"Host", b"gw"), (b"x-agora-bypass", b"1"), (b"anthropic-beta", b"b")])
    [(b'anthropic-beta', b'b')]
    """
    pairs = list(headers)
    dropped = _HOP_BY_HOP | _SET_ANEW | _named_by_connection(pairs)
    return [
        (name, value)
        for name, value in pairs
        if (low := name.lower()) not in dropped and not low.startswith(_OWN)
    ]


def homeward(headers: Iterable[Header]) -> list[Header]:
    """Return the answer's headers that go back, in order; names in small letters, as ASGI asks."""
    pairs = list(headers)
    dropped = _HOP_BY_HOP | _named_by_connection(pairs)
    return [(low, value) for name, value in pairs if (low := name.lower()) not in dropped]


def _named_by_connection(headers: Iterable[Header]) -> frozenset[bytes]:
    named: set[bytes] = set()
    for name, value in headers:
        if name.lower() == b"connection":
            named.update(token.strip().lower() for token in value.split(b","))
    return frozenset(named)


def refusal(family: Family, status: int, message: str) -> dict[str, object]:
    """Return the body of an error in the words of the API that was asked.

    >>> refusal("anthropic", 413, "too long")["error"]
    {'type': 'request_too_large', 'message': 'too long'}
    """
    if family == "anthropic":
        kind = _ANTHROPIC_KINDS.get(status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}}
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


_ANTHROPIC_KINDS: Mapping[int, str] = MappingProxyType(
    {
        400: "invalid_request_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        503: "overloaded_error",
        504: "timeout_error",
    }
)

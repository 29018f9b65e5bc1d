"""Which headers of a request are forwarded to a provider, and which of an answer go back."""

from collections.abc import Iterable

from agora.gateway.config import NEVER_FORWARDED
from agora.gateway.routing.routes import OWN, Header

FORWARDED = frozenset(
    name.encode()
    for name in (
        # What every HTTP client sends and a provider reads.
        "accept accept-encoding accept-language content-type content-encoding user-agent "
        # Keys.
        "authorization x-api-key api-key "
        # Retries and support.
        "idempotency-key x-request-id request-id x-client-request-id "
        # Sessions and versions of coding agents: Codex, Claude Code, opencode, Cline, aider.
        "session_id session-id conversation_id conversation-id thread-id originator version x-app "
        "chatgpt-account-id x-session-id x-session-affinity x-parent-session-id x-initiator "
        # Who is asking, as OpenRouter counts it.
        "http-referer x-title"
    ).split()
)
"""Headers forwarded by their full name."""
FORWARDED_PREFIXES = tuple(
    prefix.encode()
    for prefix in (
        "anthropic- x-anthropic- x-claude- openai- x-openai- x-codex- x-stainless- x-goog- "
        "x-gemini- x-ms- x-amz- x-amzn- x-opencode- x-qwen- x-dashscope- x-responsesapi-"
    ).split()
)
"""Headers forwarded by the prefix of their names: the providers' and the agents' own."""
_NEVER = frozenset(name.encode() for name in NEVER_FORWARDED)
_HOP_BY_HOP = _NEVER - {b"host", b"content-length", b"expect"}
_NONE: frozenset[bytes] = frozenset()
ALL = b"*"
"""Stands for every header, where one person's agent talks to its own provider."""


def request_headers(
    headers: Iterable[Header], also: frozenset[bytes] = _NONE, without: frozenset[bytes] = _NONE
) -> list[Header]:
    """Return the request headers to forward, in order and as written.

    Only those on the list do, and those that the configuration adds: a cookie, an address of the
    client's network or a tenant's name is nothing a provider should see.

    Args:
        headers: those of the request.
        also: names, in lower case, that are forwarded as well; `*` for all.
        without: names that are never forwarded.

    >>> request_headers([(b"cookie", b"a=1"), (b"x-agora-bypass", b"1"), (b"anthropic-beta", b"b")])
    [(b'anthropic-beta', b'b')]
    """
    pairs = list(headers)
    dropped = _named_by_connection(pairs)
    return [
        (name, value)
        for name, value in pairs
        if (
            (low := name.lower()) in FORWARDED
            or low.startswith(FORWARDED_PREFIXES)
            or low in also
            or ALL in also
        )
        and low not in _NEVER
        and low not in dropped
        and low not in without
        and not low.startswith(OWN)
    ]


def response_headers(headers: Iterable[Header]) -> list[Header]:
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

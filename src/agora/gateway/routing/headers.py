"""Which headers of a request are forwarded to a provider, and which of an answer go back."""

from collections.abc import Collection, Iterable
from functools import cache

from agora.gateway.config import FORMATS, NEVER_FORWARDED, Format
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
        "x-session-id x-session-affinity x-parent-session-id x-initiator "
        # Who is asking, as OpenRouter counts it.
        "http-referer x-title"
    ).split()
)
"""Headers forwarded by their full name."""
VENDORS: tuple[tuple[bytes, tuple[Format, ...]], ...] = (
    (b"anthropic-", ("anthropic",)),
    (b"x-anthropic-", ("anthropic",)),
    (b"x-claude-", ("anthropic",)),
    # Azure serves OpenAI's API, and its clients are OpenAI's.
    (b"openai-", ("openai", "azure")),
    (b"x-openai-", ("openai", "azure")),
    (b"x-codex-", ("openai", "azure")),
    (b"x-responsesapi-", ("openai", "azure")),
    (b"chatgpt-", ("openai",)),
    (b"x-goog-", ("gemini",)),
    (b"x-gemini-", ("gemini",)),
    (b"x-ms-", ("azure",)),
    (b"x-amz-", ("bedrock",)),
    (b"x-amzn-", ("bedrock",)),
)
"""Providers' own headers by the prefix of their names, and whose upstreams get them; the first is
who took the name."""
FORWARDED_PREFIXES = (
    *(prefix for prefix, _ in VENDORS),
    *(prefix.encode() for prefix in "x-stainless- x-opencode- x-qwen- x-dashscope-".split()),
)
"""Headers forwarded by the prefix of their names: the providers' and the agents' own."""
_NEVER = frozenset(name.encode() for name in NEVER_FORWARDED)
_HOP_BY_HOP = _NEVER - {b"host", b"content-length", b"expect"}
_NONE: frozenset[bytes] = frozenset()
ALL = b"*"
"""Stands for every header, where one person's agent talks to its own provider."""


def request_headers(
    headers: Iterable[Header],
    also: frozenset[bytes] = _NONE,
    without: frozenset[bytes] = _NONE,
    families: Collection[Format] = FORMATS,
) -> list[Header]:
    """Return the request headers to forward, in order and as written.

    Only those on the list do, and those that the configuration adds: a cookie, an address of the
    client's network or a tenant's name is nothing a provider should see. What is one provider's by
    its name goes to that provider's upstreams only.

    Args:
        headers: those of the request.
        also: names, in lower case, that are forwarded as well; `*` for all.
        without: names that are never forwarded.
        families: whose requests or keys the upstream takes.

    >>> request_headers([(b"cookie", b"a=1"), (b"x-agora-bypass", b"1"), (b"anthropic-beta", b"b")])
    [(b'anthropic-beta', b'b')]
    >>> request_headers([(b"anthropic-beta", b"b")], families=("openai",))
    []
    """
    pairs = list(headers)
    dropped = _named_by_connection(pairs)
    prefixes = _prefixes(frozenset(families))
    return [
        (name, value)
        for name, value in pairs
        if (
            (low := name.lower()) in FORWARDED
            or low.startswith(prefixes)
            or low in also
            or ALL in also
        )
        and low not in _NEVER
        and low not in dropped
        and low not in without
        and not low.startswith(OWN)
    ]


@cache
def _prefixes(families: frozenset[Format]) -> tuple[bytes, ...]:
    others = {prefix for prefix, whose in VENDORS if families.isdisjoint(whose)}
    return tuple(prefix for prefix in FORWARDED_PREFIXES if prefix not in others)


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

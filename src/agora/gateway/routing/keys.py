"""Whose key a request carries: by the header or parameter it stands in, and by how it begins.

A key may go only to an upstream that takes the keys of everyone it could belong to. One that
tells nothing about its owner (`Bearer` and a word without a known beginning, as servers of one's
own hand them out) goes where the path of the request says.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from urllib.parse import parse_qsl

from agora.gateway.config import Format
from agora.gateway.routing.routes import TOKEN, Header

_HEADERS: Mapping[bytes, Format] = MappingProxyType(
    {
        b"x-api-key": "anthropic",
        b"api-key": "azure",
        b"x-goog-api-key": "gemini",
        b"x-amz-security-token": "bedrock",
    }
)
"""Headers that only one provider takes a key from."""
_PARAMETERS: Mapping[str, Format] = MappingProxyType(
    {"key": "gemini", "access_token": "gemini", "api-key": "azure"}
)
"""The same in the query."""
_BEGINNINGS: tuple[tuple[bytes, Format], ...] = (
    (b"sk-ant-", "anthropic"),
    (b"sk-proj-", "openai"),
    (b"sk-svcacct-", "openai"),
    (b"sk-admin-", "openai"),
    (b"AIza", "gemini"),
    (b"ya29.", "gemini"),
    (b"ABSK", "bedrock"),
    (b"bedrock-api-key-", "bedrock"),
    (b"AWS4-HMAC-", "bedrock"),
)
"""How keys begin that are only ever one provider's."""
SECRET_HEADERS = frozenset({b"authorization", *_HEADERS})
"""Every header that a key may stand in."""


def owners(headers: Iterable[Header], query: bytes = b"") -> frozenset[Format]:
    """Return the providers whose keys a request carries, as far as the keys tell.

    A key in the wrong header belongs to both: that of its header and that of its beginning.

    >>> owners([(b"authorization", b"Bearer sk-ant-oat01-x")])
    frozenset({'anthropic'})
    >>> owners([(b"authorization", b"Bearer word")])
    frozenset()
    >>> sorted(owners([(b"x-api-key", b"sk-proj-x")], b"key=AIza1"))
    ['anthropic', 'gemini', 'openai']
    """
    found: set[Format] = set()
    for name, value in headers:
        if name not in SECRET_HEADERS:
            continue
        value = value.strip()
        if not value:
            continue
        if name in _HEADERS:
            found.add(_HEADERS[name])
        # With its scheme and without: `Authorization: sk-ant-...` is a key as well.
        for word in value.split(None, 2):
            owner = _by_beginning(word)
            if owner is not None:
                found.add(owner)
    # Names may be written in escapes, so that a look for `key=` alone would miss some.
    if query and (b"key" in query or b"token" in query or b"%" in query):
        for parameter, text in parse_qsl(query.decode("latin-1")):
            if parameter.lower() in _PARAMETERS:
                found.add(_PARAMETERS[parameter.lower()])
                owner = _by_beginning(text.encode("utf-8", "replace"))
                if owner is not None:
                    found.add(owner)
    return frozenset(found)


def is_bearer(headers: Iterable[Header]) -> bool:
    """Return whether a request carries a key the way OpenAI and its likes take it."""
    return any(
        name == b"authorization" and value[:7].lower() == b"bearer " for name, value in headers
    )


def bearer_as_token(headers: Iterable[Header]) -> list[Header]:
    """Return a bearer token as the gateway's own, for paths from which nothing is forwarded.

    >>> bearer_as_token([(b"authorization", b"Bearer abc")])
    [(b'x-agora-token', b'abc')]
    >>> bearer_as_token([(b"x-agora-token", b"xyz"), (b"authorization", b"Bearer abc")])
    []
    """
    found: list[Header] = []
    for name, value in headers:
        if name == TOKEN:
            return []
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            found = [(TOKEN, value[7:].strip())]
    return found


def _by_beginning(key: bytes) -> Format | None:
    for beginning, owner in _BEGINNINGS:
        if key.startswith(beginning):
            return owner
    return None

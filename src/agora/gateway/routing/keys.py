"""Whose key a request carries: by the header or parameter it stands in, and by how it begins.

A key may go only to an upstream that takes the keys of everyone it could belong to. One that
tells nothing about its owner (`Bearer` and a word without a known beginning, as servers of one's
own hand them out) goes where the path of the request says. What is a key by its place, and is
written as no provider known here takes it, goes nowhere: it is `stray`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from urllib.parse import unquote_to_bytes

from agora.gateway.config import Format
from agora.gateway.routing.headers import FORWARDED, FORWARDED_PREFIXES, VENDORS
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
_PARAMETERS: Mapping[bytes, Format] = MappingProxyType(
    {
        b"key": "gemini",
        b"access_token": "gemini",
        b"oauth_token": "gemini",
        b"api-key": "azure",
        b"subscription-key": "azure",
    }
)
"""The same in the query."""
_BEGINNINGS = re.compile(
    rb"(?<![^\s,;:=\"'<>])(?i:(?P<anthropic>sk-ant-)"
    # OpenAI's, and of those who write theirs like it. Whoever serves these says so by
    # `credentials`.
    rb"|(?P<openai>sk-|sess-)"
    rb"|(?P<gemini>aiza|aq\.|ya29\.)"
    rb"|(?P<bedrock>absk|bedrock-api-key-|aws4-))"
)
"""How keys begin that are only ever one provider's, at the beginning of a word."""
_ANYWHERE = re.compile(
    rb"(?<![A-Za-z0-9])(?:(?P<anthropic>(?i:sk-ant-))"
    rb"|(?P<openai>(?i:sk-(?:proj|svcacct|admin)-)|sk-[A-Za-z0-9]{1,64}T3BlbkFJ)"
    rb"|(?P<gemini>AIza[\w-]{8}|ya29\.)"
    rb"|(?P<bedrock>ABSK[\w-]{8}|bedrock-api-key-|AWS4-HMAC-))"
)
"""The same where no key is expected, as far as nothing else is likely to look like it."""
_MARKS = (b"sk-", b"aiza", b"ya29.", b"absk", b"bedrock-api-key-", b"aws4-")
"""Without any of these in it, in small letters, a text has none of them: a quick look."""
_OWNERS: Mapping[str, Format] = MappingProxyType(
    {owner: owner for owner in ("anthropic", "openai", "gemini", "bedrock")}
)
_SECRET_NAME = re.compile(rb"key|token|auth|secret|credential|signature|password")
"""What stands in the names of vendors' headers that carry a key."""
_SECRET_PARAMETER = re.compile(
    rb".*(?:key|(?<!page)(?<!next)(?<!continuation)(?<!upload)token|secret|password|passwd"
    rb"|credentials?|signature|authorization|apikey)|auth|bearer|jwt|sig|sas|pwd"
)
"""The same for parameters, of letters and digits alone."""
_ONE_WORD = re.compile(rb"[^\s,;\"'<>]+")
_NOT_A_NAME = re.compile(rb"[^a-z0-9]+")
_PARAMETER_ENDS = re.compile(rb"[&;]")
_TARGET_MOST = 8_192
"""What is longer is no request of these APIs', and takes long to look through."""
SECRET_HEADERS = frozenset({b"authorization", *_HEADERS})
"""Every header that a key may stand in, whoever takes it."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one request."""

    owners: frozenset[Format] = frozenset()
    """Whose they are, as far as they tell."""
    stray: str = ""
    """The place of one that no provider known here would take from there, and why."""


def keys_of(headers: Iterable[Header], path: bytes = b"", query: bytes = b"") -> Keys:
    """Return whose keys a request carries; header names are in small letters.

    A key in the wrong header belongs to both: that of its header and that of its beginning.

    >>> keys_of([(b"authorization", b"Bearer sk-ant-oat01-x")]).owners
    frozenset({'anthropic'})
    >>> keys_of([(b"authorization", b"Bearer word")])
    Keys(owners=frozenset(), stray='')
    >>> sorted(keys_of([(b"x-api-key", b"sk-proj-x")], b"/", b"KEY=AIza1").owners)
    ['anthropic', 'gemini', 'openai']
    >>> keys_of([(b"authorization", b"Bearer one, Bearer two")]).stray
    "the header 'authorization' does not hold exactly one key after 'Bearer'"
    """
    if len(path) + len(query) > _TARGET_MOST:
        return Keys(stray=f"the path and query are longer than {_TARGET_MOST:,} bytes")
    found: set[Format] = set()
    strays: list[str] = []
    elsewhere = [_plain(path)] if path else []
    seen: set[bytes] = set()
    for name, value in headers:
        if name in SECRET_HEADERS:
            value = value.strip()
            if not value:
                continue
            if name in seen:
                strays.append(f"the header {_shown(name)} was sent twice")
            seen.add(name)
            if name in _HEADERS:
                found.add(_HEADERS[name])
            found.update(_by_words(value))
            strays += _not_one_key(name, value)
        elif _is_forwarded(name):
            elsewhere.append(value)
            family = _secret_of(name)
            if family is not None and value.strip():
                found.add(family)
                found.update(_by_words(value))
    if query:
        elsewhere.append(_plain(query))
        for parameter, value in _parameters(query):
            owner = _parameter_owner(parameter)
            if owner is not None:
                found.add(owner)
            elif _SECRET_PARAMETER.fullmatch(_NOT_A_NAME.sub(b"", parameter)):
                strays.append(
                    f"the parameter {_shown(parameter)} is a key, but no provider takes one there"
                )
            else:
                continue
            found.update(_by_words(value))
    text = b"\n".join(elsewhere)
    low = text.lower()
    if any(mark in low for mark in _MARKS):
        found.update(_OWNERS[str(match.lastgroup)] for match in _ANYWHERE.finditer(text))
    return Keys(frozenset(found), strays[0] if strays else "")


def is_bearer(headers: Iterable[Header]) -> bool:
    """Return whether a request carries a key the way OpenAI and its likes take it."""
    return any(_bearer(value) for name, value in headers if name == b"authorization")


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
        if name == b"authorization" and (token := _bearer(value)):
            found = [(TOKEN, token)]
    return found


def _bearer(value: bytes) -> bytes:
    """Return what follows `Bearer`, if it is one word."""
    words = value.split()
    return words[1] if len(words) == 2 and words[0].lower() == b"bearer" else b""


def _not_one_key(name: bytes, value: bytes) -> Iterator[str]:
    """Yield why the value of a header is not one key, written as providers take it."""
    if name != b"authorization":
        if not _ONE_WORD.fullmatch(value):
            yield f"the header {_shown(name)} does not hold exactly one key"
        return
    scheme, _, rest = value.replace(b"\t", b" ").partition(b" ")
    if scheme.lower() == b"bearer":
        if rest and not _ONE_WORD.fullmatch(rest.strip()):
            yield "the header 'authorization' does not hold exactly one key after 'Bearer'"
    elif not (
        scheme.lower().startswith(b"aws4-")
        or (not rest and _ONE_WORD.fullmatch(value) and _BEGINNINGS.match(value) is not None)
    ):
        yield "the header 'authorization' is neither 'Bearer' and a key nor an AWS signature"


def _parameters(query: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the names, in small letters, and values of a query that has any value."""
    for piece in _PARAMETER_ENDS.split(query):
        name, _, value = piece.partition(b"=")
        if value:
            yield _plain(name).strip().lower(), _plain(value)


def _parameter_owner(name: bytes) -> Format | None:
    return "bedrock" if name.startswith(b"x-amz-") else _PARAMETERS.get(name)


def _plain(text: bytes) -> bytes:
    """Return a text without its escapes, also where those are escaped again."""
    for _ in range(3):
        if b"%" not in text:
            break
        text = unquote_to_bytes(text)
    return text


@lru_cache(maxsize=1_024)
def _is_forwarded(header: bytes) -> bool:
    return header in FORWARDED or header.startswith(FORWARDED_PREFIXES)


@lru_cache(maxsize=1_024)
def _secret_of(header: bytes) -> Format | None:
    """Return whose header it is, if it is one of a provider's for keys."""
    for prefix, families in VENDORS:
        if header.startswith(prefix) and _SECRET_NAME.search(header):
            return families[0]
    return None


def _by_words(value: bytes) -> Iterator[Format]:
    for match in _BEGINNINGS.finditer(value):
        yield _OWNERS[str(match.lastgroup)]


def _shown(name: bytes) -> str:
    return repr(name[:40].decode("latin-1"))

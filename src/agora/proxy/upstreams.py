"""The address of a request's upstream, and the headers to forward."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from agora.formats.usage_stream import readable_encodings
from agora.service.routes import Family, Route
from agora.service.settings import UPSTREAMS

_HOP_BY_HOP = frozenset(
    "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    "transfer-encoding upgrade http2-settings host content-length expect".split()
)
_OWN = "x-agora-"
_SAID_TWICE = ("/openai/v1", "/v1", "/openai", "/v1beta")
"""A version that may end a base URL and begin a path, and is written once."""


def family_of(route: Route | None, headers: Mapping[str, str]) -> Family:
    """Return the API family of a request: by its path, or else by a header that only one has."""
    if route is not None:
        return route.family
    if "anthropic-version" in headers or "x-api-key" in headers:
        return "anthropic"
    return "gemini" if "x-goog-api-key" in headers else "openai"


def url_for(upstreams: Mapping[Family, str], family: Family, target: str) -> str | None:
    """Return the address for a path with its query, or None if that family has no upstream.

    >>> url_for({"openai": "https://o.test/v1/"}, "openai", "/v1/models?limit=2")
    'https://o.test/v1/models?limit=2'
    """
    base = (upstreams.get(family) or UPSTREAMS.get(family, "")).rstrip("/")
    if not base or not target.startswith("/"):
        return None
    for end in _SAID_TWICE:
        if base.endswith(end) and (target == end or target.startswith((f"{end}/", f"{end}?"))):
            return base + target[len(end) :]
    return base + target


_NUMBER = re.compile(r"/(\d{1,3})(?![^/?])")


def numbered(bases: Sequence[str], target: str) -> str | None:
    """Return the address for a path that begins with the number of an upstream.

    >>> numbered(["https://o.test/v1"], "/0/models?limit=2")
    'https://o.test/v1/models?limit=2'
    >>> numbered(["https://o.test/v1"], "/1/models") is None
    True
    """
    number = _NUMBER.match(target)
    if number is None or int(number[1]) >= len(bases):
        return None
    return bases[int(number[1])] + target[number.end() :]


def cause_of(error: Exception, url: str) -> str:
    """Return a sentence on who gave no answer and why, for the client and the account.

    >>> cause_of(TimeoutError(), "https://o.test/v1/models?key=secret")
    'no answer from o.test: timeout'
    """
    server = urlsplit(url).netloc.rpartition("@")[2]
    # Messages of the operating system alone: those of libraries may quote anything.
    cause = "timeout" if isinstance(error, TimeoutError) else type(error).__name__
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"no answer from {server}: its name has no address ({error.host})"
    if isinstance(error, aiohttp.ClientConnectorError):
        # The address may be that of an HTTP proxy, not the provider's.
        server = f"{error.host}:{error.port}"
        cause = os.strerror(error.errno).lower() if error.errno else cause
    elif isinstance(error, OSError) and error.errno:
        cause = os.strerror(error.errno).lower()
    return f"no answer from {server}: {cause}"


def proxy_for(url: str) -> str | None:
    """Return the proxy that the environment names for an address (HTTPS_PROXY, NO_PROXY).

    Not by aiohttp's `trust_env`, which would send the passwords of a ~/.netrc as well.
    """
    parts = urlsplit(url)
    return _proxy_for(parts.scheme, parts.netloc)


@lru_cache(maxsize=64)
def _proxy_for(scheme: str, host: str) -> str | None:
    if proxy_bypass(host):
        return None
    proxies = getproxies()
    return proxies.get(scheme) or proxies.get("all")


def request_headers(
    headers: Iterable[tuple[str, str]], *, prompt: bool, rewritten: bool
) -> list[tuple[str, str]]:
    """Return the headers to send, in order.

    Args:
        headers: Those of the request.
        prompt: True if usage is read from the answer, which must not be compressed then.
        rewritten: True if the body is not the client's own bytes.
    """
    pairs = list(headers)
    dropped = _HOP_BY_HOP | _named_by_connection(pairs)
    if rewritten:
        dropped |= {"content-encoding"}
    if not prompt:
        dropped -= {"content-length"}
    kept: list[tuple[str, str]] = []
    for name, value in pairs:
        low = name.lower()
        if low in dropped or low.startswith(_OWN):
            continue
        if prompt and low == "accept-encoding":
            value = readable_encodings(value)
        kept.append((name, value))
    return kept


def response_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the headers of an answer that go back to the client."""
    pairs = list(headers)
    dropped = (_HOP_BY_HOP | _named_by_connection(pairs)) - {"content-length"}
    return [(name, value) for name, value in pairs if name.lower() not in dropped]


def _named_by_connection(headers: Iterable[tuple[str, str]]) -> frozenset[str]:
    named = (value for name, value in headers if name.lower() == "connection")
    return frozenset(token.strip().lower() for value in named for token in value.split(","))

"""Whose a request is: a name that tells nothing about the key behind it."""

from collections.abc import Iterable

from agora.experiment.assignment import ANONYMOUS, owner
from agora.gateway.config import Tenants

_KEY_HEADERS = (b"x-api-key", b"api-key", b"x-goog-api-key")


def tenant_of(headers: Iterable[tuple[bytes, bytes]], settings: Tenants, secret: bytes) -> str:
    """Return the name of the tenant a request is from, which tells nothing about its key.

    The name is the header that `settings` trusts, if it has a plain name in
    it, and otherwise a keyed hash of the API key: without `secret` nobody can
    try out whether a key they know is behind a name.

    >>> tenant_of([(b"authorization", b"Bearer sk-1")], Tenants(), b"secret")
    't-a2de379d1f7a'
    >>> tenant_of([(b"x-api-key", b"sk-1")], Tenants(), b"secret")
    't-a2de379d1f7a'
    >>> tenant_of([], Tenants(), b"secret")
    'anonymous'
    """
    trusted = settings.header.encode("ascii") if settings.header else None
    key = b""
    for name, value in headers:
        lower = name.lower()
        if lower == trusted and value.strip():
            return _plain(value.strip()) or owner(b"header", value.strip(), secret)
        if lower == b"authorization":
            scheme, _, rest = value.strip().partition(b" ")
            key = rest.strip() or scheme
        elif lower in _KEY_HEADERS and not key:
            key = value.strip()
    return owner(b"key", key, secret) if key else ANONYMOUS


def _plain(value: bytes) -> str:
    """Return a name that is fit for a label, or nothing."""
    text = value.decode("latin-1")
    fits = len(text) <= 64 and all(c.isascii() and (c.isalnum() or c in "._-") for c in text)
    return text if fits else ""

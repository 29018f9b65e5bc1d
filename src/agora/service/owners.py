"""The owner and the conversation of a request, as hashes that reveal neither."""

import os
import re
import secrets
from collections.abc import Mapping
from hashlib import blake2b

from agora.experiment.assignment import ANONYMOUS, owner
from agora.service.openings import opening

_KEY_HEADERS = ("x-api-key", "api-key", "x-goog-api-key")
_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,64}")


def secret_from(variable: str) -> bytes:
    """Return the secret that hashes are keyed by: an environment variable's, or a drawn one."""
    return os.environ.get(variable, "").encode() or secrets.token_bytes(32)


def owner_of(headers: Mapping[str, str], header: str | None, secret: bytes) -> str:
    """Return the name of the tenant that a request comes from.

    It is the value of `header`, if the operator trusts one and it is a plain name, and otherwise a
    keyed hash of the API key.

    >>> owner_of({"authorization": "Bearer sk-1"}, None, b"secret")
    't-a2de379d1f7a'
    >>> owner_of({"x-team": "search"}, "x-team", b"secret")
    'search'
    """
    if header and (name := headers.get(header.lower(), "").strip()):
        plain = _PLAIN.fullmatch(name)
        return name if plain else owner(b"header", name.encode(), secret)
    scheme, _, key = headers.get("authorization", "").strip().partition(" ")
    key = (
        key.strip()
        or scheme
        or next((headers[name] for name in _KEY_HEADERS if name in headers), "")
    )
    return owner(b"key", key.strip().encode(), secret) if key else ANONYMOUS


def conversation_of(owner: str, body: bytes, field: str) -> str:
    """Return the key that all calls of a conversation share; empty if the body begins none.

    It is a hash of the owner and of the user's first text. The same conversation has the same
    key in every process where the owner has the same name.
    """
    said = opening(body, field)
    if not said:
        return ""
    return blake2b(owner.encode() + b"\0" + said, digest_size=8).hexdigest()

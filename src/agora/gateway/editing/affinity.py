"""What every call of a conversation shares, as a key to choose a replica by.

Agents send no id of their conversation. But each call repeats the system text and the first message
of the user, word for word, and comes with the same key. So the hash of these three names the
conversation, on every machine the same. Nothing can be read from it.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b

import msgspec

from agora.experiment.openings import texts_in
from agora.gateway.body import Unreadable, decode
from agora.gateway.config import Tenants
from agora.gateway.routing.routes import Header
from agora.gateway.routing.tenants import tenant_of

_BILLING = "x-anthropic-billing-header"
"""How the text begins that Claude Code puts first: it has a number drawn for each call."""
_SYSTEM_ROLES = ("system", "developer")
_BYTES = 8


class _Opening(msgspec.Struct):
    """The fields that have a system text or messages, in any format, as yet unread."""

    system: msgspec.Raw = msgspec.Raw(b"null")
    instructions: msgspec.Raw = msgspec.Raw(b"null")
    systemInstruction: msgspec.Raw = msgspec.Raw(b"null")  # noqa: N815 - Gemini's spelling
    system_instruction: msgspec.Raw = msgspec.Raw(b"null")
    messages: list[msgspec.Raw] = []
    contents: list[msgspec.Raw] = []
    input: str | list[msgspec.Raw] = []


_opening = msgspec.json.Decoder(_Opening)


def affinity_key(headers: Iterable[Header], tenants: Tenants, body: bytes) -> str:
    """Return the key of the conversation that a request is a call of; empty if it is none.

    Whose it is comes from its headers, as for tenants. Breakpoints for a cache, which agents move
    along, are no part of it.

    >>> first = b'{"system": "Help.", "messages": [{"role": "user", "content": "Find it."}]}'
    >>> later = first[:-2] + b', {"role": "assistant", "content": "Where?"}], "stream": true}'
    >>> me = [(b"x-api-key", b"sk-1")]
    >>> affinity_key(me, Tenants(), first) == affinity_key(me, Tenants(), later)
    True
    >>> affinity_key([], Tenants(), first) == affinity_key(me, Tenants(), first)
    False
    """
    try:
        opening = _opening.decode(body)
        texts = list(_beginning(opening))
    except (*Unreadable, msgspec.ValidationError):
        return ""
    if not texts:
        return ""
    # Not the process's secret: the key has to be the same on every machine.
    found = blake2b(tenant_of(headers, tenants, b"").encode(), digest_size=_BYTES)
    for text in texts:
        if text.startswith(_BILLING):
            continue
        found.update(b"\0" + text.encode("utf-8", "surrogatepass"))
    return found.hexdigest()


def _beginning(opening: _Opening) -> Iterator[str]:
    """Yield the system text and all up to the first message of the user."""
    for raw in (
        opening.system,
        opening.instructions,
        opening.systemInstruction,
        opening.system_instruction,
    ):
        yield from texts_in(decode(memoryview(raw)))
    if isinstance(opening.input, str):
        yield opening.input
        return
    for raw in opening.messages or opening.contents or opening.input:
        message = decode(memoryview(raw))
        role = message.get("role", "user") if isinstance(message, dict) else "user"
        if role == "user" or role in _SYSTEM_ROLES:
            yield from texts_in(message)
        if role not in _SYSTEM_ROLES:
            return

"""Requests as they were sent, as long as Envoy may try them again.

Another attempt is a new stream. Envoy sends the client's body again, but the headers without a
request id. So a stored request is found by the credential and the body, and no client can get
another one's.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

from agora.service import Call, Edited

_CREDENTIALS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")


@dataclass(frozen=True, slots=True, eq=False)
class Sent:
    """The request of one attempt, or of the next."""

    call: Call
    edited: Edited


class Kept:
    """Stored requests by name, up to a number of bytes; further ones cannot be rescued.

    Equal requests share a name, and each has its own place under it.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._sent: OrderedDict[bytes, list[Sent]] = OrderedDict()

    def put(self, name: bytes, sent: Sent) -> None:
        """Store a request that was sent, or that is to be sent next."""
        self._sent.setdefault(name, []).append(sent)
        self._bytes += _weight(sent)
        while self._bytes > self._most:
            _, gone = self._sent.popitem(last=False)
            self._bytes -= sum(map(_weight, gone))

    def take(self, name: bytes) -> Sent | None:
        """Remove and return the request under a name."""
        sent = self._sent.get(name)
        return self._forget(name, sent[-1]) if sent else None

    def drop(self, name: bytes, sent: Sent) -> bool:
        """Remove a request. Return True if it was still there, and not taken."""
        there = sent in self._sent.get(name, ())
        if there:
            self._forget(name, sent)
        return there

    def _forget(self, name: bytes, sent: Sent) -> Sent:
        others = self._sent[name]
        others.remove(sent)
        if not others:
            del self._sent[name]
        self._bytes -= _weight(sent)
        return sent


def name_of(headers: Mapping[str, str], body: bytes) -> bytes:
    """Return the name of all attempts with this credential and this body."""
    words = "\0".join(headers.get(name, "") for name in _CREDENTIALS)
    digest = blake2b(words.encode(), digest_size=16)
    digest.update(b"\0" + body)
    return digest.digest()


def _weight(sent: Sent) -> int:
    own = 0 if sent.edited.body is sent.call.body else len(sent.edited.body)
    # As objects, messages take about twice their JSON.
    read = 2 if sent.edited.compression is not None else 0
    return 1_000 + (1 + read) * len(sent.call.body) + own

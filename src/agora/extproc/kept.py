"""What was sent for each request, as long as Envoy may try it another time.

Another attempt is a stream of its own, to which Envoy tells the client's body once more, but the
headers as the filters before the provider left them: without a request id. So what was sent is
known by the credential and the body itself, and nobody gets what is not made of their own body.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

from agora.service import Call, Edited

_CREDENTIALS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")


@dataclass(frozen=True, slots=True, eq=False)
class Sent:
    """What was sent in one attempt, or is to be sent in the next."""

    call: Call
    edited: Edited


class Kept:
    """What was sent by name, up to a number of bytes; the rest is not rescued.

    Requests that are the same share a name, and each of them has a place of its own under it.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._sent: OrderedDict[bytes, list[Sent]] = OrderedDict()

    def put(self, name: bytes, sent: Sent) -> None:
        """Keep what was sent, or what is to be sent next."""
        self._sent.setdefault(name, []).append(sent)
        self._bytes += _weight(sent)
        while self._bytes > self._most:
            _, gone = self._sent.popitem(last=False)
            self._bytes -= sum(map(_weight, gone))

    def take(self, name: bytes) -> Sent | None:
        """Return what is kept under a name, and forget it."""
        sent = self._sent.get(name)
        return self._forget(name, sent[-1]) if sent else None

    def drop(self, name: bytes, sent: Sent) -> bool:
        """Forget what was kept, and return whether it was still there; if not, it was taken."""
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

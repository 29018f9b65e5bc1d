"""Which arm a conversation is in: read off a keyed hash, so that nothing has to be remembered.

A conversation's number is drawn by hash, uniformly in [0, 1). The lowest numbers get AGORA, the
highest are compared with them and get everything, and those between wait: they get everything too
and are not counted. Both arms always have the same share, so that a conversation that is counted
had the same chance of either.

Raising the share moves conversations out of the waiting ones only: none ever goes from one arm to
the other. Lowering it sends those beyond it back to wait.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b

ANONYMOUS = "anonymous"
"""Whose conversations are that come without a key."""
_DIGEST_BYTES = 12
_STEPS = 1 << 64


class Arm(StrEnum):
    """What becomes of a conversation."""

    AGORA = "agora"
    EVERYTHING = "everything"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Draw:
    """What decides over arms: the experiment's name and a secret that all replicas share.

    >>> draw = Draw("first", b"secret")
    >>> draw.id_of("t-1", b"fix the tests")
    '92e0b4e533db9bf75b9c9665'
    """

    name: str
    secret: bytes

    def id_of(self, tenant: str, conversation: bytes) -> str:
        """Return what a conversation is called in this experiment: tells nothing of what it says.

        `conversation` is what all its calls have in common and others do not.
        """
        said = b"%d\0%b%b" % (len(tenant.encode()), tenant.encode(), conversation)
        return blake2b(said, key=self._key(), digest_size=_DIGEST_BYTES).hexdigest()

    def _key(self) -> bytes:
        # Another name draws anew: what one experiment found must not decide over the next.
        return blake2b(self.name.encode(), key=blake2b(self.secret).digest()).digest()


def arm_of(conversation_id: str, share: float) -> Arm:
    """Return the arm of a conversation by its id, each arm with a share of all.

    >>> [arm_of(first + "0" * 23, 0.25).value for first in "048c"]
    ['agora', 'waiting', 'waiting', 'everything']
    """
    number = int(conversation_id[:16], 16)
    if number < share * _STEPS:
        return Arm.AGORA
    # Counted from the other end, so that the two arms grow towards each other.
    return Arm.EVERYTHING if _STEPS - 1 - number < share * _STEPS else Arm.WAITING


def owner(kind: bytes, value: bytes, secret: bytes) -> str:
    """Return whose a conversation is, in a name that tells nothing of the key it came with.

    Without `secret` nobody can try out whether a key they know is behind a name.
    """
    # 48 bits tell a million tenants apart, and give nothing to start from without the secret.
    return "t-" + blake2b(kind + b"\0" + value, key=_fitting(secret), digest_size=6).hexdigest()


@lru_cache(maxsize=4)
def _fitting(secret: bytes) -> bytes:
    # A key of BLAKE2 has at most 64 bytes; what is longer is hashed, as HMAC does.
    return secret if len(secret) <= 64 else blake2b(secret).digest()

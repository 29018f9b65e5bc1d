"""Assign conversations to arms by a keyed hash, without stored state.

The hash gives each conversation a number, uniform in [0, 1). The lowest numbers get AGORA. The
highest are the control arm, which is sent whole. Numbers between them wait: those conversations
are sent whole too and are not counted. Both arms have the same share, so a counted conversation
had the same chance of either.

Raising the share only takes conversations from the waiting ones: none changes from one arm to the
other. Lowering it sends the outermost back to wait.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b

ANONYMOUS = "anonymous"
"""The owner of conversations that come without a key."""
_DIGEST_BYTES = 12
_STEPS = 1 << 64


class Arm(StrEnum):
    """How a conversation is treated."""

    AGORA = "agora"
    EVERYTHING = "everything"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Draw:
    """The experiment's name and a secret that all replicas share: they decide the arms.

    >>> draw = Draw("first", b"secret")
    >>> draw.id_of("t-1", b"fix the tests")
    '92e0b4e533db9bf75b9c9665'
    """

    name: str
    secret: bytes

    def id_of(self, tenant: str, conversation: bytes) -> str:
        """Return the conversation's ID in this experiment, which reveals nothing about its content.

        Args:
            tenant: The owner of the conversation.
            conversation: Bytes that all its calls share and other conversations do not have.
        """
        text = b"%d\0%b%b" % (len(tenant.encode()), tenant.encode(), conversation)
        return blake2b(text, key=self._key(), digest_size=_DIGEST_BYTES).hexdigest()

    def _key(self) -> bytes:
        # A new name draws anew, so the result of one experiment does not bias the next.
        return blake2b(self.name.encode(), key=blake2b(self.secret).digest()).digest()


def arm_of(conversation_id: str, share: float) -> Arm:
    """Return the arm of a conversation by its ID. Each arm has this share of all conversations.

    >>> [arm_of(first + "0" * 23, 0.25).value for first in "048c"]
    ['agora', 'waiting', 'waiting', 'everything']
    """
    number = int(conversation_id[:16], 16)
    if number < share * _STEPS:
        return Arm.AGORA
    # Counted from the other end, so that the two arms grow towards each other.
    return Arm.EVERYTHING if _STEPS - 1 - number < share * _STEPS else Arm.WAITING


def owner(kind: bytes, value: bytes, secret: bytes) -> str:
    """Return a pseudonym for the owner of a conversation that does not reveal the API key.

    Only with `secret` can anyone test whether a pseudonym belongs to a key.
    """
    # 48 bits distinguish a million tenants and cannot be searched without the secret.
    return "t-" + blake2b(kind + b"\0" + value, key=_fitting(secret), digest_size=6).hexdigest()


@lru_cache(maxsize=4)
def _fitting(secret: bytes) -> bytes:
    # A key of BLAKE2 has at most 64 bytes; longer ones are hashed, as in HMAC.
    return secret if len(secret) <= 64 else blake2b(secret).digest()

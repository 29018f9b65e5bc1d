"""A body that comes in pieces: held until it is whole, or handed on as it came."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from agora.extproc.messages import (
    BodyMutation,
    BodyResponse,
    CommonResponse,
    ProcessingResponse,
    StreamedBodyResponse,
)

PIECE = 64 << 10
"""What Envoy asks an answer's pieces not to exceed."""


@dataclass(slots=True)
class Room:
    """What all bodies that are held at a time may take together, in bytes."""

    most: int
    used: int = 0


@dataclass(slots=True)
class Held:
    """The pieces of one body: those that wait, and those handed on of which a copy is kept.

    >>> held = Held(Room(most=10))
    >>> held.add(b"some"), held.add(b"thing"), held.whole
    (True, True, b'something')
    >>> held.add(b" else"), held.take()
    (False, [b'some', b'thing', b' else'])
    """

    room: Room
    pieces: list[bytes] = field(default_factory=list)
    size: int = 0
    given: int = 0
    """How many of the pieces were handed on."""

    def add(self, piece: bytes) -> bool:
        """Keep a piece, and return whether there was room for it."""
        self.pieces.append(piece)
        self.size += len(piece)
        self.room.used += len(piece)
        return self.room.used <= self.room.most

    @property
    def whole(self) -> bytes:
        """All of it in one."""
        return b"".join(self.pieces)

    def pass_on(self) -> list[bytes]:
        """Return the pieces that wait, as they came, and keep a copy of them."""
        pieces, self.given = self.pieces[self.given :], len(self.pieces)
        return pieces

    def take(self) -> list[bytes]:
        """Return the pieces that wait, as they came, and hold nothing."""
        pieces, self.pieces = self.pass_on(), []
        self.room.used -= self.size
        self.size = self.given = 0
        return pieces


def cut(body: bytes) -> list[bytes]:
    """Return a body in pieces of a size that Envoy likes; at least one.

    >>> [len(piece) for piece in cut(b"x" * (PIECE + 1))]
    [65536, 1]
    """
    return [body[at : at + PIECE] for at in range(0, len(body), PIECE)] or [b""]


def told(kind: str, pieces: list[bytes], *, ends: bool) -> Iterator[ProcessingResponse]:
    """Yield the answers that hand pieces on; `ends` if nothing follows them, not even trailers."""
    last = len(pieces) - 1
    for number, piece in enumerate(pieces):
        streamed = StreamedBodyResponse(body=piece, end_of_stream=ends and number == last)
        changed = CommonResponse(body_mutation=BodyMutation(streamed_response=streamed))
        yield ProcessingResponse(**{kind: BodyResponse(response=changed)})

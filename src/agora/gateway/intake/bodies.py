"""Bodies that are on their way: how many, how long and how large, so that slow ones harm nobody.

A request takes a slot when its body is here. Until then it is only one of those being read, and
when there are too many of these the oldest one of whoever has most of them gives way. A body that
comes at once is always read, however many others are kept open.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from agora.gateway.config import Limits
from agora.gateway.intake.inflate import EncodingError, inflate
from agora.gateway.intake.refused import RefusedError
from agora.gateway.routing.routes import Header

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
GiveWay = Callable[[], None]
_BODIES = 16
"""So many bodies of the greatest length may be on their way at a time."""
_IN_A_THREAD = 4 << 10
"""A longer body is not decompressed on the loop: it may hold a thousand times as much."""


@dataclass(slots=True)
class Bodies:
    """The bodies on their way in one process."""

    limits: Limits
    size: int = field(default=0, init=False)
    """Bytes of all of them so far."""
    _count: int = field(default=0, init=False)
    _by_address: dict[str, OrderedDict[object, GiveWay]] = field(default_factory=dict, init=False)

    @contextmanager
    def one(self, address: str, give_way: GiveWay) -> Iterator["Body"]:
        """Count a body while it is read; `give_way` is called when it has to make room."""
        if self._count >= self.limits.concurrent:
            crowd = max(self._by_address, key=lambda address: len(self._by_address[address]))
            oldest = next(iter(self._by_address[crowd]))
            leave = self._by_address[crowd][oldest]
            self._forget(crowd, oldest)
            leave()
        body = Body(self)
        self._by_address.setdefault(address, OrderedDict())[body] = give_way
        self._count += 1
        try:
            yield body
        finally:
            self.size -= body.size
            self._forget(address, body)

    def _forget(self, address: str, body: object) -> None:
        bodies = self._by_address.get(address)
        if bodies is not None and bodies.pop(body, None) is not None:
            self._count -= 1
            if not bodies:
                del self._by_address[address]


@dataclass(slots=True, eq=False)
class Body:
    """One body on its way."""

    bodies: Bodies
    size: int = field(default=0, init=False)
    """Bytes of it that are kept."""
    _passed: int = field(default=0, init=False)

    def grow(self, size: int) -> None:
        """Take in so many bytes more.

        Raises:
            RefusedError: the body is too long, or all bodies together are.
        """
        self.size += size
        self.bodies.size += size
        most = self.bodies.limits.body_bytes
        if self.size > most:
            raise too_long(most)
        if self.bodies.size > most * _BODIES:
            raise RefusedError(503, "overloaded", "too many large bodies at once")

    def pass_on(self, size: int) -> None:
        """Take in so many bytes that are not kept.

        Raises:
            RefusedError: the body is too long.
        """
        self._passed += size
        if self._passed > self.bodies.limits.body_bytes:
            raise too_long(self.bodies.limits.body_bytes)


async def read_body(
    headers: list[Header], receive: Receive, bodies: Bodies, address: str
) -> bytes | None:
    """Return the whole body of a request; None when the client left before its end.

    Raises:
        RefusedError: it is too long, or too slow.
    """
    limits = bodies.limits
    check_length(headers, limits.body_bytes)
    pieces: list[bytes] = []
    try:
        async with asyncio.timeout(limits.body_seconds) as timer:

            def give_way() -> None:
                with suppress(RuntimeError):  # it is late by itself
                    timer.reschedule(0)

            with bodies.one(address, give_way) as body:
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    piece = message.get("body", b"")
                    if piece:
                        body.grow(len(piece))
                        pieces.append(piece)
                    if not message.get("more_body", False):
                        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
    except TimeoutError:
        raise too_slow() from None


async def readable(body: bytes, headers: list[Header], most: int) -> bytes:
    """Return what a body says, decompressed if it is not plain.

    Raises:
        RefusedError: it cannot be read.
    """
    encodings = [value for name, value in headers if name == b"content-encoding"]
    if not encodings or not body:
        return body
    encoding = b", ".join(encodings)
    try:
        if len(body) > _IN_A_THREAD:
            return await asyncio.to_thread(inflate, body, encoding, most)
        return inflate(body, encoding, most)
    except EncodingError as error:
        raise RefusedError(error.status, error.reason, error.problem) from None


def check_length(headers: list[Header], most: int) -> None:
    """Refuse a body that says itself that it is too long."""
    for name, value in headers:
        if name == b"content-length" and value.isdigit() and int(value[:20]) > most:
            raise too_long(most)


def too_long(most: int) -> RefusedError:
    """Return the refusal of a body that is too long."""
    return RefusedError(413, "too_long", f"the body has more than {most:,} bytes")


def too_slow() -> RefusedError:
    """Return the refusal of a body that does not come."""
    return RefusedError(408, "slow_body", "the body did not arrive in time")

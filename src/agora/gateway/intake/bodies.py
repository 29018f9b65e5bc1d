"""Bodies that are on their way: how many, how long and how large, so that slow ones harm nobody.

A request takes a slot when its body is here. Until then it is only one of those being read, and
when there are too many of these the oldest one of whoever has most of them gives way. When they
hold too many bytes the oldest gives way, of all or of the tenant that has too many. A body that
comes at once is always read, however many others are kept open.
"""

import asyncio
from collections import Counter
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
_BODIES = 8
"""So many bodies of the greatest length may be on their way at a time."""
_BODIES_OF_A_TENANT = 4
"""The same for one tenant."""
_IN_A_THREAD = 4 << 10
"""A longer body is not decompressed on the loop: it may hold a thousand times as much."""


@dataclass(slots=True)
class Bodies:
    """The bodies on their way in one process."""

    limits: Limits
    size: int = field(default=0, init=False)
    """Bytes of all of them so far."""
    _waiting: dict["Body", GiveWay] = field(default_factory=dict, init=False)
    """The oldest first."""
    _addresses: Counter[str] = field(default_factory=Counter, init=False)
    _sizes: Counter[str] = field(default_factory=Counter, init=False)
    """Bytes of each tenant's."""

    @contextmanager
    def one(self, address: str, tenant: str, give_way: GiveWay) -> Iterator["Body"]:
        """Count a body while it is read; `give_way` is called when it has to make room."""
        if len(self._waiting) >= self.limits.concurrent:
            crowd = max(self._addresses, key=lambda address: self._addresses[address])
            self._send_off(next(body for body in self._waiting if body.address == crowd))
        body = Body(self, address, tenant)
        self._waiting[body] = give_way
        self._addresses[address] += 1
        try:
            yield body
        finally:
            self._forget(body)

    def take_in(self, body: "Body", size: int) -> None:
        """Count so many bytes more, and make room where they are too many."""
        if body not in self._waiting:
            return  # it was sent off, and is about to hear of it
        body.size += size
        self.size += size
        self._sizes[body.tenant] += size
        most = self.limits.body_bytes
        while self._sizes[body.tenant] > most * _BODIES_OF_A_TENANT:
            self._send_off(self._oldest(body, body.tenant))
        while self.size > most * _BODIES:
            self._send_off(self._oldest(body))

    def _oldest(self, but: "Body", tenant: str | None = None) -> "Body":
        # There is one: a body alone is never longer than the room for several.
        return next(
            body
            for body in self._waiting
            if body.size and body is not but and tenant in (None, body.tenant)
        )

    def _send_off(self, body: "Body") -> None:
        give_way = self._waiting[body]
        self._forget(body)
        give_way()

    def _forget(self, body: "Body") -> None:
        if self._waiting.pop(body, None) is None:
            return
        self.size -= body.size
        for counts, name, count in (
            (self._addresses, body.address, 1),
            (self._sizes, body.tenant, body.size),
        ):
            counts[name] -= count
            if not counts[name]:
                del counts[name]


@dataclass(slots=True, eq=False)
class Body:
    """One body on its way."""

    bodies: Bodies
    address: str
    tenant: str
    size: int = field(default=0, init=False)
    """Bytes of it that are kept."""
    _passed: int = field(default=0, init=False)

    def grow(self, size: int) -> None:
        """Take in so many bytes more; others may have to make room for them.

        Raises:
            RefusedError: the body is too long.
        """
        most = self.bodies.limits.body_bytes
        if self.size + size > most:
            raise too_long(most)
        self.bodies.take_in(self, size)

    def pass_on(self, size: int) -> None:
        """Take in so many bytes that are not kept.

        Raises:
            RefusedError: the body is too long.
        """
        self._passed += size
        if self._passed > self.bodies.limits.body_bytes:
            raise too_long(self.bodies.limits.body_bytes)


async def read_body(
    headers: list[Header], receive: Receive, bodies: Bodies, address: str, tenant: str
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

            with bodies.one(address, tenant, give_way) as body:
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
    return RefusedError(
        408, "slow_body", "the body did not arrive in time, or made room for others"
    )

"""The head of a request, bounded in size, in number of headers and in time before it is parsed."""

import asyncio
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from agora.errors import MissingExtraError
from agora.gateway.config import Limits

try:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
except ImportError as error:  # pragma: no cover - the extra is there when tests run
    raise MissingExtraError(__name__, "gateway") from error

try:
    import resource
except ImportError:  # pragma: no cover - where the system has no such limit
    resource = None  # type: ignore[assignment]

_LOOK_SECONDS = 0.5


class _HeadTooLargeError(Exception):
    """Stops the parser where it is."""


def protocol(limits: Limits) -> Callable[..., asyncio.Protocol]:
    """Return what the server makes a connection's protocol with."""
    return partial(HeadProtocol, limits=limits, waiting=Waiting(limits))


def _half_of_the_files() -> int:
    """Return how many connections a process can have and still open one for each to an upstream."""
    soft = -1 if resource is None else resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(16, soft // 2) if soft > 0 else sys.maxsize


class Waiting:
    """Connections that are expected to say something: the head of a request, or of a next one."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._most = min(limits.connections, _half_of_the_files())
        self._heads: dict[HeadProtocol, float] = {}
        """Those whose head is not complete, and since when; the oldest first."""
        self._resting: dict[HeadProtocol, None] = {}
        """Those between two requests, the oldest first."""
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, connection: "HeadProtocol", count: int) -> None:
        """Start the clock for a head; where there are too many connections, end the oldest."""
        loop = connection.loop
        self._resting.pop(connection, None)
        self._heads[connection] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(_LOOK_SECONDS, self._look, loop)
        if count > self._most:
            oldest = next(iter(self._resting), None) or next(iter(self._heads))
            self.forget(oldest)
            oldest.give_up()

    def complete(self, connection: "HeadProtocol") -> None:
        """Stop the clock."""
        self._heads.pop(connection, None)

    def rest(self, connection: "HeadProtocol") -> None:
        """Take in a connection that waits for its next request."""
        self._resting[connection] = None

    def forget(self, connection: "HeadProtocol") -> None:
        """Leave out a connection that has ended."""
        self._heads.pop(connection, None)
        self._resting.pop(connection, None)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        late = loop.time() - self._limits.head_seconds
        while self._heads:
            oldest, since = next(iter(self._heads.items()))
            if since > late:
                break
            del self._heads[oldest]
            oldest.give_up()
        self._timer = loop.call_later(_LOOK_SECONDS, self._look, loop) if self._heads else None


class HeadProtocol(HttpToolsProtocol):
    """The server's protocol with limits, which it has none of.

    The parser joins the pieces of a header as they come, which takes quadratic time: what goes
    into it without anything coming out is counted, and never more than the limit and one read of
    the socket.
    """

    def __init__(self, *args: Any, limits: Limits, waiting: Waiting, **named: Any) -> None:
        super().__init__(*args, **named)
        self._limits = limits
        self._waiting = waiting
        self._heard = False
        self._shared = False
        self._silent = 0
        """Bytes of a head that has not ended, or of anything else that nothing came out of."""
        self._size = 0
        self._number = 0
        self._in_head = False
        self._begun = False
        self._expecting = False
        self._too_large = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock of the first head."""
        super().connection_made(transport)
        self._waiting.begin(self, len(self.connections))

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop it."""
        self._waiting.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came, and refuse a head that does not end."""
        if self._expecting:
            self._expecting = False
            self._waiting.begin(self, len(self.connections))
        self._begun = True
        self._heard = self._shared = False
        super().data_received(data)
        if self._heard and (not self._in_head or self._shared):
            self._silent = 0
            return
        self._silent += len(data)
        if self._silent > self._limits.head_bytes and not self.transport.is_closing():
            self._refuse(b"431 Request Header Fields Too Large", "the head is too large")

    def on_message_begin(self) -> None:
        """Count a head from its beginning."""
        # What came with the end of another message is not counted: nobody knows where it began.
        self._shared = self._heard
        self._heard = True
        self._in_head = True
        self._size = self._number = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Count the target."""
        self._heard = True
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header; those behind a chunked body count as well."""
        self._heard = True
        self._count(len(name) + len(value) + 4)
        self._number += 1
        if self._number > self._limits.headers:
            self._too_large = True
            raise _HeadTooLargeError
        # Behind a body it is a trailer, and nothing that a request is judged by.
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Stop the clock."""
        self._heard = True
        self._in_head = False
        self._waiting.complete(self)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take in a piece of a body."""
        self._heard = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Expect the next head from here on."""
        self._heard = True
        self._expecting = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Let the connection rest."""
        super().on_response_complete()
        if self._expecting and not self.transport.is_closing():
            self._waiting.rest(self)

    def give_up(self) -> None:
        """End a connection whose head does not come, unless an answer is on its way."""
        if self.transport.is_closing() or self._is_answering():
            return
        if self._begun and not self._expecting:
            self._refuse(b"408 Request Timeout", "the head did not come in time")
        else:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Say what is wrong with a head."""
        if self._too_large:
            self._refuse(b"431 Request Header Fields Too Large", "the head is too large")
        else:
            super().send_400_response(msg)

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: the application answers."""

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > self._limits.head_bytes:
            self._too_large = True
            raise _HeadTooLargeError

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, status: bytes, message: str) -> None:
        if self._is_answering():
            # Words of ours would stand in the middle of another answer.
            self.transport.close()
            return
        body = f"agora gateway: {message}\n".encode()
        self.transport.write(
            b"HTTP/1.1 %b\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
            b"connection: close\r\n\r\n%b" % (status, len(body), body)
        )
        self.transport.close()

"""The way on: one request to a configured upstream, its answer as a stream of the same bytes."""

import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from agora.errors import MissingExtraError
from agora.gateway.config import Upstream
from agora.gateway.routing.routes import Header

try:
    import aiohttp
    from multidict import CIMultiDict
    from yarl import URL
except ImportError as error:  # pragma: no cover - the extra is there when tests run
    raise MissingExtraError(__name__, "gateway") from error

_NOTHING_ADDED = frozenset({"Accept", "Accept-Encoding", "User-Agent", "Content-Type"})
_PIECE = 256 << 10
_AGAIN_WITHIN_S = 1.0
"""A connection that had gone stale fails at once; what fails later may have been worked on."""
ERROR_MOST = 64 << 10
"""How much of a refusal is read before it is passed on."""


class UpstreamError(Exception):
    """No answer began. `status` is what the client receives, `kind` what logs and metrics say."""

    def __init__(self, status: int, kind: str) -> None:
        super().__init__(status, kind)
        self.status = status
        self.kind = kind


class TruncatedError(Exception):
    """An answer ended before its end. Raised through the server, so that the client sees it too."""


@dataclass(slots=True)
class Answer:
    """An answer whose headers have come."""

    response: Any
    status: int
    headers: list[Header]
    first_byte_seconds: float

    async def next(self) -> bytes:
        """Return what has come since, as soon as there is something; nothing at the end.

        Raises:
            TruncatedError: it broke off.
        """
        try:
            piece: bytes = await self.response.content.readany()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise TruncatedError(type(error).__name__) from None
        return piece

    async def read(self, most: int) -> tuple[bytes, bool]:
        """Return the body up to so many bytes, and whether that was all of it.

        Raises:
            TruncatedError: it broke off.
        """
        body = b""
        while piece := await self.next():
            body += piece
            if len(body) > most:
                return body, False
        return body, True

    def close(self) -> None:
        """Give the connection back if the answer was read to its end, and end it otherwise."""
        if self.response.content.at_eof():
            self.response.release()
        else:
            self.response.close()


class Client:
    """Connections to the upstreams. No redirect is followed and no cookie kept."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Make ready; needs a running loop."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=60, keepalive_timeout=30),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            max_line_size=64 << 10,
            max_field_size=64 << 10,
        )

    async def close(self) -> None:
        """End all connections."""
        if self._session is not None:
            await self._session.close()

    async def send(
        self,
        upstream: Upstream,
        method: str,
        target: str,
        headers: Iterable[Header],
        body: bytes | AsyncIterator[bytes] | None,
    ) -> Answer:
        """Return the upstream's answer as soon as its headers are there.

        A request whose body is at hand is sent a second time if the connection failed at once and
        nothing had come back.

        Raises:
            UpstreamError: no answer came.
        """
        began = time.monotonic()
        try:
            return await self._once(upstream, method, target, headers, body, began)
        except UpstreamError as error:
            failed_at_once = time.monotonic() - began < _AGAIN_WITHIN_S
            if error.kind != "disconnected" or not failed_at_once or not _is_at_hand(body):
                raise
        return await self._once(upstream, method, target, headers, body, began)

    async def _once(
        self,
        upstream: Upstream,
        method: str,
        target: str,
        headers: Iterable[Header],
        body: bytes | AsyncIterator[bytes] | None,
        began: float,
    ) -> Answer:
        assert self._session is not None, "the client is not started"  # noqa: S101
        named: CIMultiDict[str] = CIMultiDict(
            (_text(name), _text(value)) for name, value in headers
        )
        data: Any = body
        if isinstance(body, bytes) and len(body) > _PIECE * 4:
            # In pieces, so that one large body does not keep the loop busy.
            named["Content-Length"] = str(len(body))
            data = _in_pieces(body)
        timeout = _timeout(upstream)
        try:
            response = await self._session.request(
                method,
                _url(upstream, target),
                data=data,
                headers=named,
                skip_auto_headers=_NOTHING_ADDED,
                allow_redirects=False,
                proxy=upstream.proxy,
                timeout=timeout,
            )
        except aiohttp.ConnectionTimeoutError:
            raise UpstreamError(504, "connect_timeout") from None
        except (TimeoutError, aiohttp.ServerTimeoutError):
            raise UpstreamError(504, "first_byte_timeout") from None
        except aiohttp.ClientConnectorCertificateError:
            raise UpstreamError(502, "certificate") from None
        except aiohttp.ClientConnectorError:
            raise UpstreamError(502, "connect") from None
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionError):
            raise UpstreamError(502, "disconnected") from None
        except (aiohttp.ClientError, ValueError, OSError):
            raise UpstreamError(502, "unreadable_answer") from None
        _may_pause(response, upstream.idle_timeout_s)
        return Answer(
            response, response.status, list(response.raw_headers), time.monotonic() - began
        )


@cache
def _timeout(upstream: Upstream) -> aiohttp.ClientTimeout:
    # Counted from when the whole request is out: neither connecting nor a long upload is in it.
    return aiohttp.ClientTimeout(
        total=None,
        sock_connect=upstream.connect_timeout_s,
        sock_read=upstream.first_byte_timeout_s,
    )


def _may_pause(response: Any, seconds: float) -> None:
    """Set how long the rest of an answer may pause, now that it has begun."""
    connection = response.connection
    if connection is not None and connection.protocol is not None:
        connection.protocol.read_timeout = seconds
        connection.protocol.start_timeout()


@lru_cache(maxsize=512)
def _url(upstream: Upstream, target: str) -> URL:
    return URL(upstream.url(target), encoded=True)


def _is_at_hand(body: object) -> bool:
    return body is None or isinstance(body, bytes)


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


async def _in_pieces(body: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(body), _PIECE):
        yield body[at : at + _PIECE]

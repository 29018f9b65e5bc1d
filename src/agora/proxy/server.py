"""The proxy's path of a request, top to bottom: read, edit, send, stream back, account."""

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from socket import socket as Socket  # noqa: N812 - a class in all but its letter
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

from agora.proxy.upstreams import (
    cause_of,
    family_of,
    numbered,
    proxy_for,
    request_headers,
    response_headers,
    url_for,
)
from agora.service import (
    CONTENT_TYPE,
    REFUSED,
    Account,
    Call,
    Edited,
    Outcome,
    Service,
    Settings,
    UsageStream,
    error_body,
    route_of,
)
from agora.service.inflate import inflate

_log = logging.getLogger(__name__)
HOST = "127.0.0.1"
_LOCAL = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?")
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=15, sock_read=900)
_AUTO_HEADERS = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")
_MAX_REFUSAL = 64 << 10
_CLOSED = (aiohttp.ClientError, OSError, TimeoutError)


class Proxy:
    """Serves one owner's requests. A server of aiohttp calls `handle`."""

    def __init__(
        self, settings: Settings, *, state: Path | None = None, bases: Sequence[str] = ()
    ) -> None:
        """Make a proxy.

        Args:
            settings: The proxy's settings.
            state: The file with its account, which is continued if it exists.
            bases: Base URLs of upstreams that the first part of a path numbers, instead of the
                settings' upstreams by family: `/0/models` is `models` below the first.
        """
        account = Account.load(state) if state else None
        states = state.with_name(f"{state.name}.states") if state else None
        self.service = Service(settings, account=account, states=states)
        self._upstreams = settings.upstreams
        self._bases = bases
        self._max_bytes = settings.limits.body_mb << 20
        self._state = state
        self._client: aiohttp.ClientSession | None = None
        self._warming: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open the client's side and begin to start a worker; requests are taken meanwhile."""
        self._client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=_TIMEOUT,
            auto_decompress=False,
            skip_auto_headers=_AUTO_HEADERS,
        )
        self._warming = asyncio.create_task(self.service.start())

    async def close(self) -> None:
        """Stop the workers and write the account."""
        if self._warming is not None:
            self._warming.cancel()
        await self.service.close()
        if self._client is not None:
            await self._client.close()
        self.save()

    def save(self) -> None:
        """Write the account to the state file, if there is one."""
        if self._state is None:
            return
        try:
            self.service.account.save(self._state)
        except OSError as error:
            _log.warning("the account was not written: %s", error.strerror)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        if not _LOCAL.fullmatch(request.host):
            # A web page may reach this port under another host name.
            return _error(None, 403, "this proxy is for programs on this machine")
        if request.headers.get("expect", "").lower() == "100-continue" and request.transport:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        own = await self._own_path(request)
        if own is not None:
            return own
        route = route_of(request.method, request.path)
        headers = {name.lower(): value for name, value in request.headers.items()}
        family = family_of(route, headers)
        if self._bases:
            url = numbered(self._bases, request.raw_path)
        else:
            url = url_for(self._upstreams, family, request.raw_path)
        if url is None:
            return _error(family, 502, f"this proxy has no {family} upstream for {request.path}")
        if route is None:
            return await self._pass_on(request, url, request.content)
        came, rest = await self._read(request)
        encoding = headers.get("content-encoding", "")
        body = inflate(came, encoding, self._max_bytes) if rest is None else None
        if body is None:
            return await self._pass_on(request, url, came if rest is None else rest)
        call = self.service.receive(route, headers, body)
        return await self._converse(request, url, call, came)

    async def _converse(
        self, request: web.BaseRequest, url: str, call: Call, came: bytes
    ) -> web.StreamResponse:
        """Send a prompt, again if its edit is refused, and return the answer."""
        began = time.monotonic()
        edited = Edited(body=call.body, reason="client_left")
        attempt = _Attempt()
        try:
            edited = await self.service.edit(call)
            attempt.held_seconds = time.monotonic() - began
            answer = await self._send(request, url, edited, came, attempt)
            refusal = b""
            if answer.status in REFUSED:
                refusal = await answer.content.read(_MAX_REFUSAL)
                again = await self.service.rescue(call, edited, answer.status, refusal)
                if again is not None:
                    answer.close()
                    edited, refusal = again, b""
                    answer = await self._send(request, url, edited, came, attempt)
            return await self._give(request, answer, refusal, edited, attempt)
        except asyncio.CancelledError:
            # A client that has read the last event may leave.
            if not attempt.usage.ended:
                attempt.error = "client_left"
            raise
        except _CLOSED as error:
            attempt.error, attempt.detail = "upstream", cause_of(error, url)
            return _error(call.route.family, 502, attempt.detail)
        finally:
            self.service.finish(call, edited, attempt.outcome())
            # After each call, so that a kill before the next one loses nothing.
            self.save()

    async def _send(
        self, request: web.BaseRequest, url: str, edited: Edited, came: bytes, attempt: "_Attempt"
    ) -> aiohttp.ClientResponse:
        """Send a body; the client's own bytes, compressed or not, if nothing was changed."""
        began = time.monotonic()
        headers = request_headers(request.headers.items(), prompt=True, rewritten=edited.changed)
        answer = await self._request(
            request.method, url, edited.body if edited.changed else came, headers
        )
        attempt.status = answer.status
        attempt.first_byte_seconds = time.monotonic() - began
        return answer

    async def _request(
        self, method: str, url: str, body: Any, headers: list[tuple[str, str]]
    ) -> aiohttp.ClientResponse:
        assert self._client is not None  # noqa: S101 - it was started
        return await self._client.request(
            method,
            URL(url, encoded=True),
            data=body or None,
            headers=headers,
            allow_redirects=False,
            proxy=proxy_for(url),
        )

    async def _give(
        self,
        request: web.BaseRequest,
        answer: aiohttp.ClientResponse,
        read: bytes,
        edited: Edited | None,
        attempt: "_Attempt",
    ) -> web.StreamResponse:
        """Send an answer to the client piece by piece; a truncated answer ends the connection."""
        headers = response_headers(answer.headers.items())
        if edited is not None:
            headers += edited.headers.items()
        self.service.account.see_quota(answer.headers)
        if answer.ok:
            attempt.usage = UsageStream(answer.headers.get("content-encoding", ""))
        response = web.StreamResponse(status=answer.status, reason=answer.reason)
        for name, value in headers:
            response.headers.add(name, value)
        try:
            await response.prepare(request)
            if read:
                await response.write(read)
            while piece := await _next(answer):
                attempt.usage.feed(piece)
                await response.write(piece)
            await response.write_eof()
        except _TruncatedError:
            attempt.error = "truncated"
            # The client must not take the part for the whole.
            if request.transport is not None:
                request.transport.abort()
        except ConnectionError:
            if not attempt.usage.ended:
                attempt.error = "client_left"
        finally:
            # Ends an unfinished request; after a whole answer the connection is free already.
            answer.close()
        return response

    async def _pass_on(self, request: web.BaseRequest, url: str, body: Any) -> web.StreamResponse:
        """Forward a request that holds no prompt, or none that can be read."""
        headers = request_headers(request.headers.items(), prompt=False, rewritten=False)
        if body is request.content:
            body = _pieces(request.content) if request.can_read_body else None
        try:
            answer = await self._request(request.method, url, body, headers)
        except _CLOSED as error:
            return _error(None, 502, cause_of(error, url))
        return await self._give(request, answer, b"", None, _Attempt())

    async def _read(self, request: web.BaseRequest) -> tuple[bytes, AsyncIterator[bytes] | None]:
        """Return the body, or a stream of all its pieces if it is too long."""
        pieces: list[bytes] = []
        size = 0
        async for piece in request.content.iter_any():
            pieces.append(piece)
            size += len(piece)
            if size > self._max_bytes:
                return b"", _pieces(request.content, pieces)
        return b"".join(pieces), None

    async def _own_path(self, request: web.BaseRequest) -> web.Response | None:
        """Answer requests to the proxy itself."""
        path, method = request.path, request.method
        if method == "GET" and path == "/livez":
            return web.Response(text="ok\n")
        if method == "GET" and path == "/metrics":
            headers = {"content-type": CONTENT_TYPE}
            return web.Response(body=self.service.metrics(), headers=headers)
        if method == "POST" and path == "/v1/compress":
            came, rest = await self._read(request)
            encoding = request.headers.get("content-encoding", "")
            body = inflate(came, encoding, self._max_bytes) if rest is None else None
            if body is None:
                return _error(None, 413, "the body is too long or its encoding is not known")
            headers = {name.lower(): value for name, value in request.headers.items()}
            status, said = await self.service.compress(headers, body)
            return web.Response(status=status, body=said, content_type="application/json")
        return None


class _Attempt:
    """The facts so far about one call."""

    def __init__(self) -> None:
        self.status = 0
        self.error = self.detail = ""
        self.held_seconds = self.first_byte_seconds = 0.0
        self.usage = UsageStream()

    def outcome(self) -> Outcome:
        return Outcome(
            status=self.status,
            usage=self.usage.usage(),
            answer=self.usage.words(),
            error=self.error,
            detail=self.detail,
            held_seconds=self.held_seconds,
            first_byte_seconds=self.first_byte_seconds,
        )


class _TruncatedError(Exception):
    """An answer ended before its end."""


async def _next(answer: aiohttp.ClientResponse) -> bytes:
    """Return the next piece of an answer, empty at its end."""
    try:
        return await answer.content.readany()
    except _CLOSED as error:
        raise _TruncatedError from error


async def _pieces(
    content: aiohttp.StreamReader, first: "list[bytes] | None" = None
) -> AsyncIterator[bytes]:
    for piece in first or ():
        yield piece
    async for piece in content.iter_any():
        yield piece


def _error(family: Any, status: int, message: str) -> web.Response:
    return web.json_response(error_body(family, status, message), status=status)


async def serve(
    settings: Settings,
    *,
    port: int = 0,
    listening: Socket | None = None,
    state: Path | None = None,
    bases: Sequence[str] = (),
    started: "asyncio.Future[int] | None" = None,
) -> None:
    """Run a proxy until this is cancelled.

    Args:
        settings: The proxy's settings.
        port: The port on loopback; 0 for any free port.
        listening: A socket that listens already, instead of `port`.
        state: The JSON file of its account.
        bases: As for `Proxy`.
        started: Gets the port once connections are taken.
    """
    proxy = Proxy(settings, state=state, bases=bases)
    server = web.Server(
        proxy.handle, handler_cancellation=True, access_log=None, auto_decompress=False
    )
    runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=2.0)
    await runner.setup()
    site: web.BaseSite
    try:
        await proxy.start()
        site = (
            web.TCPSite(runner, HOST, port)
            if listening is None
            else web.SockSite(runner, listening)
        )
        await site.start()
        if started is not None:
            started.set_result(int(runner.addresses[0][1]))
        await asyncio.get_running_loop().create_future()
    finally:
        await runner.cleanup()
        await proxy.close()

"""The gRPC server that Envoy calls, and beside it a port for probes and metrics."""

import gc
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

from aiohttp import web

from agora.errors import AgoraError, MissingExtraError
from agora.extproc.exchange import Exchange, Shared
from agora.extproc.messages import SERVICE, ProcessingRequest, ProcessingResponse
from agora.service import CONTENT_TYPE, Service, Settings

# Silence its warning: every fork here is followed by an exec.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
try:
    import grpc
except ImportError as error:
    raise MissingExtraError(__name__, "extproc") from error

_DRAIN_SECONDS = 20.0
"""How long requests in flight may take after the signal to end."""
_SLACK_BYTES = 1 << 20
"""Room in a message besides the body."""


class CannotListenError(AgoraError):
    """A port is taken."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(address, why)
        self.address = address
        self.why = why

    def __str__(self) -> str:
        return f"cannot listen on {self.address}: {self.why}"


class Filter:
    """The filter of one process, on one event loop.

    async with Filter(settings) as running:
        running.port, running.admin_port
    """

    def __init__(self, settings: Settings) -> None:
        states = Path(settings.states) if settings.states else None
        self.service = Service(settings, states=states)
        self._listen = settings.listen
        most = (settings.limits.body_mb << 20) + _SLACK_BYTES
        self._server: Any = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", most),
                ("grpc.max_send_message_length", most),
                ("grpc.so_reuseport", 0),
            ]
        )
        self._server.add_generic_rpc_handlers((_handler(self.service),))
        self._runner = web.AppRunner(self._pages(), handle_signals=False, access_log=None)
        self._ready = False
        self.port = self.admin_port = 0

    async def __aenter__(self) -> Self:
        """Start a worker, then listen.

        Raises:
            CannotListenError: A port is taken.
        """
        address = f"{self._listen.host}:{self._listen.filter_port}"
        try:
            self.port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise CannotListenError(address, "the port is taken") from error
        await self._runner.setup()
        try:
            site = web.TCPSite(self._runner, self._listen.host, self._listen.admin_port)
            await site.start()
        except OSError as error:
            address = f"{self._listen.host}:{self._listen.admin_port}"
            raise CannotListenError(address, error.strerror or str(error)) from error
        self.admin_port = self._runner.addresses[0][1]
        await self.service.start()
        await self._server.start()
        self._ready = True
        gc.freeze()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Let requests in flight end, then stop."""
        self._ready = False
        await self._server.stop(_DRAIN_SECONDS)
        await self._runner.cleanup()
        await self.service.close()

    def _pages(self) -> web.Application:
        async def livez(_: web.Request) -> web.Response:
            return web.Response(text="ok\n")

        async def readyz(_: web.Request) -> web.Response:
            if not self._ready:
                return web.Response(status=503, text="not ready\n")
            return web.Response(text="ready\n")

        async def metrics(_: web.Request) -> web.Response:
            headers = {"content-type": CONTENT_TYPE}
            return web.Response(body=self.service.metrics(), headers=headers)

        pages = web.Application()
        for path, page in (("/livez", livez), ("/readyz", readyz), ("/metrics", metrics)):
            pages.router.add_get(path, page)
        return pages


def _handler(service: Service) -> Any:
    """Return the handler of Envoy's `Process` calls, one call for each HTTP request."""
    shared = Shared.of(service)

    async def process(requests: AsyncIterator[Any], _: Any) -> AsyncIterator[Any]:
        async for answer in Exchange(shared).answers(requests):
            yield answer

    method = grpc.stream_stream_rpc_method_handler(
        process,
        request_deserializer=ProcessingRequest.FromString,
        response_serializer=ProcessingResponse.SerializeToString,
    )
    return grpc.method_handlers_generic_handler(SERVICE, {"Process": method})

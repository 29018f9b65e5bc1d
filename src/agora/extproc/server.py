"""The gRPC server that Envoy calls, and beside it a port for probes and metrics."""

import asyncio
import contextlib
import gc
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from agora.errors import AgoraError, MissingExtraError
from agora.extproc.decide import Decider
from agora.extproc.messages import SERVICE, ProcessingRequest, ProcessingResponse
from agora.extproc.stream import Stream
from agora.gateway.config import Config
from agora.gateway.watching.metrics import CONTENT_TYPE

try:
    import grpc
except ImportError as error:
    raise MissingExtraError(__name__, "extproc") from error

_WARM_SECONDS = 10.0
_SWITCH_SECONDS = 0.001
_HEAD_MOST = 16 << 10
_HEAD_SECONDS = 10.0
_SLACK_BYTES = 1 << 20
"""What a message may have besides a body."""


class CannotListenError(AgoraError):
    """A port that cannot be listened on."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(address, why)
        self.address = address
        self.why = why

    def __str__(self) -> str:
        return f"cannot listen on {self.address}: {self.why}"


def processor(decider: Decider) -> Any:
    """Return what answers Envoy's `Process` calls, one for each HTTP request."""

    async def process(
        requests: AsyncIterator[ProcessingRequest],
        context: Any,  # noqa: ARG001
    ) -> AsyncIterator[ProcessingResponse]:
        async for answer in Stream(decider).answers(requests):
            yield answer

    handler = grpc.stream_stream_rpc_method_handler(
        process,
        request_deserializer=ProcessingRequest.FromString,
        response_serializer=ProcessingResponse.SerializeToString,
    )
    return grpc.method_handlers_generic_handler(SERVICE, {"Process": handler})


async def serve(
    config: Config,
    *,
    admin_port: int | None = None,
    stop: asyncio.Event | None = None,
    started: Callable[[int, int], None] = lambda _grpc, _admin: None,
) -> None:
    """Serve until `stop` is set, or the process is told to end.

    Args:
        config: as of the gateway; `listen` says where gRPC is taken.
        admin_port: where /livez, /readyz and /metrics are answered; None for nowhere.
        stop: set by a test; SIGTERM and SIGINT do the same.
        started: called with both ports once they are open.

    Raises:
        CannotListenError: a port is taken.
    """
    stop = stop or asyncio.Event()
    decider = Decider.of(config)
    decider.start()
    await asyncio.to_thread(decider.editing.pool.wait_until_warm, _WARM_SECONDS)
    most = config.limits.body_bytes + _SLACK_BYTES
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", most),
            ("grpc.max_send_message_length", most),
            ("grpc.so_reuseport", 1),
        ]
    )
    server.add_generic_rpc_handlers((processor(decider),))
    address = f"{config.listen_host}:{config.listen_port}"
    try:
        port = server.add_insecure_port(address)
    except RuntimeError as error:
        raise CannotListenError(address, "the port is taken") from error
    admin = await _admin(decider, config.listen_host, admin_port, stop)
    await server.start()
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.freeze()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(ValueError, RuntimeError):  # not in the main thread: a test
            loop.add_signal_handler(number, stop.set)
    started(port, admin.sockets[0].getsockname()[1] if admin else 0)
    try:
        await stop.wait()
        # First /readyz says no, so that Envoy sends nothing new; then what is open may end.
        await asyncio.sleep(min(config.limits.settle_seconds, config.limits.drain_seconds))
        await server.stop(config.limits.drain_seconds)
    finally:
        if admin is not None:
            admin.close()
        decider.stop()


async def _admin(
    decider: Decider, host: str, port: int | None, stop: asyncio.Event
) -> asyncio.Server | None:
    """Answer probes and scrapes: GET and nothing else, one request for each connection."""
    if port is None:
        return None

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_SECONDS)
            path = head.split(b" ", 2)[1].partition(b"?")[0].decode("latin-1")
            status, kind, body = _page(decider, path, draining=stop.is_set())
            first = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n"
            length = f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            writer.write((first + length).encode("ascii") + body)
            await writer.drain()
        except (OSError, IndexError, TimeoutError, asyncio.IncompleteReadError, ValueError):
            pass
        finally:
            writer.close()

    try:
        return await asyncio.start_server(answer, host, port, limit=_HEAD_MOST)
    except OSError as error:
        raise CannotListenError(f"{host}:{port}", error.strerror or str(error)) from error


def _page(decider: Decider, path: str, *, draining: bool) -> tuple[str, str, bytes]:
    plain = "text/plain; charset=utf-8"
    if path == "/livez":
        return "200 OK", plain, b"ok\n"
    if path == "/readyz":
        return ("503 Draining", plain, b"draining\n") if draining else ("200 OK", plain, b"ready\n")
    if path == "/metrics":
        breakers = decider.rules.open_ones + decider.editing.open_breakers
        decider.meter.breakers(breakers)
        return "200 OK", CONTENT_TYPE, decider.meter.render()
    return "404 Not Found", plain, b"not here\n"


def run(config: Config, admin_port: int | None, started: Callable[[int, int], None]) -> None:
    """Serve until the process is told to end."""
    main: Awaitable[None] = serve(config, admin_port=admin_port, started=started)
    with contextlib.suppress(ImportError):
        import uvloop

        uvloop.install()
    asyncio.run(main)  # type: ignore[arg-type]

"""A TCP proxy between gateway and upstream that injects faults."""

import asyncio
import itertools
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Fault:
    """Faults in the bytes that come back from the upstream."""

    delay_seconds: float = 0.0
    """Before the first byte."""
    cut_after: int | None = None
    """How many bytes get through, headers included."""
    reset: bool = False
    """End with a reset instead of a clean close, where it is cut."""
    split_at: tuple[int, ...] = ()
    """Places at which the stream is cut into pieces that come apart."""
    every_byte: bool = False
    gap_seconds: float = 0.0
    """Between two pieces."""
    refuse: bool = False
    """Close before anything was read."""
    hang: bool = False
    """Take everything and answer nothing."""
    slow_read_bytes: int = 0
    """Reads the request so many bytes at a time."""


@dataclass
class FaultProxy:
    """Passes connections on to `upstream`, with `fault`."""

    upstream: str
    fault: Fault = field(default_factory=Fault)
    connections: int = 0
    closed_by_client: int = 0
    url: str = ""
    _server: asyncio.Server | None = None

    async def start(self) -> "FaultProxy":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        fault = self.fault
        if fault.refuse:
            writer.transport.abort()
            return
        if fault.hang:
            with suppress(ConnectionError):
                while await reader.read(65_536):
                    pass
            self.closed_by_client += 1
            writer.close()
            return
        where = urlsplit(self.upstream)
        up_reader, up_writer = await asyncio.open_connection(where.hostname, where.port)
        there = asyncio.ensure_future(self._there(reader, up_writer, fault))
        back = asyncio.ensure_future(self._back(up_reader, writer, fault))
        await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
        if there.done() and not back.done():
            self.closed_by_client += 1
        for task in (there, back):
            task.cancel()
        for end in (up_writer, writer):
            with suppress(ConnectionError):
                end.close()

    async def _there(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, fault: Fault
    ) -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(fault.slow_read_bytes or 65_536):
                writer.write(piece)
                await writer.drain()
                if fault.slow_read_bytes:
                    await asyncio.sleep(0.001)

    async def _back(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, fault: Fault
    ) -> None:
        passed = 0
        with suppress(ConnectionError):
            while piece := await reader.read(65_536):
                if not passed and fault.delay_seconds:
                    await asyncio.sleep(fault.delay_seconds)
                for part in _parts(piece, passed, fault):
                    if fault.cut_after is not None and passed + len(part) >= fault.cut_after:
                        writer.write(part[: fault.cut_after - passed])
                        await writer.drain()
                        if fault.reset:
                            # Let the written bytes leave before the reset.
                            await asyncio.sleep(0.002)
                            writer.transport.abort()
                        return
                    writer.write(part)
                    await writer.drain()
                    passed += len(part)
                    if fault.split_at or fault.every_byte:
                        await asyncio.sleep(fault.gap_seconds)


def _parts(piece: bytes, passed: int, fault: Fault) -> list[bytes]:
    if fault.every_byte:
        return [piece[at : at + 1] for at in range(len(piece))]
    cuts = sorted(
        {0, len(piece), *(c - passed for c in fault.split_at if 0 < c - passed < len(piece))}
    )
    return [piece[a:b] for a, b in itertools.pairwise(cuts)]

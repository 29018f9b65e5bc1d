"""Real servers on loopback, in threads of the test: upstreams, and what is between them."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class _Server(uvicorn.Server):
    """A server that stops at once; the default waits a tenth of a second."""

    async def main_loop(self) -> None:
        counter = 0
        while not await self.on_tick(counter):
            counter += 1
            await asyncio.sleep(0.01)


@contextmanager
def serving(app: Any, **settings: Any) -> Iterator[str]:
    """Serve an ASGI application on a free port and give its address."""
    port = free_port()
    options = {
        "loop": "uvloop",
        "http": "httptools",
        "log_config": None,
        "access_log": False,
        "timeout_graceful_shutdown": 1,
        **settings,
        "host": "127.0.0.1",
        "port": port,
    }
    server = _Server(uvicorn.Config(app, **options))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 20
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        assert time.monotonic() < until, "the server did not start in time"
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)


@contextmanager
def in_loop(start: Callable[[], Any]) -> Iterator[Any]:
    """Run an asyncio server in a thread; `start` is a coroutine function that returns it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    finally:

        async def end() -> None:
            for task in asyncio.all_tasks():
                if task is not asyncio.current_task():
                    task.cancel()

        asyncio.run_coroutine_threadsafe(end(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)

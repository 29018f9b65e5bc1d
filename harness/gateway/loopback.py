"""Real servers on loopback, in threads of the test: gateway, upstream, and what is between them."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import uvicorn

from agora.gateway.app import App, make_app, uvicorn_settings
from agora.gateway.config import Compression, Config, Limits, Log, Upstream


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class _Server(uvicorn.Server):
    """A server that hears at once that it should end; a tenth of a second each adds up."""

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


def config_for(base_url: str, *, compression: Compression | None = None, **changes: Any) -> Config:
    """Return a configuration with one upstream for both APIs."""
    upstream = Upstream(
        name="test",
        base_url=base_url,
        formats=("openai", "anthropic"),
        connect_timeout_s=5,
        first_byte_timeout_s=30,
        idle_timeout_s=30,
    )
    config = Config(
        upstreams=(upstream,),
        compression=compression or Compression(min_tokens=200),
        limits=Limits(compress_deadline_ms=5_000, drain_seconds=2),
        log=Log(requests=False),
    )
    return replace(config, **changes)


@contextmanager
def gateway(config: Config, **options: Any) -> Iterator[tuple[str, App]]:
    """Run a gateway and give its address and the application."""
    app = make_app(config, **options)
    settings = uvicorn_settings(config)
    settings["timeout_graceful_shutdown"] = 1
    with serving(app, **settings) as url:
        yield url, app


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

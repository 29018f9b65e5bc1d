"""A proxy in a thread of the test, and a client for it."""

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agora.proxy import serve
from agora.service import settings_from

KEYS = {
    "authorization": "Bearer sk-test",
    "x-api-key": "sk-ant-test",
    "anthropic-version": "2023-06-01",
    "content-type": "application/json",
}


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Running:
    """The address of a proxy."""

    port: int
    state: Path | None = field(default=None)

    def send(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, {**KEYS, **named})
        answer = connection.getresponse()
        try:
            said = answer.read()
        finally:
            connection.close()
        return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, said)

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        return self.send("POST", path, json.dumps(body).encode(), **headers)


@contextmanager
def proxy(upstream: str, *, state: Path | None = None, **tables: Any) -> Iterator[Running]:
    """Run a proxy whose worker is a thread, unless the settings say otherwise."""
    limits = {"workers": 0, "deadline_ms": 20_000, **tables.pop("limits", {})}
    compression = {"min_tokens": 200, "forgetting": 0, **tables.pop("compression", {})}
    upstreams = dict.fromkeys(("openai", "anthropic", "gemini", "bedrock"), upstream)
    settings = settings_from(
        {"limits": limits, "compression": compression, "upstreams": upstreams, **tables}
    )
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> tuple[int, "asyncio.Task[None]"]:
        started: asyncio.Future[int] = loop.create_future()
        task = asyncio.ensure_future(serve(settings, state=state, started=started))
        await asyncio.wait((started, task), return_when=asyncio.FIRST_COMPLETED)
        return (started.result() if started.done() else await task or 0), task  # type: ignore[func-returns-value]

    async def stop(task: "asyncio.Task[None]") -> None:
        task.cancel()
        await asyncio.wait((task,))

    port, task = asyncio.run_coroutine_threadsafe(start(), loop).result(30)
    try:
        yield Running(port, state)
    finally:
        asyncio.run_coroutine_threadsafe(stop(task), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)

"""The processes that the gateway is measured with: an upstream, and a pass-through that is bare.

python -m benchmarks.gateway_processes upstream PORT
python -m benchmarks.gateway_processes cached PORT
python -m benchmarks.gateway_processes bare PORT UPSTREAM_URL
python -m benchmarks.gateway_processes gateway PORT UPSTREAM_URL [MODE]
"""

import asyncio
import sys
from typing import Any

import aiohttp
import uvicorn
from yarl import URL

from harness.gateway.cached_upstream import Cached, lifespan

EVENTS = [
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"gpt-4o","choices":'
    b'[{"index":0,"delta":{"content":"word %d"},"finish_reason":null}]}\n\n' % n
    for n in range(50)
]
LAST = (
    b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":9000,"completion_tokens":50,'
    b'"prompt_tokens_details":{"cached_tokens":8000}}}\n\ndata: [DONE]\n\n'
)


async def upstream(scope: Any, receive: Any, send: Any) -> None:
    """Read a request and stream fifty events back."""
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
        return
    size = 0
    while True:
        message = await receive()
        size += len(message.get("body", b""))
        if not message.get("more_body"):
            break
    headers = [(b"content-type", b"text/event-stream"), (b"x-size", b"%d" % size)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for event in EVENTS:
        await send({"type": "http.response.body", "body": event, "more_body": True})
        await asyncio.sleep(0)
    await send({"type": "http.response.body", "body": LAST})


class Bare:
    """The same stack with nothing on it: the body read, sent on, the answer handed back."""

    def __init__(self, base: str) -> None:
        """Name the upstream."""
        self.base = base
        self.session: aiohttp.ClientSession | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        if scope["type"] == "lifespan":
            self.session = aiohttp.ClientSession(
                auto_decompress=False, connector=aiohttp.TCPConnector(limit=0)
            )
            await lifespan(receive, send)
            await self.session.close()
            return
        assert self.session is not None
        pieces = []
        while True:
            message = await receive()
            pieces.append(message.get("body", b""))
            if not message.get("more_body"):
                break
        headers = {
            name.decode(): value.decode()
            for name, value in scope["headers"]
            if name not in (b"host", b"content-length", b"connection")
        }
        url = URL(self.base + scope["path"], encoded=True)
        async with self.session.post(
            url, data=b"".join(pieces), headers=headers, allow_redirects=False
        ) as answer:
            back = [(n.lower(), v) for n, v in answer.raw_headers]
            back = [(n, v) for n, v in back if n != b"transfer-encoding"]
            await send({"type": "http.response.start", "status": answer.status, "headers": back})
            async for piece in answer.content.iter_any():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


def gateway(base: str, mode: str) -> tuple[Any, dict[str, Any]]:
    """Return the gateway as `agora serve` runs it, and its server settings."""
    import os

    from agora.gateway.app import make_app, uvicorn_settings
    from agora.gateway.config import Compression, Config, Limits, Log, Upstream
    from agora.gateway.heap import give_back_large_blocks
    from agora.gateway.watching.logs import configure

    patient = mode in ("patient", "least")
    config = Config(
        upstreams=(Upstream(name="up", base_url=base, formats=("openai", "anthropic")),),
        compression=Compression(
            enabled=mode != "off",
            schedule="every_call" if mode == "every_call" else "by_price",
            scorer="recency" if mode == "least" else "default",
            lines=mode != "least",
        ),
        limits=Limits(
            compress_deadline_ms=60_000 if patient else Limits().compress_deadline_ms,
            restore_deadline_ms=60_000 if patient else Limits().restore_deadline_ms,
            concurrent=5_000,
            drain_seconds=10,
        ),
        log=Log(requests=mode != "silent"),
    )
    give_back_large_blocks()
    configure(config.log, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for good
    return make_app(config), uvicorn_settings(config)


def main() -> None:
    """Run one of them until it is ended."""
    kind, port, *rest = sys.argv[1:]
    settings: dict[str, Any] = {"loop": "uvloop", "http": "httptools", "access_log": False}
    settings["timeout_keep_alive"] = 75
    app: Any = upstream
    if kind == "cached":
        app = Cached()
    elif kind == "bare":
        app = Bare(rest[0])
    elif kind == "gateway":
        app, settings = gateway(rest[0], rest[1] if len(rest) > 1 else "")
    settings |= {"host": "127.0.0.1", "port": int(port), "log_level": "error"}
    uvicorn.run(app, **settings)


if __name__ == "__main__":
    main()

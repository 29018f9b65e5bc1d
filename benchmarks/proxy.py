"""CPU time of a call through `agora proxy`, as a ratio to a bare proxy in the same run.

python -m benchmarks.proxy [--tokens 50000] [--rounds 5]

The bare proxy is uvicorn and aiohttp's client with nothing between them. All processes of a server
are counted, workers too. `passed` is a prompt forwarded unchanged. `known` is the next call of a
conversation with an edit in force; about one in twenty makes a new edit, which the mean shows and
the median does not. `new` is a conversation never seen before.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import uvicorn

from harness.gateway.cached_upstream import lifespan
from harness.gateway.histories import chat
from harness.gateway.loopback import free_port
from harness.gateway.results import Figures, put

PATH = "/v1/chat/completions"
BYTES_PER_TOKEN = 4.2
CALLS = 20
SETTINGS = "[limits]\ndeadline_ms = 60000\nworkers = 2\n"
EVENT = (
    b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"delta":{"content":"w"}}]}\n\n'
)
LAST = (
    b'data: {"choices":[],"usage":{"prompt_tokens":9000,"completion_tokens":50,'
    b'"prompt_tokens_details":{"cached_tokens":8000}}}\n\ndata: [DONE]\n\n'
)


async def upstream(scope: Any, receive: Any, send: Any) -> None:
    """Read a request and stream fifty events back."""
    if scope["type"] == "lifespan":
        await lifespan(receive, send)
        return
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for _ in range(50):
        await send({"type": "http.response.body", "body": EVENT, "more_body": True})
        await asyncio.sleep(0)
    await send({"type": "http.response.body", "body": LAST})


class Bare:
    """Reads a body, forwards it, returns the answer."""

    def __init__(self, base: str) -> None:
        """Name the upstream."""
        self.base = base
        self.client: aiohttp.ClientSession | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        if scope["type"] == "lifespan":
            connector = aiohttp.TCPConnector(limit=0)
            self.client = aiohttp.ClientSession(auto_decompress=False, connector=connector)
            await lifespan(receive, send)
            await self.client.close()
            return
        assert self.client is not None
        pieces, more = [], True
        while more:
            message = await receive()
            pieces.append(message.get("body", b""))
            more = bool(message.get("more_body"))
        own = (b"host", b"content-length", b"connection")
        headers = {n.decode(): v.decode() for n, v in scope["headers"] if n not in own}
        url = self.base + scope["path"]
        async with self.client.post(url, data=b"".join(pieces), headers=headers) as answer:
            back = [(n.lower(), v) for n, v in answer.raw_headers]
            back = [(n, v) for n, v in back if n != b"transfer-encoding"]
            await send({"type": "http.response.start", "status": answer.status, "headers": back})
            async for piece in answer.content.iter_any():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


@contextmanager
def process(*command: str, port: int) -> Iterator[tuple[str, int]]:
    """Run a server and give its address and its id."""
    started = subprocess.Popen([sys.executable, "-m", *command], stderr=subprocess.DEVNULL)
    try:
        asyncio.run(_ready(port))
        yield f"http://127.0.0.1:{port}", started.pid
    finally:
        started.terminate()
        started.wait(15)


async def _ready(port: int) -> None:
    for _ in range(1_200):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return
    raise TimeoutError(f"nothing listens on {port}")


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and of all its descendants."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for thread in Path(f"/proc/{pid}/task").iterdir():
        children += [] if thread.name == str(pid) else (thread / "children").read_text().split()
    # The clock that clock_getcpuclockid(3) names.
    own = time.clock_gettime(~pid << 3 | 2)
    return own + sum(cpu_seconds(int(child)) for child in set(children))


def conversation(tokens: int, calls: int, seed: int) -> list[bytes]:
    """Return calls of one conversation, one step apart, of about `tokens` tokens."""
    size = 2_000
    per_step = len(json.dumps(chat(11, size))) - len(json.dumps(chat(10, size)))
    first = max(1, int(tokens * BYTES_PER_TOKEN / per_step) - calls // 2)
    whole = {**chat(first + calls, size, seed=seed), "model": "gpt-5", "stream": True}
    messages = whole.pop("messages")
    return [
        json.dumps({**whole, "messages": messages[: 2 + 2 * n]}).encode()
        for n in range(first, first + calls)
    ]


async def play(
    url: str, pid: int, calls: list[bytes], warm: int, **headers: str
) -> list[tuple[float, float]]:
    """Send calls; return CPU and wall time in ms of each after the first `warm`."""
    found: list[tuple[float, float]] = []
    key = {"authorization": "Bearer sk-bench", "content-type": "application/json"}
    async with aiohttp.ClientSession() as client:
        before = cpu_seconds(pid)
        for body in calls:
            began = time.perf_counter()
            async with client.post(url + PATH, data=body, headers={**key, **headers}) as answer:
                await answer.read()
                assert answer.status == 200, answer.status
            wall = 1e3 * (time.perf_counter() - began)
            # Work after the answer belongs to the call.
            await asyncio.sleep(0.02)
            now = cpu_seconds(pid)
            found.append((1e3 * (now - before), wall))
            before = now
    return found[warm:]


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tokens", type=int, default=50_000)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--out", help="the file that the figures go into, too")
    asked = options.parse_args()
    ports = [free_port() for _ in range(3)]
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder, "proxy.toml")
        settings.write_text(SETTINGS)
        here = "benchmarks.proxy"
        up = f"http://127.0.0.1:{ports[0]}"
        ours = ("agora.cli", "proxy", str(settings), "--port", str(ports[2]))
        with (
            process(here, "upstream", str(ports[0]), port=ports[0]),
            process(here, "bare", str(ports[1]), up, port=ports[1]) as (bare, bare_pid),
            process(*ours, "--upstream", f"openai={up}", port=ports[2]) as (proxy, pid),
        ):
            # Workers start with the first prompts.
            asyncio.run(play(proxy, pid, conversation(asked.tokens, 3, 10_000), 2))
            cases: dict[str, list[tuple[float, float]]] = {}
            for turn in range(asked.rounds):
                calls = conversation(asked.tokens, CALLS + 1, turn)
                new = [conversation(asked.tokens, 1, 1_000 + 5 * turn + n)[0] for n in range(5)]
                bypass = {"x-agora-bypass": "1"}
                for name, one in (
                    ("bare", play(bare, bare_pid, calls, 1)),
                    ("passed", play(proxy, pid, calls, 1, **bypass)),
                    ("known", play(proxy, pid, calls, 1)),
                    ("new", play(proxy, pid, new, 0)),
                ):
                    cases.setdefault(name, []).extend(asyncio.run(one))
    floor = [cpu for cpu, _ in cases["bare"]]
    print(f"{asked.tokens:,} tokens, {len(calls[0]) >> 10} KiB, {asked.rounds} rounds")
    figures: Figures = {"tokens": asked.tokens, "rounds": asked.rounds}
    for name, found in cases.items():
        cpu, walls = [one for one, _ in found], sorted(wall for _, wall in found)
        half, mean = statistics.median(cpu), statistics.mean(cpu)
        figures[name] = {
            "cpu_ms": round(half, 3),
            "times": round(half / statistics.median(floor), 2),
        }
        print(
            f"{name:7} CPU p50 {half:7.2f} ms, {half / statistics.median(floor):6.2f} x bare; mean "
            f"{mean:7.2f} ms, {mean / statistics.mean(floor):6.2f} x bare; wall p50 "
            f"{statistics.median(walls):.0f} ms, p99 {walls[int(len(walls) * 0.99)]:.0f} ms"
        )
    if asked.out:
        put(asked.out, "proxy", figures)


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] in ("upstream", "bare"):
        app: Any = upstream if sys.argv[1] == "upstream" else Bare(sys.argv[3])
        level: dict[str, Any] = {"log_level": "error", "access_log": False, "loop": "uvloop"}
        uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), **level)
    else:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        main()

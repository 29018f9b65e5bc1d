"""Made-up requests against a real gateway: where keys arrive, and whether it still answers.

Paths, hosts, encodings, header sizes and keys are drawn at random, from a seed. Before the gateway
stand strict upstreams of four families, which note whose key each request carried. Among the rest
are honest requests, all of which have to arrive: a gateway that refuses everything would pass else.
While all this goes on a process of its own asks for `/livez`, in turns with a bare server that
nobody attacks: what that one takes is what the machine takes. Everything is on loopback.
"""

import asyncio
import gzip
import json
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

from harness.gateway.histories import chat, messages
from harness.gateway.loopback import free_port
from harness.gateway.strict_upstream import Received, StrictUpstream

FAMILIES = ("openai", "anthropic", "gemini", "azure")
SEEN = "/seen-by-this-upstream"
_OWNER = re.compile(rb"own-([a-z]+)-")
_SLOW_SOCKETS = 300
AT_ONCE = 16
_PATIENCE_S = 20.0

HEADERS = {
    "openai": ("Authorization: Bearer sk-proj-own-openai-%d",),
    "anthropic": (
        "x-api-key: sk-ant-api03-own-anthropic-%d",
        "Authorization: Bearer sk-ant-oat01-own-anthropic-%d",
        "Authorization: sk-ant-api03-own-anthropic-%d",
    ),
    "gemini": ("x-goog-api-key: AIzaown-gemini-%d", "Authorization: Bearer ya29.own-gemini-%d"),
    "azure": ("api-key: own-azure-%d",),
}
"""How each family's keys are sent."""
MISPLACED = (
    "x-api-key: sk-proj-own-openai-%d",
    "api-key: sk-proj-own-openai-%d",
    "api-key: sk-ant-api03-own-anthropic-%d",
    "x-goog-api-key: sk-ant-api03-own-anthropic-%d",
    "Authorization: Bearer AIzaown-gemini-%d",
    "x-api-key: AIzaown-gemini-%d",
)
"""Keys of one provider in another's header, where their beginnings tell whose they are."""
PRIVATE = (
    "Cookie: sid=own-nobody-1",
    "X-Forwarded-For: own-nobody-2",
    "Forwarded: for=own-nobody-3",
    "Via: 1.1 own-nobody-4",
    "X-Tenant: own-nobody-5",
    "X-Agora-Token: own-nobody-6",
    "Proxy-Authorization: Basic own-nobody-7",
    "X-Real-IP: own-nobody-8",
    "Baggage: user=own-nobody-9",
)
"""What no provider should see."""
PATHS = (
    "/v1/chat/completions /chat/completions /v1/chat/completions/ /v1//chat/completions "
    "/v1/responses /responses /v1/messages /messages /v1/messages/count_tokens "
    "/v1/messages/batches /v1/models /v1/models/gpt-4o /v1/files /v1/files/f-1/content "
    "/v1/embeddings /v1/completions /v1/organizations /v1/nonsense /models /files "
    "/v1beta/models /v1beta/models/gemini-2.5-pro:generateContent "
    "/v1/models/gemini-pro:countTokens "
    "/v1beta/openai/chat/completions /v1internal:generateContent "
    "/openai/deployments/d/chat/completions /openai/deployments/d/embeddings /openai/v1/responses "
    "/openai/responses /model/claude/invoke /model/claude/converse-stream / /admin /metrics/x "
    "/v1 /v1/ //evil.test/v1/models /v1/../admin /v1/%2e%2e/models /v1%2Fmessages /v1/models%00 "
    "/%76%31/messages /V1/MESSAGES /v1/messages;a=b /@evil.test/ /v1/chat/completions/../messages "
    "http://evil.test/v1/messages /v1/agora/score"
).split()
HONEST: dict[str, tuple[str, Callable[[int], Any]]] = {
    "openai": ("/v1/chat/completions", chat),
    "anthropic": ("/v1/messages", messages),
    "azure": ("/openai/deployments/gpt-4o/chat/completions?api-version=1", chat),
    "gemini": ("/v1beta/models/gemini-2.5-pro:generateContent", lambda _: {"contents": []}),
}


@dataclass
class Upstream(StrictUpstream):
    """A provider of one family: takes its own keys only, and notes all that came."""

    family: str = ""
    seen: Counter[str] = field(default_factory=Counter)

    async def _answer(self, request: Received, send: Any) -> None:
        kind = [(b"content-type", b"application/json")]
        if request.path == SEEN:
            await self._say(request, send, 200, kind, json.dumps(self.seen).encode())
            return
        self.received.clear()
        said = b"\n".join([request.query, *(b": ".join(pair) for pair in request.headers)])
        whose = {owner.decode() for owner in _OWNER.findall(said)}
        self.seen.update(whose or {"without a key"})
        if whose - {self.family}:
            print(f"  at {self.family}: {request.method} {request.path} {whose}", file=sys.stderr)
        if whose != {self.family}:
            await self._say(request, send, 401, kind, b'{"error": {"message": "no such key"}}')
        elif self.family in ("gemini", "azure"):
            await self._say(request, send, 200, kind, b"{}")
        else:
            if request.header("content-encoding") == "gzip":
                with suppress(OSError, EOFError, zlib.error):  # then it is no JSON either
                    request.body = gzip.decompress(request.body)
            try:
                await super()._answer(request, send)
            except RecursionError:
                await self._say(request, send, 400, kind, b'{"error": {"message": "too deep"}}')


async def _bare(scope: Any, _receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})


def serve(family: str, port: int) -> None:
    """Run an upstream, or the bare server, until it is ended."""
    app: Any = _bare if family == "bare" else Upstream(family=family)
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=port,
        log_level="critical",
        access_log=False,
        lifespan="off",
        # As providers do: a connection must not end as an upload sets out on it.
        timeout_keep_alive=75,
    )


def probe(url: str, bare: str) -> None:
    """Ask both in turns until the input ends, then print how long each answer took."""
    import http.client
    import threading

    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    took: dict[str, list[float]] = {"gateway": [], "bare": []}
    print("ready", flush=True)
    while not took["bare"] or not ended.wait(0.02):
        for name, base in (("gateway", url), ("bare", bare)):
            began = time.perf_counter()
            # A connection of its own each time: the listener has to take it as well.
            connection = http.client.HTTPConnection(base.removeprefix("http://"), timeout=30)
            connection.request("GET", "/livez")
            status = connection.getresponse().status
            connection.close()
            took[name].append(time.perf_counter() - began if status == 200 else 30.0)
    print(json.dumps(took))


class Made:
    """Requests as bytes, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        """Start over."""
        self.random = random.Random(seed)
        self.number = 0
        self._bomb = gzip.compress(bytes(40 << 20))

    def honest(self) -> tuple[str, bytes]:
        """Return a request that has to arrive, and at whose upstream."""
        family = self.random.choice(FAMILIES)
        path, body = HONEST[family]
        data = json.dumps(body(2)).encode()
        lines = [self._key(HEADERS[family][0]), "Content-Type: application/json"]
        if self.random.random() < 0.5:
            data = gzip.compress(data)
            lines.append("Content-Encoding: gzip")
        return family, self._whole("POST", path, "localhost", lines, data)

    def hostile(self) -> bytes:
        """Return a request that nobody should send."""
        chance, choice = self.random.random, self.random.choice
        lines = [self._key(choice(HEADERS[choice(FAMILIES)])) for _ in range(choice((0, 1, 1, 2)))]
        if chance() < 0.2:
            lines.append(self._key(choice(MISPLACED)))
        lines += self.random.sample(PRIVATE, choice((0, 1, 3)))
        if chance() < 0.2:
            lines.append("anthropic-version: 2023-06-01")
        if chance() < 0.05:
            lines += ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
        if chance() < 0.1:
            lines.append("Connection: authorization, x-api-key")
        if chance() < 0.1:
            lines.append("X-Big: " + "a" * choice((1_000, 30_000, 70_000, 300_000)))
        if chance() < 0.05:
            lines += [f"X-N{n}: 1" for n in range(choice((50, 200, 3_000)))]
        path = choice(PATHS)
        if chance() < 0.15:
            path += choice(
                ("?key=AIzaown-gemini-1", "?%6bey=AIzaown-gemini-1", "?api-key=own-azure-1")
            )
        elif chance() < 0.05:
            path += "/" + "x" * choice((100, 5_000, 80_000))
        host = choice(("localhost",) * 36 + ("evil.test", "169.254.169.254", "localhost@evil", ""))
        method = choice(
            ("POST", "POST", "POST", "GET", "PUT", "DELETE", "OPTIONS", "HEAD", "TRACE")
        )
        data, encoding = self._body()
        if encoding:
            lines.append(f"Content-Encoding: {encoding}")
        self.random.shuffle(lines)
        return self._whole(method, path, host, lines, data)

    def _body(self) -> tuple[bytes, str]:
        choice = self.random.choice
        plain = choice(
            (
                lambda: json.dumps(chat(2)).encode(),
                lambda: json.dumps(messages(2)).encode(),
                lambda: json.dumps({"model": choice(("gpt-5", "x", "")), "input": "hi"}).encode(),
                lambda: b"[" * 5_000,
                lambda: self.random.randbytes(choice((0, 10, 3_000))),
            )
        )()
        kind = self.random.random()
        if kind < 0.6:
            return plain, ""
        if kind < 0.7:
            return gzip.compress(plain), "gzip"
        if kind < 0.75:
            return zlib.compress(plain), "deflate"
        if kind < 0.77:
            return self._bomb, "gzip"
        if kind < 0.85:
            return gzip.compress(plain)[:-5], "gzip"
        return plain, choice(("gzip", "br", "zstd", "gzip, br", "deflate", "rot13", "identity"))

    def _key(self, line: str) -> str:
        self.number += 1
        return line % self.number

    def _whole(self, method: str, path: str, host: str, lines: list[str], data: bytes) -> bytes:
        chunked = self.random.random() < 0.1
        length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(data)}"
        head = [f"{method} {path} HTTP/1.1", f"Host: {host}", *lines, length]
        if not any(line.startswith("Connection:") for line in lines):
            head.append("Connection: close")
        if chunked:
            data = b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data) if data else b"0\r\n\r\n"
        return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + data


async def ask(host: str, port: int, request: bytes) -> int:
    """Return the status of the answer; 0 where the connection ended without one."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(request)
        line = await asyncio.wait_for(reader.readline(), _PATIENCE_S)
        if line.startswith(b"HTTP/1.1 "):
            await asyncio.wait_for(reader.read(1 << 20), _PATIENCE_S)
            return int(line[9:12])
    except (ConnectionError, TimeoutError) as error:
        return -1 if isinstance(error, TimeoutError) else 0
    finally:
        writer.close()
    return 0


async def endless(host: str, port: int) -> int:
    """Send a head that does not end until the connection does; return how many bytes went."""
    _, writer = await asyncio.open_connection(host, port)
    sent = 0
    try:
        writer.write(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Big: ")
        for _ in range(64):
            writer.write(bytes(1 << 20).replace(b"\0", b"a"))
            await asyncio.wait_for(writer.drain(), _PATIENCE_S)
            sent += 1 << 20
    except (ConnectionError, TimeoutError):
        pass
    finally:
        writer.close()
    return sent


def processor_seconds(pid: int) -> tuple[float, float]:
    """Return how long the threads of a process have run, and how long they waited to run."""
    ran = waited = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            fields = (task / "schedstat").read_text(encoding="ascii").split()
            ran, waited = ran + int(fields[0]), waited + int(fields[1])
    return ran / 1e9, waited / 1e9


async def attack(
    url: str, count: int, seconds: float, seed: int, at_once: int = AT_ONCE
) -> dict[str, Any]:
    """Send all requests, a few at a time, and return what became of them."""
    host, port_text = url.removeprefix("http://").split(":")
    port, made = int(port_text), Made(seed)
    statuses: Counter[int] = Counter()
    honest: Counter[int] = Counter()
    most_sent = 0
    until = time.monotonic() + seconds
    left = iter(range(count))
    slow = []
    for _ in range(min(_SLOW_SOCKETS, count)):
        _, writer = await asyncio.open_connection(host, port)
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{"
        )
        slow.append(writer)

    async def send() -> None:
        nonlocal most_sent
        for number in left:
            if time.monotonic() > until:
                return
            if number % 400 == 0:
                most_sent = max(most_sent, await endless(host, port))
            if number % 20 == 0:
                honest[await ask(host, port, made.honest()[1])] += 1
            else:
                statuses[await ask(host, port, made.hostile())] += 1

    await asyncio.gather(*(send() for _ in range(at_once)))
    for writer in slow:
        writer.close()
    return {
        "requests": sum(statuses.values()) + sum(honest.values()),
        "statuses": {str(status): n for status, n in sorted(statuses.items())},
        "honest": {str(status): n for status, n in sorted(honest.items())},
        "server_errors": sum(n for s, n in (statuses + honest).items() if s >= 500),
        "unanswered": statuses[-1] + honest[-1],
        "bytes_of_an_endless_head": most_sent,
    }


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    """Run a process until the block ends."""
    started = subprocess.Popen(
        [sys.executable, "-m", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if "serve" not in command or "upstream" in command else subprocess.DEVNULL,
        text=True,
    )
    try:
        yield started
    finally:
        started.terminate()
        started.wait(30)


def _ready(url: str) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310
                return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def measure(
    count: int, seconds: float = 600.0, seed: int = 17, at_once: int = AT_ONCE
) -> dict[str, Any]:
    """Return the figures of one run."""
    own = "harness.gateway.hostile"
    ports = {family: free_port() for family in (*FAMILIES, "bare", "gateway")}
    urls = {family: f"http://127.0.0.1:{port}" for family, port in ports.items()}
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        for family in (*FAMILIES, "bare"):
            stack.enter_context(running(own, "upstream", family, str(ports[family])))
        config = Path(folder) / "gateway.toml"
        config.write_text(
            "".join(
                f'[[upstreams]]\nname = "{family}"\nbase_url = "{urls[family]}"\n'
                f'formats = ["{family}"]\n'
                for family in FAMILIES
            )
            + '[log]\nrequests = false\n[tenants]\nheader = "x-tenant"\n[limits]\n'
            "head_seconds = 5\nbody_seconds = 5\ndrain_seconds = 2\nsettle_seconds = 0\n",
            encoding="utf-8",
        )
        door = stack.enter_context(
            running("agora.cli", "serve", str(config), "--port", str(ports["gateway"]))
        )
        for family, url in urls.items():
            _ready(f"{url}/livez" if family in ("gateway", "bare") else url + SEEN)
        prober = stack.enter_context(running(own, "probe", urls["gateway"], urls["bare"]))
        assert prober.stdout is not None
        prober.stdout.readline()
        before = processor_seconds(door.pid)
        figures = asyncio.run(attack(urls["gateway"], count, seconds, seed, at_once))
        after = processor_seconds(door.pid)
        figures["gateway_ran_s"] = round(after[0] - before[0], 2)
        figures["gateway_waited_for_a_processor_s"] = round(after[1] - before[1], 2)
        said, _ = prober.communicate(timeout=60)
        seen = {}
        for family in FAMILIES:
            with urllib.request.urlopen(urls[family] + SEEN, timeout=10) as answer:  # noqa: S310
                seen[family] = json.load(answer)
    figures["arrived"] = seen
    figures["keys_at_an_upstream_that_is_not_theirs"] = sum(
        n
        for family, owners in seen.items()
        for owner, n in owners.items()
        if owner not in (family, "without a key")
    )
    for name, times in json.loads(said).items():
        times.sort()
        figures[f"livez_{name}"] = {
            "probes": len(times),
            **{
                f"p{share}_ms": round(
                    times[min(len(times) - 1, len(times) * share // 100)] * 1e3, 1
                )
                for share in (50, 99)
            },
            "max_ms": round(times[-1] * 1e3, 1),
        }
    return figures


def main() -> None:
    """Run one of the processes that a measurement starts: an upstream, or who asks for `/livez`."""
    kind, *rest = sys.argv[1:]
    if kind == "upstream":
        serve(rest[0], int(rest[1]))
    else:
        probe(rest[0], rest[1])


if __name__ == "__main__":
    main()

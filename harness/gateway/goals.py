"""The gateway's goals as functions of a size: tests run them small, the benchmark in full."""

import asyncio
import hashlib
import json
import random
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from agora.core.trajectory import Anchor, Step
from agora.errors import BundleError
from agora.gateway.config import Compression, Limits, Tenants, load_config
from agora.gateway.editing.breakers import Breaker, Breakers
from agora.scorers.features import FeaturesScorer
from harness.gateway.histories import chat, messages, responses
from harness.gateway.loopback import config_for, gateway, in_loop, serving
from harness.gateway.odd_bodies import odd_bodies
from harness.gateway.strict_upstream import StrictUpstream, events

PATHS = {
    "openai": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
}
BODIES = {"openai": chat, "responses": responses, "anthropic": messages}
JSON_HEADERS = {"content-type": "application/json", "authorization": "Bearer a-made-up-key"}


@dataclass
class Raw:
    """A server that answers with set bytes, cut where the request asks for it."""

    answer: Callable[[bytes], bytes]
    url: str = ""
    requests: int = 0

    async def start(self) -> "Raw":
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(_after(head, b"content-length:") or 0)
                if length:
                    await reader.readexactly(length)
                self.requests += 1
                raw = self.answer(head)
                split = _after(head, b"x-stainless-split:")
                cut = _after(head, b"x-stainless-cut:")
                if cut:
                    writer.write(raw[: int(cut)])
                    await writer.drain()
                    if _after(head, b"x-reset:"):
                        await asyncio.sleep(0.001)
                        linger = struct.pack("ii", 1, 0)
                        writer.get_extra_info("socket").setsockopt(
                            socket.SOL_SOCKET, socket.SO_LINGER, linger
                        )
                        writer.transport.abort()
                    break
                if split:
                    writer.write(raw[: int(split)])
                    await writer.drain()
                    await asyncio.sleep(0.0002)
                    writer.write(raw[int(split) :])
                else:
                    writer.write(raw)
                await writer.drain()
        with suppress(ConnectionError):
            writer.close()


def _after(head: bytes, name: bytes) -> bytes:
    at = head.find(b"\r\n" + name)
    return head[at + len(name) + 2 : head.index(b"\r\n", at + 2)].strip() if at >= 0 else b""


def raw_stream(format: str) -> bytes:
    """Return a streamed answer as it goes over the wire, in chunks of one event."""
    parts = b"".join(b"%x\r\n%b\r\n" % (len(e), e) for e in events(format, {"model": "m"}))
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    return head + parts + b"0\r\n\r\n"


def raw_body(format: str) -> bytes:
    """Return an answer with a length as it goes over the wire."""
    body = b"".join(events(format, {"model": "m"}))
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(body) + body


@dataclass
class GoalOutcome:
    """A figure, what it was measured on, and what went wrong."""

    good: int = 0
    total: int = 0
    notes: dict[str, Any] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        notes = ", ".join(f"{name} {value}" for name, value in self.notes.items())
        wrong = f"; WRONG: {self.wrong[:3]}" if self.wrong else ""
        return f"{self.good:,}/{self.total:,} {notes}{wrong}"

    def add(self, good: bool, wrong: str = "") -> None:
        self.total += 1
        self.good += good
        if not good:
            self.wrong.append(wrong)


async def _many(count: int, at_once: int, one: Callable[[int], Awaitable[None]]) -> None:
    numbers = iter(range(count))

    async def work() -> None:
        for n in numbers:
            await one(n)

    await asyncio.gather(*(work() for _ in range(at_once)))


def fidelity(count: int) -> GoalOutcome:
    """G6: the upstream gets the client's own bytes, below the threshold and on bypass."""
    upstream = StrictUpstream()
    outcome = GoalOutcome()

    async def run(url: str) -> None:
        async with aiohttp.ClientSession(timeout=_PATIENT) as client:
            bodies = list(odd_bodies(count, seed=6))

            async def one(n: int) -> None:
                format, body = bodies[n]
                mark = f"n-{n}"
                headers = {**JSON_HEADERS, "x-stainless-mark": mark}
                if n % 2:
                    headers["x-agora-bypass"] = "1"
                async with client.post(url + PATHS[format], data=body, headers=headers) as answer:
                    await answer.read()

            await _many(count, 16, one)
            by_mark = {r.header("x-stainless-mark"): r for r in upstream.received}
            for n, (_, body) in enumerate(bodies):
                got = by_mark[f"n-{n}"]
                outcome.add(got.sha256 == hashlib.sha256(body).hexdigest(), f"body {n}")

    with (
        serving(upstream) as upstream_url,
        gateway(config_for(upstream_url, compression=Compression(min_tokens=100_000))) as (
            url,
            _,
        ),
    ):
        asyncio.run(run(url))
    return outcome


def streams(count: int) -> GoalOutcome:
    """G14: the bytes of streams split at every place are the same, and come without delay."""
    raw = {format: raw_stream(format) for format in PATHS}
    by_path = {path.encode(): format for format, path in PATHS.items()}
    outcome = GoalOutcome()

    def answer(head: bytes) -> bytes:
        return raw[by_path[head.split(b" ", 2)[1]]]

    places = [(format, at) for format, text in raw.items() for at in range(1, len(text))]
    random.Random(0).shuffle(places)
    expected = {format: b"".join(events(format, {"model": "m"})) for format in PATHS}

    async def run(url: str) -> None:
        async with aiohttp.ClientSession(timeout=_PATIENT) as client:

            async def one(n: int) -> None:
                format, at = places[n % len(places)]
                headers = {**JSON_HEADERS, "x-stainless-split": str(at)}
                async with client.post(url + PATHS[format], data=b"{}", headers=headers) as got:
                    body = await got.read()
                outcome.add(
                    body == expected[format] and got.headers["content-type"] == "text/event-stream",
                    f"{format} at {at}",
                )

            await _many(count, 8, one)

    with (
        in_loop(lambda: Raw(answer).start()) as upstream,
        gateway(config_for(upstream.url)) as (url, _),
    ):
        asyncio.run(run(url))
    outcome.notes["places"] = len(places)
    return outcome


def truncations(count: int) -> GoalOutcome:
    """G15: an answer that breaks off anywhere never looks whole."""
    raw = {
        (format, kind): make(format)
        for format in PATHS
        for kind, make in (("chunks", raw_stream), ("length", raw_body))
    }
    by_path = {path.encode(): format for format, path in PATHS.items()}
    outcome = GoalOutcome()
    chance = random.Random(1)

    def answer(head: bytes) -> bytes:
        format = by_path[head.split(b" ", 2)[1]]
        return raw[format, _after(head, b"x-stainless-kind:").decode()]

    async def run(url: str) -> None:
        async with aiohttp.ClientSession(timeout=_PATIENT) as client:

            async def one(n: int) -> None:
                format, kind = list(raw)[n % len(raw)]
                cut = chance.randrange(1, len(raw[format, kind]))
                headers = {**JSON_HEADERS, "x-stainless-cut": str(cut), "x-stainless-kind": kind}
                if n % 2:
                    headers["x-reset"] = "1"
                try:
                    async with client.post(url + PATHS[format], data=b"{}", headers=headers) as got:
                        body = await got.read()
                        loud = got.status >= 500 and b"error" in body
                except aiohttp.ClientError:
                    loud = True
                outcome.add(loud, f"{format} {kind} cut at {cut}")

            await _many(count, 8, one)

    with (
        in_loop(lambda: Raw(answer).start()) as upstream,
        gateway(config_for(upstream.url)) as (url, _),
    ):
        asyncio.run(run(url))
    return outcome


_PATIENT = aiohttp.ClientTimeout(total=60)
WINDOWS = ("connect", "wait-headers", "wait-first-token", "mid-stream")


def disconnects() -> GoalOutcome:
    """G16: the upstream hears within a second that the client is gone, whenever it goes."""
    outcome = GoalOutcome()
    for format in PATHS:
        for stream in (True, False):
            for window in WINDOWS:
                seconds = asyncio.run(_disconnect(format, window, stream=stream))
                outcome.add(
                    seconds is not None and seconds <= 1.0, f"{format} {window} {stream}: {seconds}"
                )
                slowest = max(outcome.notes.get("slowest_s", 0.0), seconds or 0.0)
                outcome.notes["slowest_s"] = round(slowest, 3)
    return outcome


async def _disconnect(format: str, window: str, *, stream: bool) -> float | None:
    """Return how long after the client left the upstream's connection ended."""
    left: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    reached = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(_after(head.lower(), b"content-length:") or 0))
            raw = raw_stream(format) if stream else raw_body(format)
            end = raw.index(b"\r\n\r\n") + 4
            if window == "wait-first-token":
                writer.write(raw[:end])
            elif window == "mid-stream":
                writer.write(raw[: end + 300])
            await writer.drain()
            reached.set()
            await reader.read(1)
        if not left.done():
            left.set_result(time.monotonic())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    if window == "connect":
        # A backlog that is full: the gateway's connection is neither taken nor refused.
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            with suppress(BlockingIOError):
                filler.connect(listener.getsockname())
        port = listener.getsockname()[1]
    config = config_for(f"http://127.0.0.1:{port}")
    body = json.dumps({**BODIES[format](2), "stream": stream}).encode()

    opened = gateway(config)
    url, app = await asyncio.to_thread(opened.__enter__)
    try:
        host, gateway_port = url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(gateway_port))
        writer.write(
            b"POST %b HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n" % (PATHS[format].encode(), len(body)) + body
        )
        await writer.drain()
        if window == "connect":
            await _until(lambda: app.open_requests == 1)
            await asyncio.sleep(0.1)
        else:
            await asyncio.wait_for(reached.wait(), 10)
            await asyncio.sleep(0.05)
        began = time.monotonic()
        writer.transport.abort()
        if window == "connect":
            await _until(lambda: app.open_requests == 0)
            return time.monotonic() - began
        return await asyncio.wait_for(left, 5) - began
    except TimeoutError:
        return None
    finally:
        await asyncio.to_thread(opened.__exit__, None, None, None)
        server.close()


async def _until(true: Callable[[], bool], seconds: float = 5.0) -> None:
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise TimeoutError
        await asyncio.sleep(0.002)


def rescue(count: int) -> GoalOutcome:
    """G22: what is refused for its history is sent again unedited, and not much more often."""
    upstream = StrictUpstream(
        refuse_edited_by="Invalid parameter: messages with role 'tool' must be a response to a "
        "preceeding message with 'tool_calls'."
    )
    outcome = GoalOutcome()
    chance = random.Random(2)

    async def run(url: str) -> None:
        async with aiohttp.ClientSession(timeout=_PATIENT) as client:

            async def one(n: int) -> None:
                format = chance.choice(list(PATHS))
                asked = BODIES[format](40, 800)
                kind = n % 10
                if kind == 0 and n % 20 == 0:
                    asked["model"] = f"model-{n}"  # a breaker of its own: this one is rescued
                body = json.dumps(asked).encode()
                if kind == 1:
                    body = body[:-1]
                async with client.post(
                    url + PATHS[format], data=body, headers=JSON_HEADERS
                ) as answer:
                    said = await answer.read()
                wanted = 400 if kind == 1 else 200
                outcome.add(answer.status == wanted, f"{answer.status} {said[:80]!r}")

            await _many(count, 8, one)

    with (
        serving(upstream) as upstream_url,
        gateway(config_for(upstream_url, compression=Compression(min_tokens=100))) as (url, app),
    ):
        asyncio.run(run(url))
        metrics = app.forwarder.meter.snapshot()
    outcome.notes["resent"] = int(metrics.total("agora_resent_total"))
    outcome.notes["amplification"] = round(len(upstream.received) / count, 4)
    return outcome


def overload() -> GoalOutcome:
    """G17: above the cap 503 at once; a scorer that cannot keep up leaves requests untouched."""
    outcome = GoalOutcome()
    upstream = StrictUpstream()

    async def run(url: str) -> None:
        async with aiohttp.ClientSession(timeout=_PATIENT) as client:

            async def one(n: int) -> tuple[int, str | None, float]:
                began = time.monotonic()
                async with client.post(
                    url + PATHS["openai"], json=chat(1), headers={"x-n": str(n)}
                ) as answer:
                    await answer.read()
                    return (
                        answer.status,
                        answer.headers.get("retry-after"),
                        time.monotonic() - began,
                    )

            await one(0)
            upstream.held = True
            busy = [asyncio.ensure_future(one(n)) for n in range(4)]
            await _until(lambda: app.open_requests == 4)
            seconds = []
            for n in range(20):
                status, retry, took = await one(n)
                seconds.append(took)
                outcome.add(status == 503 and retry is not None, f"{status} {retry}")
            outcome.notes["median_503_ms"] = round(sorted(seconds)[10] * 1e3, 2)
            outcome.notes["slowest_503_ms"] = round(max(seconds) * 1e3, 2)
            upstream.held = False
            for status, _, _ in await asyncio.gather(*busy):
                outcome.add(status == 200, str(status))

    limits = Limits(concurrent=4, concurrent_per_address=4, compress_deadline_ms=5_000)
    with (
        serving(upstream) as upstream_url,
        gateway(config_for(upstream_url, limits=limits, tenants=Tenants(concurrent=4))) as (
            url,
            app,
        ),
    ):
        asyncio.run(run(url))
    return outcome


class Panic(BaseException):
    """What native code raises."""


@dataclass
class Faulty:
    """A scorer with whatever is wrong with it at the moment."""

    fault: str = ""
    release: threading.Event = field(default_factory=threading.Event)
    good: FeaturesScorer = field(default_factory=FeaturesScorer)

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
        raised: dict[str, BaseException] = {
            "missing model": BundleError("model", "is not there"),
            "corrupt model": BundleError("model", "has another hash"),
            "error": RuntimeError("onnx"),
            "out of memory": MemoryError(),
            "disk full": OSError(28, "No space left on device"),
            "tokenizer panic": Panic(),
            "worker killed": SystemExit(),
        }
        if self.fault in raised:
            raise raised[self.fault]
        if self.fault == "not a number":
            return [float("nan")] * len(steps)
        if self.fault == "wrong count":
            return [0.5]
        if self.fault == "hang":
            self.release.wait(30)
        return self.good.score(anchor, steps)


FAULTS: dict[str, set[tuple[int, str]]] = {
    "missing model": {(1, "compressed")},
    "corrupt model": {(1, "compressed")},
    "error": {(1, "compressed")},
    "out of memory": {(1, "compressed")},
    "disk full": {(1, "compressed")},
    "tokenizer panic": {(1, "compressed")},
    "not a number": {(1, "compressed")},
    "wrong count": {(1, "compressed")},
    "worker killed": {(2, "failed")},
    "hang": {(2, "deadline"), (2, "saturated"), (2, "breaker_open")},
    "clock jump": {(0, "compressed")},
    "unknown block": {(0, "compressed"), (1, "compressed")},
    "broken configuration file": {(0, "compressed")},
}


def faults() -> GoalOutcome:
    """G21: whatever goes wrong inside, the client gets the provider's answer, and it passes."""
    outcome = GoalOutcome()
    upstream = StrictUpstream()
    scorer = Faulty()
    jump = [0.0]
    number = iter(range(10_000))
    slowest = 0.0

    async def one(client: aiohttp.ClientSession, url: str, fault: str) -> tuple[int, str, int]:
        asked = messages(40, 800)
        # Another conversation each time: what is remembered would need no scorer.
        asked["messages"][0]["content"] += f" {next(number)}"
        if fault == "unknown block":
            odd = {"type": "hologram", "data": "…"}
            asked["messages"][6]["content"].append(odd)
        before = app.forwarder.meter.snapshot()
        async with client.post(url + PATHS["anthropic"], json=asked, headers=JSON_HEADERS) as got:
            await got.read()
        await asyncio.sleep(0.01)
        added = app.forwarder.meter.snapshot().since(before)
        ((rung, reason),) = [
            (int(rung), reason)
            for rung in "012"
            for reason, n in added.by("agora_requests_total", "reason", rung=rung).items()
            if n
        ]
        return rung, reason, got.status

    async def run(url: str) -> None:
        nonlocal slowest
        async with aiohttp.ClientSession(timeout=_PATIENT) as client:
            for fault, expected in FAULTS.items():
                scorer.fault = fault
                scorer.release.clear()
                jump[0] += 10.0**6 if fault == "clock jump" else 0.0
                if fault == "broken configuration file":
                    Path(file).write_text("[[upstreams", encoding="utf-8")
                for _ in range(3):
                    rung, reason, status = await one(client, url, fault)
                    outcome.add(
                        status == 200 and (rung, reason) in expected,
                        f"{fault}: {status}, rung {rung}, {reason}",
                    )
                scorer.fault = ""
                scorer.release.set()
                began = time.monotonic()
                while (await one(client, url, ""))[0] != 0:
                    if time.monotonic() - began > 60:
                        outcome.add(False, f"{fault}: no recovery in 60 s")
                        break
                    await asyncio.sleep(0.1)
                slowest = max(slowest, time.monotonic() - began)

    with tempfile.TemporaryDirectory() as folder, serving(upstream) as upstream_url:
        file = f"{folder}/gateway.toml"
        Path(file).write_text(
            f'[[upstreams]]\nbase_url = "{upstream_url}"\nformats = ["anthropic"]\n'
            "[compression]\nmin_tokens = 200\n[log]\nrequests = false\n"
            "[limits]\ncompress_deadline_ms = 1000\n",
            encoding="utf-8",
        )
        options = {"scorer": scorer, "clock": lambda: time.monotonic() + jump[0]}
        with gateway(load_config(Path(file)), **options) as (url, app):
            app.forwarder.pool.failing = Breakers(lambda: Breaker(cool_seconds=2))
            app.forwarder.pool.stuck_seconds = 1.5
            asyncio.run(run(url))
    outcome.notes["faults"] = len(FAULTS)
    outcome.notes["slowest recovery_s"] = round(slowest, 1)
    return outcome


def ask(url: str, format: str = "openai", steps: int = 30, **more: Any) -> tuple[int, bytes]:
    """Send one request and return the status and the body of its answer."""

    async def run() -> tuple[int, bytes]:
        async with aiohttp.ClientSession(timeout=_PATIENT) as client:
            body = {**BODIES[format](steps, 400), **more}
            async with client.post(url + PATHS[format], json=body, headers=JSON_HEADERS) as answer:
                return answer.status, await answer.read()

    return asyncio.run(run())

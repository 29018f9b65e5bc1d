"""Many large sessions through one gateway process: what each saves, against the same one alone.

    python -m benchmarks.gateway_sessions                       1, 2, 4 ... 64 sessions at a time
    python -m benchmarks.gateway_sessions 8 16 --pace 0.5       only these, half a second a call
    python -m benchmarks.gateway_sessions --busy 2              both cores kept busy by other work
    python -m benchmarks.gateway_sessions 100 --pace 10 --files 20 --wrap   as agora wrap runs it
    python -m benchmarks.gateway_sessions --out docs/results/gateway-sessions.json

A session is a made-up agent that reads 45 files of 8 to 14 KB one after another, each session its
own files; every second one moves its cache breakpoints along its last two messages, as coding
agents do. The upstream keeps a prefix cache for each key and bills by it. The same sessions are
billed unedited, and as an editor without a deadline edits them: a session that did well comes
within two points of that. A prefix break is a call for which the upstream finds less cached than
it was sent at the call before; those of the editor alone are wanted, others are not.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import re
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import aiohttp

from agora.core.prices import PriceSheet, sheet_for
from agora.gateway.editing.editor import Editor
from agora.gateway.editing.job import Job
from agora.gateway.editing.settings import EditorSettings
from agora.gateway.routing.routes import MESSAGES
from agora.scorers.load import load_scorer
from agora.wrapping.gateway import Gateway
from agora.wrapping.plan import Plan, Upstream
from agora.wrapping.settings import tables_for
from benchmarks.gateway import cpu_seconds, process
from harness.gateway.cached_upstream import MARK, PrefixCache
from harness.gateway.histories import messages, observation
from harness.gateway.results import Figures, kept, put

MODEL = "claude-sonnet-4-6"
FILES = 45
CALLS_MOST_SECONDS = 900.0
"""The longest that one count of sessions may take."""
After = Callable[[int, int], Awaitable[None]]
"""What is done after a call: how many are over, and its status."""
_MISSED = ("deadline", "saturated", "breaker_open", "pending", "failed")


@dataclass
class Session:
    """One agent's calls, made from one list of messages."""

    number: int
    moving: bool = False
    head: bytes = b""
    turns: list[bytes] = field(default_factory=list)

    @classmethod
    def made(cls, number: int, files: int = FILES) -> "Session":
        """Return the session of that number: always the same one."""
        chance = random.Random(number)
        body = messages(0)
        first = {"role": "user", "content": f"Session {number}: find where fn_77 is defined."}
        body["model"] = MODEL
        del body["messages"]
        head = json.dumps(body)[:-1].encode() + b', "messages": ['
        turns = [json.dumps(first).encode()]
        for n in range(1, files + 1):
            use = {"type": "tool_use", "id": f"toolu_{number}_{n}", "name": "read"}
            use["input"] = {"path": f"src/s{number}/module_{n}.py"}  # type: ignore[assignment]
            said = [{"type": "text", "text": f"I read file {n}."}, use]
            seen = observation(number * 1_000 + n, chance.randint(8_000, 14_000))
            result = {"type": "tool_result", "tool_use_id": use["id"], "content": seen}
            turns.append(json.dumps({"role": "assistant", "content": said}).encode())
            turns.append(json.dumps({"role": "user", "content": [result]}).encode())
        return cls(number, number % 2 == 1, head, turns)

    def bodies(self) -> Iterator[bytes]:
        """Yield the body of each call, one file further each time."""
        for n in range(1, len(self.turns) // 2 + 1):
            turns = self.turns[: 1 + 2 * n]
            if self.moving:
                for at in {len(turns) - 1, max(2, len(turns) - 3)}:
                    turns[at] = turns[at][: -len(b"}]}")] + MARK + b"}]}"
            yield self.head + b", ".join(turns) + b"]}"


@dataclass
class Bill:
    """What calls cost at an upstream with a prefix cache."""

    sheet: PriceSheet
    cache: PrefixCache = field(default_factory=PrefixCache)
    dollars: float = 0.0
    breaks: int = 0

    def add(self, body: bytes) -> None:
        """Bill one call more."""
        call = self.cache.call(body)
        self.breaks += call.breaks
        cost = call.read * self.sheet.read + call.written * self.sheet.write
        self.dollars += cost * self.sheet.input / 1e6


@dataclass
class Alone:
    """A session as received, and as edited by an editor without a deadline."""

    came: float
    edited: float
    """Both in dollars."""
    breaks: int

    @property
    def saved(self) -> float:
        """The share of the bill."""
        return 1 - self.edited / self.came


def alone(session: Session) -> Alone:
    """Return the bills of a session without a gateway."""
    sheet = sheet_for(MODEL)
    editor = Editor(EditorSettings(scorer=load_scorer("default"), min_tokens=4_096))
    came, less = Bill(sheet), Bill(sheet)
    for body in session.bodies():
        came.add(body)
        job = Job(body=body, route=MESSAGES, sheet_of=lambda _: sheet)
        edited = editor.look(job).edited or editor(job)
        less.add(edited.body)
    return Alone(came.dollars, less.dollars, less.breaks)


def all_alone(sessions: list[Session], file: str | None) -> list[Alone]:
    """Return the bills of sessions without a gateway, those that a file has from there."""
    path = Path(file) if file else None
    known = json.loads(path.read_text(encoding="utf-8")) if path and path.is_file() else []
    known += [asdict(alone(session)) for session in sessions[len(known) :]]
    if path:
        path.write_text(json.dumps(known), encoding="utf-8")
    return [Alone(**bill) for bill in known[: len(sessions)]]


async def refuse_failures(_calls: int, status: int) -> None:
    """Stop at the first call that is not answered with 200."""
    assert status == 200, status


async def play(
    url: str, sessions: list[Session], pace: float, after: After = refuse_failures
) -> tuple[int, list[float]]:
    """Send all calls of all sessions, each in its own time; return how many, and how long each.

    `after` hears of each call: how many are over, and the status of this one.
    """
    took: list[float] = []
    timeout = aiohttp.ClientTimeout(total=60)

    async def one(client: aiohttp.ClientSession, session: Session) -> None:
        chance = random.Random(session.number)
        await asyncio.sleep(chance.random() * pace)
        headers = {"x-api-key": f"sk-{session.number}", "content-type": "application/json"}
        for body in session.bodies():
            began = time.monotonic()
            async with client.post(url + "/v1/messages", data=body, headers=headers) as answer:
                await answer.read()
            took.append(time.monotonic() - began)
            await after(len(took), answer.status)
            await asyncio.sleep(chance.uniform(0.5, 1.5) * pace)

    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=timeout
    ) as client:
        work = asyncio.gather(*(one(client, session) for session in sessions))
        await asyncio.wait_for(work, CALLS_MOST_SECONDS)
    return len(took), sorted(took)


async def _get(url: str) -> bytes:
    async with aiohttp.ClientSession() as client, client.get(url) as answer:
        return await answer.read()


def rss_mb(pid: int) -> tuple[float, float]:
    """Return the memory of a process, now and at its most."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    now, most = (re.search(rf"{name}:\s+(\d+) kB", text) for name in ("VmRSS", "VmHWM"))
    assert now is not None
    assert most is not None
    return int(now[1]) / 1024, int(most[1]) / 1024


@contextmanager
def wrapped(upstream: str) -> Iterator[tuple[str, int]]:
    """Run the gateway as `agora wrap` runs it."""
    plan = Plan(upstreams=(Upstream("anthropic", upstream, chosen=True),))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables = tables_for({}, plan, {})
        with Gateway(tables, folder, os.environ, folder / "log") as gateway:
            gateway.start()
            assert gateway.pid is not None
            yield gateway.url, gateway.pid


def measure(
    sessions: list[Session], bills: list[Alone], pace: float, *, as_wrap: bool = False
) -> Figures:
    """Return the figures of so many sessions at a time, through processes of their own."""
    direct: list[float] = []
    if as_wrap:
        # The same calls without a gateway, on the same machine: what is added is the difference.
        with process("cached") as (up, _):
            _, direct = asyncio.run(play(up, sessions, pace))
    with process("cached") as (up, _), _door(up, as_wrap=as_wrap) as (door, pid):
        asyncio.run(_get(door + "/livez"))
        at_start = rss_mb(pid)[0]
        before = cpu_seconds(pid)
        calls, took = asyncio.run(play(door, sessions, pace))
        cpu = cpu_seconds(pid) - before
        said = asyncio.run(_get(door + "/metrics")).decode()
        reported = json.loads(asyncio.run(_get(up + "/bills")))
        now, most = rss_mb(pid)
    sheet = sheet_for(MODEL)
    dollars, breaks, shares = 0.0, [], []
    for session, bill in zip(sessions, bills, strict=True):
        account = reported[f"sk-{session.number}"]
        cost = (account["read"] * sheet.read + account["written"] * sheet.write) * sheet.input / 1e6
        dollars += cost
        breaks.append(account["breaks"])
        shares.append(1 - cost / bill.came)
    wanted = [bill.breaks for bill in bills]
    came = sum(bill.came for bill in bills)
    claimed = _sum(said, "agora_dollars_gained_total") - _sum(said, "agora_dollars_lost_total")
    short = [100 * (bill.saved - share) for bill, share in zip(bills, shares, strict=True)]
    return {
        "sessions": len(sessions),
        "pace_s": pace,
        "load_average": round(os.getloadavg()[0], 1),
        "calls": calls,
        "cpu_ms_per_call": round(1e3 * cpu / calls, 2),
        "rss_mb": {"start": round(at_start), "end": round(now), "most": round(most)},
        "latency_ms": {"p50": _at(took, 0.5), "p99": _at(took, 0.99)},
        **_added(took, direct),
        "missed": sum(_sum(said, "agora_requests_total", reason=word) for word in _MISSED),
        "continued": _sum(said, "agora_requests_total", reason="continued"),
        "not_admitted": _sum(said, "agora_requests_total", reason="not_admitted"),
        "breaks": {
            "wanted": sum(wanted),
            "seen": sum(breaks),
            "unwanted": sum(max(0, b - w) for b, w in zip(breaks, wanted, strict=True)),
        },
        "saved": {"mean": _points(shares), "least": round(100 * min(shares), 1)},
        "alone": {"mean": _points([bill.saved for bill in bills])},
        "points_short": {"mean": round(statistics.mean(short), 2), "most": round(max(short), 2)},
        "dollars": {
            "direct": round(came, 4),
            "billed": round(dollars, 4),
            "saved": round(came - dollars, 4),
            "claimed": round(claimed, 4),
            "claimed_share": round(claimed / (came - dollars), 4) if came != dollars else None,
        },
    }


def _door(upstream: str, *, as_wrap: bool) -> AbstractContextManager[tuple[str, int]]:
    return wrapped(upstream) if as_wrap else process("gateway", upstream)


def _added(took: list[float], direct: list[float]) -> Figures:
    """Return how much longer calls took than those without a gateway."""
    if not direct:
        return {}
    shares = {"p50": 0.5, "p99": 0.99}
    return {
        "direct_ms": {name: _at(direct, share) for name, share in shares.items()},
        "added_ms": {
            name: round(_at(took, share) - _at(direct, share), 1) for name, share in shares.items()
        },
    }


def _points(shares: list[float]) -> float:
    return round(100 * statistics.mean(shares), 1)


def _at(values: list[float], share: float) -> float:
    return round(1e3 * values[int((len(values) - 1) * share)], 1)


def _sum(metrics: str, name: str, **labels: str) -> float:
    """Return the sum of a metric over all labels but these."""
    total = 0.0
    for line in metrics.splitlines():
        reported = [f'{key}="{value}"' in line for key, value in labels.items()]
        if line.startswith(name) and line[len(name)] in "{ " and all(reported):
            total += float(line.rsplit(" ", 1)[1])
    return total


@contextmanager
def busy(cores: int) -> Iterator[None]:
    """Keep so many cores busy with other work."""
    workers = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(cores)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        for worker in workers:
            worker.terminate()
            worker.join(10)


def _spin() -> None:
    until = time.monotonic() + 3_600
    while time.monotonic() < until:
        sum(range(100_000))


ROW = "{:>8} {:>6} {:>8} {:>6} {:>7} {:>9} {:>16} {:>13} {:>6} {:>10} {:>8}"


def table(rows: list[Figures]) -> str:
    """Return the figures as text."""
    head = ["sessions", "calls", "CPU ms", "RSS MB", "missed", "continued"]
    head += ["breaks want/seen", "saved mean/min", "alone", "most short", "claimed"]
    lines = [ROW.format(*head)]
    for row in rows:
        breaks, saved, share = row["breaks"], row["saved"], row["dollars"]["claimed_share"]
        lines.append(
            ROW.format(
                row["sessions"],
                row["calls"],
                row["cpu_ms_per_call"],
                row["rss_mb"]["most"],
                f"{row['missed']:.0f}",
                f"{row['continued']:.0f}",
                f"{breaks['wanted']}/{breaks['seen']} (+{breaks['unwanted']})",
                f"{saved['mean']}/{saved['least']}",
                row["alone"]["mean"],
                row["points_short"]["most"],
                "-" if share is None else f"{100 * share:.1f} %",
            )
        )
    return "\n".join(lines)


def main() -> None:
    """Measure each count of sessions and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("counts", nargs="*", type=int, default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--pace", type=float, default=1.0, help="seconds between calls of one")
    parser.add_argument("--busy", type=int, default=0, help="cores kept busy by other work")
    parser.add_argument("--files", type=int, default=FILES, help="that each session reads")
    parser.add_argument("--wrap", action="store_true", help="the gateway as agora wrap runs it")
    parser.add_argument("--bills", help="a file that keeps what does not depend on the gateway")
    parser.add_argument("--out", help="the file that the figures go into, too")
    asked = parser.parse_args()
    most = max(asked.counts)
    sessions = [Session.made(number, asked.files) for number in range(most)]
    bills = all_alone(sessions, asked.bills)
    rows: list[Figures] = []
    for count in asked.counts:
        with ExitStack() as stack:
            if asked.busy:
                stack.enter_context(busy(asked.busy))
            row = measure(sessions[:count], bills[:count], asked.pace, as_wrap=asked.wrap)
            rows.append(row)
        print(table(rows[-1:]) if count == asked.counts[0] else table(rows[-1:]).splitlines()[1])
    if asked.out:
        name = "at once" if asked.wrap else "sessions"
        name = name if not asked.busy else f"{name} with {asked.busy} cores busy"
        measured = {row["sessions"]: row for row in (*kept(asked.out, name).get("rows", ()), *rows)}
        ordered = [row for _, row in sorted(measured.items())]
        put(asked.out, name, {"files": asked.files, "rows": ordered})


if __name__ == "__main__":
    main()

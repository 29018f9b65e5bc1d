"""A gateway under mixed load for a while: what three very long conversations cost the others.

    python -m benchmarks.gateway_soak --minutes 60
    python -m benchmarks.gateway_soak --minutes 4 --sessions 32
    python -m benchmarks.gateway_soak --minutes 4 --busy 2      both cores kept busy by other work
    python -m benchmarks.gateway_soak --minutes 10 --disturb 10     reconfigured, and its process
                                                    for long conversations killed, every 10 seconds

First the sessions of `benchmarks.gateway_sessions` alone, then the same beside three conversations
of 10,000 steps, each with a key of its own; half of the time for each. They grow by a step a call,
as agents do; with `--anew 8` they begin again after so many calls, which is harder: they are read
in full each time. Sessions that are over begin anew under another key. For each part: how long
calls took, directly and through the gateway; its memory with that of the process it starts; the
breaks of the prefix that nobody decided on; what was saved, against an editor without a deadline,
and the reasons why calls went on as they came.

A shared machine's host keeps some of the cores' time for itself, and then everything waits. So each
minute has its own figures: what the host took, and how long small calls took meanwhile that go
directly to the upstream. Waits are told twice: of all calls, and of those in quiet minutes, in
which the host took 2 % at most.
"""

import argparse
import asyncio
import json
import os
import random
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from agora.core.prices import sheet_for
from benchmarks.gateway import process
from benchmarks.gateway_disturbed import disturbed
from benchmarks.gateway_sessions import (
    MODEL,
    Alone,
    Session,
    _at,
    _get,
    _sum,
    all_alone,
    busy,
    rss_mb,
)
from harness.gateway.histories import messages
from harness.gateway.results import Figures, put
from harness.processes import children_of

LONG_STEPS = 10_000
LONG_BYTES = 200
QUIET = 0.02
"""The share of the cores' time that the host takes in a quiet minute at the most."""
BARE_EVERY = 0.25
"""Seconds between two calls that go directly to the upstream."""


class VeryLong:
    """A conversation of 10,000 steps that grows by one at each call."""

    def __init__(self, number: int, calls: int) -> None:
        asked: dict[str, Any] = messages(LONG_STEPS + calls, LONG_BYTES)
        first = {"role": "user", "content": f"Long session {number}: find fn_77."}
        said = [first, *asked.pop("messages")[1:]]
        head = json.dumps({**asked, "model": MODEL})[:-1] + ', "messages": ['
        begun = 1 + 2 * LONG_STEPS
        self._begun = (head + ", ".join(map(json.dumps, said[:begun]))).encode()
        self._more = [f", {json.dumps(one)}".encode() for one in said[begun:]]

    def bodies(self, most: int | None) -> Iterator[bytes]:
        """Yield the calls, at most so many, the first one with 10,000 steps."""
        body = bytearray(self._begun)
        yield bytes(body) + b"]}"
        for action, result in islice(
            zip(self._more[::2], self._more[1::2], strict=True), most and most - 1
        ):
            body += action + result
            yield bytes(body) + b"]}"


class Call(NamedTuple):
    """When a call began, and how long it took, in seconds."""

    began: float
    seconds: float


class Memory(threading.Thread):
    """The memory of a process and of those it has started, looked at twice a second.

    Of those it has started only what is theirs alone: libraries are in memory once for all.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.most, self.now, self.children = pid, 0.0, 0.0, 0.0
        self.over = threading.Event()

    def run(self) -> None:
        """Look until told to stop."""
        while not self.over.wait(0.5):
            children = sum(map(_own_mb, children_of(self.pid)))
            self.children = max(self.children, children)
            self.now = _now_mb(self.pid) + children
            self.most = max(self.most, self.now)


def _now_mb(pid: int) -> float:
    try:
        return rss_mb(pid)[0]
    except (OSError, AssertionError):  # it has just ended
        return 0.0


def _own_mb(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:  # it has just ended
        return 0.0
    return sum(int(kb) for kb in re.findall(r"Private_\w+:\s+(\d+) kB", text)) / 1024


def _processor() -> tuple[int, int]:
    """Return the time that the host has kept for itself, and all time of all cores so far."""
    with open("/proc/stat", encoding="ascii") as file:
        # User, nice, system, idle, waiting for a disk, two kinds of interrupts, stolen.
        times = [int(ticks) for ticks in file.readline().split()[1:9]]
    return times[-1], sum(times)


def _stolen(before: tuple[int, int], after: tuple[int, int]) -> float:
    """Return the share that the host took between two looks."""
    return (after[0] - before[0]) / max(1, after[1] - before[1])


def _reasons(door: str) -> Counter[str]:
    """Return how many calls there were of each reason so far."""
    reasons: Counter[str] = Counter()
    for line in asyncio.run(_get(door + "/metrics")).decode().splitlines():
        if found := re.match(r'agora_requests_total\{.*reason="(\w+)".*\} (\S+)', line):
            reasons[found[1]] += int(float(found[2]))
    return reasons


class Minutes:
    """What the host took of each minute, and how long bare calls took in it."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.stolen: list[float] = []
        self.bare: list[list[float]] = [[]]
        self._first = self._last = _processor()

    def at(self, when: float) -> int:
        """Return the minute of a time."""
        return int((when - self.began) / 60)

    def close(self) -> None:
        """End a minute."""
        before, self._last = self._last, _processor()
        self.stolen.append(_stolen(before, self._last))
        self.bare.append([])

    @property
    def stolen_in_all(self) -> float:
        """What the host took of all minutes that are over."""
        return _stolen(self._first, self._last)

    def quiet(self, call: Call) -> bool:
        """Whether the host left the cores alone in all minutes of a call."""
        first, last = self.at(call.began), self.at(call.began + call.seconds)
        return max(self.stolen[first : last + 1], default=0.0) <= QUIET

    def figures(self, calls: list[Call]) -> list[Figures]:
        """Return the figures of each minute in which calls began."""
        took: list[list[float]] = [[] for _ in self.stolen]
        for call in calls:
            if (at := self.at(call.began)) < len(took):
                took[at].append(call.seconds)
        return [
            {
                "stolen": round(stolen, 3),
                "calls": len(these),
                "p99_ms": _at(sorted(these), 0.99),
                "bare_calls": len(bare),
                "bare_p99_ms": _at(sorted(bare), 0.99),
            }
            for stolen, these, bare in zip(self.stolen, took, self.bare[:-1], strict=True)
            if these and bare
        ]


class Load:
    """Calls until the time is up, and how long each took."""

    def __init__(self, url: str, up: str, until: float, pace: float, anew: int | None) -> None:
        self.url, self.up, self.until, self.pace, self.anew = url, up, until, pace, anew
        self.took: dict[int, list[Call]] = defaultdict(list)
        self.long: list[Call] = []
        self.long_edited = 0
        self.played: list[tuple[str, int]] = []
        """The keys of sessions that were played to their end, and their numbers."""
        self.failed = 0
        self.minutes = Minutes()

    async def _post(
        self, client: aiohttp.ClientSession, body: bytes, key: str
    ) -> tuple[Call, bool]:
        began = time.monotonic()
        headers = {"x-api-key": key, "content-type": "application/json"}
        async with client.post(self.url + "/v1/messages", data=body, headers=headers) as answer:
            await answer.read()
            self.failed += answer.status != 200
            edited = "x-agora-tokens-removed" in answer.headers
        return Call(began, time.monotonic() - began), edited

    async def session(self, client: aiohttp.ClientSession, session: Session, tag: str) -> None:
        """Play one session over and over, each time under another key."""
        chance, turn = random.Random(session.number), 0
        while True:
            turn += 1
            key = f"sk-{tag}-{session.number}-{turn}"
            for body in session.bodies():
                if time.monotonic() > self.until:
                    return
                call, _ = await self._post(client, body, key)
                self.took[session.number].append(call)
                await asyncio.sleep(chance.uniform(0.5, 1.5) * self.pace)
            self.played.append((key, session.number))

    async def very_long(self, client: aiohttp.ClientSession, long: VeryLong, key: str) -> None:
        """Send the calls of a very long conversation, again from the first when they are out."""
        while True:
            for body in long.bodies(self.anew):
                if time.monotonic() > self.until:
                    return
                call, edited = await self._post(client, body, key)
                self.long.append(call)
                self.long_edited += edited
                await asyncio.sleep(self.pace)

    async def watch(self, client: aiohttp.ClientSession) -> None:
        """Close each minute when it is over; meanwhile, call the upstream directly."""
        body = json.dumps({**messages(2), "model": MODEL}).encode()
        headers = {"x-api-key": "sk-bare", "content-type": "application/json"}
        while time.monotonic() < self.until:
            began = time.monotonic()
            if self.minutes.at(began) > len(self.minutes.stolen):
                self.minutes.close()
            async with client.post(self.up + "/v1/messages", data=body, headers=headers) as answer:
                await answer.read()
            self.minutes.bare[-1].append(time.monotonic() - began)
            await asyncio.sleep(BARE_EVERY)
        self.minutes.close()

    async def run(self, sessions: list[Session], tag: str, long: list[VeryLong]) -> None:
        """Run all of them side by side."""
        timeout = aiohttp.ClientTimeout(total=120)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as client:
            work = [self.session(client, session, tag) for session in sessions]
            work += [
                self.very_long(client, conversation, f"sk-{tag}-long-{n}")
                for n, conversation in enumerate(long)
            ]
            await asyncio.gather(self.watch(client), *work)


def part(
    url: str,
    up: str,
    seconds: float,
    sessions: list[Session],
    pace: float,
    tag: str,
    long: list[VeryLong],
    anew: int | None = None,
) -> Load:
    """Return what happened in so many seconds."""
    load = Load(url, up, time.monotonic() + seconds, pace, anew)
    asyncio.run(load.run(sessions, tag, long))
    return load


def waits(load: Load, counts: Callable[[Call], bool]) -> Figures:
    """Return how long those of the calls took that count."""
    by_tenant = {
        tenant: sorted(call.seconds for call in calls if counts(call))
        for tenant, calls in load.took.items()
    }
    took = sorted(chain.from_iterable(by_tenant.values()))
    long = sorted(call.seconds for call in load.long if counts(call))
    return {
        "calls": len(took),
        "latency_ms": {"p50": _at(took, 0.5), "p99": _at(took, 0.99)},
        "slowest_tenant_p99_ms": max(_at(each, 0.99) for each in by_tenant.values() if each),
        "long_calls": len(long),
        "long_ms": {"p50": _at(long, 0.5), "most": _at(long, 1.0)} if long else None,
    }


def described(load: Load, bills: list[Alone], reported: Any) -> Figures:
    """Return the figures of one part."""
    sheet, short, unwanted = sheet_for(MODEL), [], 0
    for key, number in load.played:
        bill, account = bills[number], reported.get(key)
        if account is None:
            continue
        cost = (account["read"] * sheet.read + account["written"] * sheet.write) * sheet.input / 1e6
        short.append(100 * (bill.saved - (1 - cost / bill.came)))
        unwanted += max(0, account["breaks"] - bill.breaks)
    minutes, quiet = load.minutes, [stolen <= QUIET for stolen in load.minutes.stolen]
    return {
        **waits(load, lambda _: True),
        "failed": load.failed,
        "sessions_played": len(load.played),
        "breaks_unwanted": unwanted,
        "points_short": round(sum(short) / len(short), 2) if short else None,
        "long_edited": load.long_edited,
        "stolen": round(minutes.stolen_in_all, 3),
        "quiet_minutes": {
            "minutes": f"{sum(quiet)} of {len(quiet)}",
            **(waits(load, minutes.quiet) if any(quiet) else {}),
        },
        "by_minute": minutes.figures(list(chain.from_iterable(load.took.values()))),
    }


@contextmanager
def gateway(up: str, disturb: float | None) -> Iterator[tuple[str, int, Counter[str]]]:
    """Run the gateway; yield its address, its id, and how often it has been disturbed."""
    if disturb is None:
        with process("gateway", up) as (door, pid):
            yield door, pid, Counter()
        return
    with disturbed(up, disturb) as (served, done):
        yield served.url, served.running.pid, done


def main() -> None:
    """Run the soak and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--files", type=int, default=30, help="that each session reads")
    parser.add_argument("--pace", type=float, default=2.0, help="seconds between calls of one")
    parser.add_argument("--busy", type=int, default=0, help="cores kept busy by other work")
    parser.add_argument("--disturb", type=float, help="seconds between two disturbances")
    parser.add_argument("--anew", type=int, help="calls after which the long ones begin again")
    parser.add_argument("--out", help="the file that the figures go into, too")
    parser.add_argument("--called", default="soak", help="what they are called in that file")
    asked = parser.parse_args()
    # Of mixed length: every second one is half as long.
    files = [asked.files // (1 + number % 2) for number in range(asked.sessions)]
    sessions = [Session.made(number, files[number]) for number in range(asked.sessions)]
    bills = all_alone(sessions, None)
    seconds = asked.minutes * 60 / 2.2
    long = [VeryLong(each, 1 + int(seconds / asked.pace)) for each in range(3)]
    with busy(asked.busy), process("cached") as (up, _):
        direct = part(up, up, seconds / 5, sessions, asked.pace, "direct", [])
    figures: Figures = {"minutes": asked.minutes, "sessions": asked.sessions, "pace_s": asked.pace}
    figures["long_begin_anew_after"] = asked.anew
    figures["cores_busy"] = asked.busy
    figures["direct"] = described(direct, bills, {})
    with (
        busy(asked.busy),
        process("cached") as (up, _),
        gateway(up, asked.disturb) as (door, pid, disturbances),
    ):
        for name, beside in (("without", []), ("with_three_long", long)):
            memory = Memory(pid)
            memory.start()
            before = _reasons(door)
            load = part(door, up, seconds, sessions, asked.pace, name, beside, asked.anew)
            memory.over.set()
            reported = json.loads(asyncio.run(_get(up + "/bills")))
            rss = {"end": memory.now, "most": memory.most, "of_that_children": memory.children}
            figures[name] = {
                **described(load, bills, reported),
                "rss_mb": {of: round(mb) for of, mb in rss.items()},
                "load_average": round(os.getloadavg()[0], 1),
                "reasons": dict((_reasons(door) - before).most_common()),
            }
        said = asyncio.run(_get(door + "/metrics")).decode()
        figures["disturbances"] = dict(disturbances)
        figures["reloads_failed"] = _sum(said, "agora_reloads_total", outcome="failed")
    print(json.dumps(figures, indent=1))
    if asked.out:
        put(asked.out, asked.called, figures)


if __name__ == "__main__":
    main()

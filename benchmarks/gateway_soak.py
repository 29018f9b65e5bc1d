"""Noisy neighbours: what three very long conversations cost the others, through Envoy and filter.

    python -m benchmarks.gateway_soak --minutes 60
    python -m benchmarks.gateway_soak --minutes 2 --sessions 8 --parts bare,alone

First the sessions alone, then the same beside three conversations of 10,000 steps, each with a key
of its own; `bare` are the sessions through Envoy without the filter. Each part gets the same time.
All grow by a step a call, as agents do; a session that ends begins anew under another key. Figures
of each part: latency, failures, breaks of the prefix, those wanted by an edit, and the memory of
Envoy and of the filter with its workers. It prints its progress once a minute.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.envoy import bare
from harness.envoy import stack
from harness.gateway.cached_upstream import Cached
from harness.gateway.histories import messages
from harness.gateway.loopback import serving
from harness.gateway.results import Figures, percentile_ms, put
from harness.processes import children_of

LONG_STEPS, LONG_BYTES = 10_000, 200
MORE_STEPS = 2_000
"""The most steps by which they grow."""
STEPS = 60
PAUSE_SECONDS = 1.0
KEEP_ALIVE_SECONDS = 75
"""As real providers do: a connection that is closed while a request is on its way fails it."""
SETTINGS = "[limits]\nworkers = 2\n"


def bodies(name: str, first: int, calls: int, size: int) -> Iterator[bytes]:
    """Return the calls of one conversation, one step apart."""
    asked: dict[str, Any] = messages(first + calls, size)
    said = [{"role": "user", "content": f"{name}: find fn_77."}, *asked.pop("messages")[1:]]
    parts = [json.dumps(one).encode() for one in said]
    begun = json.dumps(asked)[:-1].encode() + b', "messages": [' + b", ".join(parts[: -2 * calls])

    def grow() -> Iterator[bytes]:
        body = bytearray(begun)
        for at in range(len(parts) - 2 * calls, len(parts), 2):
            yield bytes(body) + b"]}"
            body += b", " + b", ".join(parts[at : at + 2])

    return grow()


class Load:
    """Running conversations, and the results of their calls."""

    def __init__(self, door: str) -> None:
        """Count for one address."""
        self.door = door
        self.seconds: dict[int, list[float]] = {}
        """Latencies by session."""
        self.seen: Counter[str] = Counter()
        self.number = 0

    async def converse(
        self, client: aiohttp.ClientSession, key: str, calls: Iterator[bytes], times: list[float]
    ) -> None:
        """Make the calls of one conversation, and record their latency."""
        removed = 0
        headers = {"x-api-key": f"sk-ant-{key}", "content-type": "application/json"}
        for body in calls:
            began = time.monotonic()
            try:
                async with client.post(
                    f"{self.door}/v1/messages", data=body, headers=headers
                ) as answer:
                    await answer.read()
                    before = int(answer.headers.get("x-agora-tokens-before", 0))
                    after = int(answer.headers.get("x-agora-tokens-after", 0))
                    self.seen["failed"] += answer.status != 200
            except (aiohttp.ClientError, TimeoutError):
                self.seen["failed"] += 1
                continue
            self.seen["calls"] += 1
            self.seen["new_edits"] += before - after != removed
            removed = before - after
            times.append(time.monotonic() - began)
            await asyncio.sleep(random.uniform(0.5, 1.5) * PAUSE_SECONDS)

    async def session(self, client: aiohttp.ClientSession, number: int) -> None:
        """Make conversations of usual length, one after the other."""
        times = self.seconds.setdefault(number, [])
        while True:
            self.number += 1
            name = f"session-{self.number}"
            calls = bodies(name, random.randint(1, STEPS), STEPS, 2_000)
            await self.converse(client, name, calls, times)

    async def report(self) -> None:
        """Print the progress once a minute."""
        for minute in count(1):
            await asyncio.sleep(60)
            print(f"  minute {minute}: {json.dumps(self.seen)}", file=sys.stderr, flush=True)


async def run(load: Load, seconds: float, sessions: int, very_long: list[Iterator[bytes]]) -> None:
    """Run conversations side by side for a while."""
    timeout = aiohttp.ClientTimeout(total=120)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as client:
        work = [load.session(client, number) for number in range(sessions)]
        for n, calls in enumerate(very_long):
            work.append(load.converse(client, f"long-{n}", calls, []))
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(load.report(), *work), seconds)


def rss_mb(pid: int) -> float:
    """Return the memory of a process and of those it started."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    own = int(status.split("VmRSS:")[1].split()[0]) / 1_024
    return own + sum(map(rss_mb, children_of(pid)))


def part(
    door: str,
    processes: dict[str, int],
    upstream: Cached,
    seconds: float,
    sessions: int,
    very_long: int,
) -> Figures:
    """Return the figures of one part; `processes` names the processes whose memory counts."""
    load = Load(door)
    # The next part has the same keys.
    upstream.bills.clear()
    upstream.caches.clear()
    calls = [bodies(f"long {n}", LONG_STEPS, MORE_STEPS, LONG_BYTES) for n in range(very_long)]
    asyncio.run(run(load, seconds, sessions, calls))
    breaks = sum(bill["breaks"] for bill in upstream.bills.values())
    times = [*chain.from_iterable(load.seconds.values())]
    return {
        **load.seen,
        "failed": load.seen["failed"],
        "prefix_breaks": breaks,
        "p50_ms": percentile_ms(times, 50),
        "p99_ms": percentile_ms(times, 99),
        "worst_session_p99_ms": max(percentile_ms(each, 99) for each in load.seconds.values()),
        **{f"{name}_mb": round(rss_mb(pid)) for name, pid in processes.items()},
    }


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--minutes", type=float, default=60.0)
    options.add_argument("--sessions", type=int, default=64)
    options.add_argument("--parts", default="alone,beside", help="of bare, alone, beside")
    options.add_argument("--out", help="the file that the figures go into, too")
    asked = options.parse_args()
    upstream = Cached()
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(upstream, timeout_keep_alive=KEEP_ALIVE_SECONDS) as up,
        bare(Path(folder), up) as (floor, floor_pid),
        stack(Path(folder), up, up, SETTINGS) as stood,
    ):
        ours = {"envoy": stood.envoy.pid, "filter": stood.filter.pid}
        parts = asked.parts.split(",")
        failed = 0
        for name in parts:
            at = (floor, {"envoy": floor_pid}) if name == "bare" else (stood.url, ours)
            seconds = 60 * asked.minutes / len(parts)
            very_long = 3 if name == "beside" else 0
            figures = part(*at, upstream, seconds, asked.sessions, very_long)
            print(f"{name}: {json.dumps(figures)}", flush=True)
            if asked.out:
                put(asked.out, f"soak, {name}", figures)
            failed += figures["failed"]
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()

"""Several gateways behind a real Envoy that routes by conversation: how many calls are read cold.

    python -m benchmarks.replicas                       64 sessions, three gateways, one is killed
    python -m benchmarks.replicas --round-robin         the same calls to any gateway, to compare
    python -m benchmarks.replicas --out docs/results/replicas.json

The sessions are those of `benchmarks.gateway_sessions`. After a third of their calls one gateway
is killed, after two thirds another one is added. A call is read cold when the gateway that gets it
does not know its conversation; of each session that is one at the least, its first above the
threshold. (Where an agent moves its breakpoints, the next call or two are read again wherever they
go; those are not counted.) An edit of other bytes than the gateway before would have sent breaks
the prefix at the upstream, and shows as a break that an editor alone does not have.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

from agora.core.prices import sheet_for
from agora.gateway.editing.deciding import BYTES_PER_TOKEN
from agora.gateway.editing.editor import Editor
from agora.gateway.editing.job import Job
from agora.gateway.editing.settings import EditorSettings
from agora.gateway.routing.routes import MESSAGES
from agora.scorers.load import load_scorer
from benchmarks.gateway import process
from benchmarks.gateway_sessions import MODEL, Session, _at, _get, _sum, all_alone, play
from harness.envoy import NAMING, Running, envoy, filter_process, replicas
from harness.gateway.loopback import free_port
from harness.gateway.results import Figures, put

_EARLY_CALLS = 8


def read_again(session: Session) -> int:
    """Return how many calls of a session an editor reads in full that has seen the one before."""
    sheet = sheet_for(MODEL)
    editor = Editor(EditorSettings(scorer=load_scorer("default"), min_tokens=4_096))
    for body in islice(session.bodies(), _EARLY_CALLS):
        job = Job(body=body, route=MESSAGES, sheet_of=lambda _: sheet)
        if len(body) >= 4_096 * BYTES_PER_TOKEN and editor.look(job).edited is None:
            editor(job)
    return editor.occupancy()["conversations"].misses - 1


class Gateways:
    """The gateways of a run, and what those that are gone had counted."""

    def __init__(self, upstream: str, ports: list[int]) -> None:
        self.upstream, self.ports = upstream, ports
        self.running: dict[int, Running] = {}
        self.cold = 0.0

    def start(self, port: int) -> None:
        """Start the gateway of this port."""
        command = [sys.executable, "-m", "benchmarks.gateway_processes", "gateway", str(port)]
        running = Running([*command, self.upstream], f"http://127.0.0.1:{port}/livez")
        running.start()
        self.running[port] = running

    async def count(self, port: int) -> float:
        """Return how many calls a gateway has read cold."""
        said = (await _get(f"http://127.0.0.1:{port}/metrics")).decode()
        labels = {"memo": "conversations", "outcome": "miss"}
        return _sum(said, "agora_memo_looks_total", **labels)

    async def kill(self, port: int) -> None:
        """Kill a gateway as a machine that fails does."""
        self.cold += await self.count(port)
        self.running.pop(port).kill()

    def end(self) -> None:
        """End all of them."""
        for running in self.running.values():
            running.end()

    async def all_cold(self) -> float:
        """Return how many calls all of them have read cold."""
        return self.cold + sum([await self.count(port) for port in self.running])


async def play_through(
    url: str, sessions: list[Session], pace: float, events: dict[int, Any]
) -> tuple[Counter[int], list[float], list[float]]:
    """Send all calls; after so many of them an event. Return statuses, times, and cold by event."""
    statuses: Counter[int] = Counter()
    cold: list[float] = []

    async def after(calls: int, status: int) -> None:
        statuses[status] += 1
        event = events.pop(calls, None)
        if event is not None:
            cold.append(await event())

    _, took = await play(url, sessions, pace, after)
    return statuses, took, cold


def measure(count: int, files: int, pace: float, *, hashed: bool) -> Figures:
    """Return the figures of one run."""
    sessions = [Session.made(number, files) for number in range(count)]
    bills = all_alone(sessions, None)
    calls = count * files
    again = sum(map(read_again, sessions))
    ports = [free_port() for _ in range(4)]
    port, admin, filter_port, filter_admin = (free_port() for _ in range(4))
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        (folder / "affinity.toml").write_text(NAMING, encoding="utf-8")
        config = replicas(port, admin, filter_port, ports, hashed=hashed)
        up, _ = stack.enter_context(process("cached"))
        gateways = Gateways(up, ports)
        stack.callback(gateways.end)
        for each in ports[:3]:
            gateways.start(each)
        names = filter_process(folder / "affinity.toml", filter_port, filter_admin)
        stack.callback(names.end)
        names.start()
        stack.enter_context(envoy(config, folder))

        async def lose() -> float:
            cold = await gateways.all_cold()
            await gateways.kill(ports[0])
            return cold

        async def add() -> float:
            cold = await gateways.all_cold()
            await asyncio.to_thread(gateways.start, ports[3])
            return cold

        url = f"http://127.0.0.1:{port}"
        events = {calls // 3: lose, 2 * calls // 3: add}
        statuses, took, cold = asyncio.run(play_through(url, sessions, pace, events))
        cold.append(asyncio.run(gateways.all_cold()))
        reported = json.loads(asyncio.run(_get(up + "/bills")))
    # All of those come before the first event.
    cold = [each - again for each in cold]
    breaks = sum(
        max(0, reported[f"sk-{session.number}"]["breaks"] - bill.breaks)
        for session, bill in zip(sessions, bills, strict=True)
    )
    return {
        "sessions": count,
        "calls": sum(statuses.values()),
        "statuses": {str(status): n for status, n in sorted(statuses.items())},
        "hashed": hashed,
        "cold": {
            "before": round(cold[0]),
            "after_a_kill": round(cold[1] - cold[0]),
            "after_one_more": round(cold[2] - cold[1]),
            "share": round(cold[2] / sum(statuses.values()), 4),
        },
        "breaks_unwanted": breaks,
        "latency_ms": {"p50": _at(took, 0.5), "p99": _at(took, 0.99)},
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--files", type=int, default=30, help="that each session reads")
    parser.add_argument("--pace", type=float, default=1.0, help="seconds between calls of one")
    parser.add_argument("--round-robin", action="store_true", help="calls to any gateway")
    parser.add_argument("--out", help="the file that the figures go into, too")
    asked = parser.parse_args()
    hashed = not asked.round_robin
    figures = measure(asked.sessions, asked.files, asked.pace, hashed=hashed)
    print(json.dumps(figures))
    if asked.out:
        put(asked.out, "by_conversation" if hashed else "round_robin", figures)


if __name__ == "__main__":
    main()

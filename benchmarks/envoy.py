"""A real Envoy with the filter: its cost beside bare Envoy, and kills under load.

    python -m benchmarks.envoy cost --tokens 50000 --rounds 5
    python -m benchmarks.envoy kills --of filter --count 50      or worker, or envoy

`cost` compares with bare Envoy in the same run: answers of 52 events unread (no usage) and read.
All processes of the filter are counted. `known` is the next call of a conversation whose edit is in
force, `new` one that was never seen. `kills` counts what clients see while the filter, one of its
workers or Envoy is killed. `refused` are connections attempted while Envoy was gone.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp

from benchmarks.proxy import CALLS, PATH, conversation, cpu_seconds, play, process, upstream
from harness.envoy import Stack, configuration, envoy, stack
from harness.gateway.loopback import free_port, serving
from harness.gateway.results import Figures, put
from harness.processes import children_of

SETTINGS = "[limits]\ndeadline_ms = 60000\nworkers = 2\n"
EVENTS = 51
CLIENTS = 4
USUAL = "[limits]\nworkers = 1\n"


@contextmanager
def bare(folder: Path, up: str) -> Iterator[tuple[str, int]]:
    """Run Envoy without the filter, and give its address and its id."""
    port, admin = free_port(), free_port()
    config = configuration(
        port=port, admin=admin, filter_port=1, openai=up, anthropic=up, bare=True
    )
    with envoy(config, folder, "bare") as running:
        yield f"http://127.0.0.1:{port}", running.pid


def cost(tokens: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return CPU and wall time in ms for each way and kind of call."""
    cases: dict[str, list[tuple[float, float]]] = {}
    parts: dict[str, list[float]] = {}
    port = free_port()
    here = ("benchmarks.proxy", "upstream", str(port))
    with (
        tempfile.TemporaryDirectory() as one,
        tempfile.TemporaryDirectory() as two,
        process(*here, port=port) as (up, _),
        bare(Path(one), up) as (floor, floor_pid),
        stack(Path(one), up, up, SETTINGS, message_timeout="90s", unread=True) as unread,
        stack(Path(two), up, up, SETTINGS, message_timeout="90s") as read,
    ):
        for turn in range(rounds):
            calls = conversation(tokens, CALLS + 1, turn)
            new = [conversation(tokens, 1, 1_000 + 5 * turn + n)[0] for n in range(5)]
            cases.setdefault("bare", []).extend(asyncio.run(play(floor, floor_pid, calls, 1)))
            for name, stood in (("unread", unread), ("read", read)):
                for kind, bodies, warm in (("known", calls, 1), ("new", new, 0)):
                    before = cpu_seconds(stood.envoy.pid)
                    found = asyncio.run(play(stood.url, stood.filter.pid, bodies, warm))
                    of_envoy = 1e3 * (cpu_seconds(stood.envoy.pid) - before) / len(bodies)
                    cases.setdefault(f"{name}, {kind}", []).extend(
                        (cpu + of_envoy, wall) for cpu, wall in found
                    )
                    parts.setdefault(f"{name}, {kind}", []).append(of_envoy)
    return {name: _figures(found, parts.get(name, [0.0])) for name, found in cases.items()}


def _figures(found: list[tuple[float, float]], of_envoy: list[float]) -> dict[str, float]:
    cpu, walls = sorted(one for one, _ in found), sorted(wall for _, wall in found)
    return {
        "cpu_ms": round(statistics.median(cpu), 2),
        "cpu_mean_ms": round(statistics.mean(cpu), 2),
        "of_envoy_ms": round(statistics.median(of_envoy), 2),
        "wall_p50_ms": round(statistics.median(walls), 1),
        "wall_p99_ms": round(walls[int(len(walls) * 0.99)], 1),
    }


def measure_cost(tokens: int, rounds: int) -> Figures:
    """Measure and print."""
    found: Figures = cost(tokens, rounds)
    for name, figures in found.items():
        print(f"{name:15}", json.dumps(figures))
    floor = found["bare"]["cpu_ms"]
    beyond = found["unread, known"]["cpu_ms"] - floor
    event = (found["read, known"]["cpu_ms"] - found["unread, known"]["cpu_ms"]) / EVENTS
    print(f"{tokens:,} tokens, known: {beyond:.1f} ms beyond bare Envoy; an event {event:.3f} ms")
    beyond_bare = {"known_beyond_bare_ms": round(beyond, 2), "event_ms": round(event, 3)}
    return {"tokens": tokens, "rounds": rounds, **found, **beyond_bare}


def strike(stood: Stack, victim: str) -> None:
    """Kill one of the processes, and restart it unless its parent does."""
    if victim == "worker":
        for pid in children_of(stood.filter.pid):
            if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
                return
        return
    process = stood.filter if victim == "filter" else stood.envoy
    process.kill()
    process.start()


def kills(victim: str, count: int) -> Figures:
    """Kill a process `count` times under load, and count the clients' errors."""
    seen: Counter[str] = Counter()
    bodies = conversation(10_000, 8, seed=5)
    key = {"authorization": "Bearer sk-bench", "content-type": "application/json"}

    async def run(stood: Stack) -> None:
        done = asyncio.Event()

        async def one() -> None:
            async with aiohttp.ClientSession() as client:
                while not done.is_set():
                    body = bodies[seen["requests"] % len(bodies)]
                    try:
                        async with client.post(stood.url + PATH, data=body, headers=key) as answer:
                            await answer.read()
                            seen["failed"] += answer.status != 200
                            seen["edited"] += "x-agora-edited" in answer.headers
                    except aiohttp.ClientConnectorError:
                        seen["refused"] += 1
                        await asyncio.sleep(0.05)
                        continue
                    except aiohttp.ClientError:
                        seen["failed"] += 1
                    seen["requests"] += 1
                    # Without a pause the clients leave the filter no CPU for its start.
                    await asyncio.sleep(0.02)

        async def killer() -> None:
            for _ in range(count):
                edited = seen["edited"]
                while seen["edited"] < edited + 4:
                    await asyncio.sleep(0.01)
                await asyncio.to_thread(strike, stood, victim)
                seen["kills"] += 1
            done.set()

        await asyncio.wait_for(asyncio.gather(killer(), *(one() for _ in range(CLIENTS))), 1_800)

    with (
        tempfile.TemporaryDirectory() as folder,
        serving(upstream) as up,
        stack(Path(folder), up, up, USUAL) as stood,
    ):
        asyncio.run(run(stood))
    print(json.dumps(seen))
    return dict(seen)


def main() -> None:
    """Run one part."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("part", choices=["cost", "kills"])
    options.add_argument("--tokens", type=int, default=50_000)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--count", type=int, default=50)
    options.add_argument("--of", choices=["filter", "worker", "envoy"], default="filter")
    options.add_argument("--out", help="the file that the figures go into, too")
    asked = options.parse_args()
    if asked.part == "cost":
        part, figures = "envoy, cost", measure_cost(asked.tokens, asked.rounds)
    else:
        part, figures = f"envoy, kills of {asked.of}", kills(asked.of, asked.count)
    if asked.out:
        put(asked.out, part, figures)
    # A killed Envoy loses the requests in flight: one of each client.
    most = CLIENTS * asked.count if asked.of == "envoy" else 0
    sys.exit(figures.get("failed", 0) > most)


if __name__ == "__main__":
    main()

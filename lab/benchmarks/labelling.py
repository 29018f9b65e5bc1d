"""Labelling on Ray Data: is every answer there once, how fast is it, and how does that grow.

    python -m lab.benchmarks.labelling exactly-once   kills, signals, a full disk, two runs at once
    python -m lab.benchmarks.labelling efficiency     calls a second against a bare client
    python -m lab.benchmarks.labelling growth         time and memory from 10^3 to 10^6 pairs
    python -m lab.benchmarks.labelling resume         seconds to the first new call after 10^6

Each writes its figures into docs/results/labelling.json. The server is `steady_server`:
the same time for every answer, and a count of the calls that came twice. With `--model` efficiency
asks a real llama.cpp server instead. What efficiency and growth found before about other servers
and sizes is kept.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
from lab.harness.labelling import (
    NICE,
    Driver,
    answers_hash,
    served_rate,
    steady,
    tally,
    toy_plan,
    used_s,
)

from agora_lab.labelling.asking import Backbone
from agora_lab.labelling.plan import read_plan, request

RESULTS = Path("docs/results/labelling.json")


def exactly_once(options: argparse.Namespace) -> dict[str, Any]:
    """Kill a run in every way and compare what it wrote with an undisturbed one."""
    chance = random.Random(options.seed)
    concurrency = 8
    with tempfile.TemporaryDirectory(prefix="agora-labelling-") as scratch, steady(100) as address:
        base = Path(scratch)
        plan = base / "plan"
        summary = toy_plan(plan, options.pairs)
        run = ("--concurrency", str(concurrency), "--spare-mib", "0")

        calm = Driver(plan, base / "calm", address, "--concurrency", "64", "--spare-mib", "0")
        calm.child.wait()
        expected = answers_hash(base / "calm")
        before = tally(address)["calls"]

        out = base / "out"
        out.mkdir()
        mounted = _mount(out, 24)
        kills: dict[str, int] = {}
        orphans = starts = 0
        terms_left, full_left, rival_left = options.terms, int(mounted), 1
        wanted = _deck(options.kills, chance)
        full_at = options.kills // 2
        try:
            while True:
                driver = Driver(plan, out, address, *run)
                starts += 1
                while driver.child.poll() is None:
                    at = tally(address)["calls"]
                    _until_asked(driver, address, at)
                    if driver.child.poll() is not None:
                        break
                    time.sleep(chance.uniform(0.2, 2.5))
                    killed = sum(kills.values())
                    if rival_left and killed > 2:
                        rival_left -= 1
                        rival = Driver(plan, out, address, *run)
                        rival.child.wait()
                        refused = "is being written by process" in rival.said()
                        assert refused, rival.said()
                        continue
                    if full_left and killed >= full_at:
                        full_left -= 1
                        told = _fill_up(out, driver)
                        print(f"  full disk: {told}", flush=True)
                        break
                    if terms_left and killed >= options.kills * (1 - terms_left / 6):
                        terms_left -= 1
                        driver.child.send_signal(signal.SIGTERM)
                        driver.child.wait()
                        assert "stopped by SIGTERM" in driver.said(), driver.said()
                        break
                    if killed >= options.kills:
                        driver.child.wait()
                        break
                    kind = wanted[killed]
                    victim = driver.pick(kind)
                    while victim is None and driver.child.poll() is None:
                        # A writer lives for a moment only.
                        time.sleep(0.01)
                        victim = driver.pick(kind)
                    if victim is None:
                        break
                    below: dict[int, str] = {}
                    if kind in {"driver", "raylet"}:
                        below = {pid: _born(pid) for pid in driver.processes()}
                    try:
                        os.kill(victim, signal.SIGKILL)
                    except ProcessLookupError:
                        continue
                    kills[kind] = kills.get(kind, 0) + 1
                    if below:
                        driver.child.wait()
                        orphans += _reap(below)
                        break
                done = sum(
                    pq.read_metadata(file).num_rows for file in (out / "answers").glob("*.parquet")
                )
                print(
                    f"  start {starts}: {done:,} of {summary.calls:,} written, kills {kills}, "
                    f"again {tally(address)['calls'] - before}-{done} ",
                    flush=True,
                )
                if driver.child.poll() == 0 and done == summary.calls:
                    break
                if starts > 4 * options.kills + 20:
                    raise SystemExit(f"no end in sight:\n{driver.said()}")
            found = answers_hash(out)
            asked = tally(address)["calls"] - before
        finally:
            if mounted:
                subprocess.run(["umount", str(out)], check=True)
    killed = sum(kills.values())
    again = asked - summary.calls
    result = {
        "planned": summary.calls,
        "rows": found[0],
        "distinct": found[1],
        "same_hash_as_undisturbed": found == expected,
        "kills": kills,
        "killed": killed,
        "sigterm": options.terms - terms_left,
        "full_disk": bool(mounted) and not full_left,
        "rival_refused": not rival_left,
        "starts": starts,
        "concurrency": concurrency,
        "asked_again": again,
        "bound": killed * concurrency,
        "bound_of_kills_that_can_cost_calls": (killed - kills.get("writer", 0) + bool(mounted))
        * concurrency,
        "processes_left_over_after_a_kill": orphans,
    }
    print(json.dumps(result), flush=True)
    assert found == expected, result
    assert found[0] == found[1] == summary.calls, result
    return result


def _deck(kills: int, chance: random.Random) -> list[str]:
    """Return which process is killed when: mostly workers, which a run survives by itself."""
    shares = {"asker": 20, "writer": 14, "driver": 9, "raylet": 7}
    deck = [kind for kind, share in shares.items() for _ in range(-(-share * kills // 50))]
    chance.shuffle(deck)
    return deck[:kills]


def _mount(folder: Path, mib: int) -> bool:
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(folder)], check=False
    )
    return done.returncode == 0


def _fill_up(out: Path, driver: Driver) -> str:
    """Leave no byte on the disk until the run has noticed; return what it said of it."""
    ballast = out / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            pass
    try:
        driver.child.wait(timeout=120)
    finally:
        ballast.unlink()
    said = driver.said()
    assert driver.child.returncode != 0, said
    assert "is full" in said, said
    return next(line for line in said.splitlines() if "is full" in line)


def _until_asked(driver: Driver, address: str, calls: int) -> None:
    """Wait for the next call, and for the end of the haste in which Ray starts."""
    while driver.child.poll() is None and tally(address)["calls"] == calls:
        time.sleep(0.05)
    driver.be_polite()


def _reap(below: dict[int, str]) -> int:
    """Wait for what stood below a dead run; end what is still there after 20 s, and count it.

    A number may be another's by then, so a process is told by when it began too.
    """
    until = time.monotonic() + 20
    while time.monotonic() < until:
        left = [pid for pid, born in below.items() if born and _born(pid) == born]
        if not left:
            return 0
        time.sleep(0.1)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(left)


def _born(pid: int) -> str:
    """Return when a process began, in the system's ticks; empty if there is none, or no more."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def efficiency(options: argparse.Namespace) -> dict[str, Any]:
    """Drive one server by a bare client and by the pipeline, in turns, and compare."""
    with tempfile.TemporaryDirectory(prefix="agora-labelling-") as scratch:
        base = Path(scratch)
        found: dict[str, Any] = {}
        if options.model:
            from agora_lab.backbones.llama_server import LlamaServer, ServerSettings

            toy_plan(base / "plan", options.pairs, samples=1, max_tokens=8, stop=("\n",))
            with LlamaServer(ServerSettings(model=options.model)) as server:
                address = server.base_url.removesuffix("/v1")
                found["llama.cpp"] = _compare(
                    base, address, server.model, options, lambda: _cpu_seconds(server.pid)
                )
            return found
        toy_plan(base / "plan", options.pairs)
        wanted = round(options.concurrency / options.latency_ms * 1000)
        with steady(options.latency_ms) as address:
            compared = _compare(base, address, "steady", options, lambda: used_s(address))
        found[f"steady-{wanted}-askers-{compared['askers']}"] = compared | {
            "calls_per_s_if_nothing_took_time": wanted,
            "latency_ms": options.latency_ms,
            "server_calls_per_s_at_most": 1e6
            / statistics.median(one["pipeline"]["server_us"] for one in compared["rounds"]),
        }
        return found


def _compare(
    base: Path,
    address: str,
    model: str,
    options: argparse.Namespace,
    server_s: Callable[[], float],
) -> dict[str, Any]:
    plan, concurrency = base / "plan", options.concurrency
    calls = read_plan(plan).summary.calls
    askers = min(options.askers, concurrency)
    load = [os.getloadavg()[0]]
    rounds: list[dict[str, Any]] = []
    until = time.monotonic() + options.within_s
    for number in range(options.rounds):
        if rounds and time.monotonic() > until:
            break
        spent = [server_s()]
        bare = _bare(plan, address, model, concurrency, askers)
        spent.append(server_s())
        mine = _piped(plan, base / f"out-{number}", address, model, concurrency, askers)
        spent.append(server_s())
        # A server that had more to do for one of them says so here, and not in the rates.
        bare["server_us"] = (spent[1] - spent[0]) / calls * 1e6
        mine["server_us"] = (spent[2] - spent[1]) / calls * 1e6
        rounds.append({"bare": bare, "pipeline": mine, "ratio": mine["rate"] / bare["rate"]})
        print(f"  {json.dumps(rounds[-1])}", flush=True)
        load.append(os.getloadavg()[0])
    ratios = [one["ratio"] for one in rounds]
    return {
        "calls": calls,
        "concurrency": concurrency,
        "askers": askers,
        "load": load,
        "rounds": rounds,
        "bare_rate_median": statistics.median(one["bare"]["rate"] for one in rounds),
        "pipeline_rate_median": statistics.median(one["pipeline"]["rate"] for one in rounds),
        "ratio_median": statistics.median(ratios),
        "ratio_range": [min(ratios), max(ratios)],
        "bare_cpu_us_per_call": statistics.median(one["bare"]["cpu_us"] for one in rounds),
        "asker_cpu_us_per_call": statistics.median(one["pipeline"]["asker_us"] for one in rounds),
        "rest_of_ray_cpu_us_per_call": statistics.median(
            one["pipeline"]["rest_us"] for one in rounds
        ),
    }


def _bare(plan: Path, address: str, model: str, concurrency: int, parts: int) -> dict[str, Any]:
    """Ask everything by the same client, in as many processes as there are askers.

    The rate is that of the middle 80 %.
    """
    served_rate(address)
    command = [sys.executable, "-m", "lab.benchmarks.labelling", "bare", str(plan)]
    given = ["--address", f"{address}/v1", "--model", model]
    given += ["--concurrency", str(max(1, concurrency // parts))]
    children = [
        subprocess.Popen(
            [*command, *given, "--part", str(part), "--parts", str(parts)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for part in range(parts)
    ]
    found: list[dict[str, Any]] = []
    for child in children:
        said, _ = child.communicate()
        if child.returncode:
            raise SystemExit(f"a bare client ended with {child.returncode}")
        found.append(json.loads(said.splitlines()[-1]))
    return {
        "rate": served_rate(address) or sum(one["rate"] for one in found),
        "processes": parts,
        "cpu_us": statistics.mean(one["cpu_us"] for one in found),
        "tokens": {kind: sum(one["tokens"][kind] for one in found) for kind in found[0]["tokens"]},
    }


def bare(options: argparse.Namespace) -> None:
    """Ask what a plan asks, and nothing else: requests are made before the clock starts."""
    os.nice(max(0, NICE - os.nice(0)))
    plan = read_plan(options.plan)
    cases = plan.cases()
    wanted = [
        request(one, cases[one.case], plan.settings)
        for one in plan.asks()
        if one.order % options.parts == options.part
    ]
    times: list[float] = []
    tokens = {"input": 0, "cached": 0, "output": 0}

    async def go() -> None:
        room = asyncio.Semaphore(options.concurrency)
        where = Backbone(address=options.address, model=options.model)
        async with where.connect(plan.settings, options.concurrency) as client:

            async def one(asked: Any) -> None:
                reply = await client.chat(asked.messages, samples=asked.samples, seed=asked.seed)
                times.append(time.perf_counter())
                tokens["input"] += reply.input_tokens
                tokens["cached"] += reply.cached_tokens
                tokens["output"] += reply.output_tokens
                room.release()

            async with asyncio.TaskGroup() as group:
                for asked in wanted:
                    await room.acquire()
                    group.create_task(one(asked))

    before = time.process_time()
    asyncio.run(go())
    cpu_us = (time.process_time() - before) / len(wanted) * 1e6
    print(json.dumps({"rate": _middle_rate(times), "cpu_us": cpu_us, "tokens": tokens}))


def _middle_rate(times: Sequence[float]) -> float:
    """Return events a second between the first tenth and the last: neither start nor end."""
    first, last = len(times) // 10, len(times) - 1 - len(times) // 10
    return (last - first) / (times[last] - times[first])


def _piped(
    plan: Path, out: Path, address: str, model: str, concurrency: int, askers: int
) -> dict[str, Any]:
    """Run the pipeline; the rate is that of its middle 80 % too, by the server or its reports."""
    calls = read_plan(plan).summary.calls
    served_rate(address)
    began = time.monotonic()
    options = ["--model", model, "--concurrency", str(concurrency), "--askers", str(askers)]
    driver = Driver(plan, out, address, *options, "--times", f"{out}.times")
    asker = rest = 0.0
    seconds: dict[int, tuple[str, float]] = {}
    asking = False
    at_first: dict[int, float] = {}
    while driver.child.poll() is None:
        below = {driver.child.pid: "driver", **driver.processes()}
        if not asking and any(out.glob("landing/*/status/*.json")):
            asking = True
            driver.be_polite()
        for pid, name in below.items():
            used = _cpu_seconds(pid)
            if asking:
                at_first.setdefault(pid, used)
                known, most = seconds.get(pid, (name, 0.0))
                # One that ends has no name any more.
                seconds[pid] = (name if "MapWorker" in name else known, max(used, most))
        time.sleep(0.2)
    if driver.child.returncode:
        raise SystemExit(driver.said())
    for pid, (name, used) in seconds.items():
        spent = used - at_first[pid]
        if "MapWorker" in name:
            asker += spent
        else:
            rest += spent
    seen = [(at, done) for at, done in json.loads(Path(f"{out}.times").read_text()) if done]
    kinds = ("input", "cached", "output")
    answers = pq.read_table(out / "answers", columns=[f"{kind}_tokens" for kind in kinds])
    return {
        "rate": served_rate(address) or _reported_rate(seen, calls),
        "tokens": {kind: pc.sum(answers[f"{kind}_tokens"]).as_py() for kind in kinds},
        "asker_us": asker / calls * 1e6,
        "rest_us": rest / calls * 1e6,
        "start_s": seen[0][0] - began,
        "whole_s": time.monotonic() - began,
    }


def _reported_rate(seen: Sequence[tuple[float, int]], calls: int) -> float:
    """Return answers a second over about the middle 80 %, from counts at moments."""
    middle = [one for one in seen if 0.1 * calls <= one[1] <= 0.9 * calls]
    if len(middle) < 2:
        raise SystemExit(f"{calls:,} calls are too few to tell a rate from")
    return (middle[-1][1] - middle[0][1]) / (middle[-1][0] - middle[0][0])


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def growth(options: argparse.Namespace) -> dict[str, Any]:
    """Run plans of growing size on the same server; tell the time of a label and the memory."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="agora-labelling-") as scratch:
        plans = options.plans or Path(scratch)
        for pairs in options.pairs:
            plan = _plan(plans, pairs)
            calls = read_plan(plan).summary.calls
            before = os.getloadavg()[0]
            runs: list[dict[str, Any]] = []
            for _ in range(options.repeats):
                out = Path(scratch) / f"out-{pairs}"
                with steady(options.latency_ms) as address:
                    runs.append(_grown(plan, out, address, options, calls))
                print(f"  {pairs:,} pairs: {json.dumps(runs[-1])}", flush=True)
                shutil.rmtree(out)
            us = [one["us_per_call"] for one in runs]
            found[str(pairs)] = {
                "calls": calls,
                "askers": options.askers,
                "latency_ms": options.latency_ms,
                "concurrency": options.concurrency,
                "us_per_call_median": statistics.median(us),
                "us_per_pair_median": statistics.median(us) * calls / pairs,
                "runs": runs,
                "load": [before, os.getloadavg()[0]],
            }
    return found


def _plan(folder: Path, pairs: int) -> Path:
    plan = folder / f"plan-{pairs}"
    if not (plan / "plan.json").exists():
        toy_plan(plan, pairs, samples=1)
    return plan


def _grown(
    plan: Path, out: Path, address: str, options: argparse.Namespace, calls: int
) -> dict[str, Any]:
    began = time.monotonic()
    given = ("--concurrency", str(options.concurrency), "--askers", str(options.askers))
    driver = Driver(plan, out, address, *given, "--times", f"{out}.times")
    memory: list[tuple[float, float]] = []
    polite = False
    while driver.child.poll() is None:
        time.sleep(0.5)
        memory.append((time.monotonic(), _rss_mib(driver.child.pid)))
        if not polite and any(out.glob("landing/*/status/*.json")):
            polite = True
            driver.be_polite()
    if driver.child.returncode:
        raise SystemExit(driver.said())
    seen = [(at, done) for at, done in json.loads(Path(f"{out}.times").read_text()) if done]
    while_asking = [mib for at, mib in memory if seen[0][0] <= at <= seen[-1][0] and mib]
    # Only the keys: a million rows as Python's own values would not fit beside the rest.
    keys = pq.read_table(out / "answers", columns=["key"])["key"]
    assert len(keys) == len(keys.unique()) == calls
    stored = sum(file.stat().st_size for file in (out / "answers").iterdir())
    asked = tally(address)
    assert asked["calls"] == asked["distinct"] == calls
    return {
        "us_per_call": 1e6 / served_rate(address),
        "stored_bytes_per_call": stored / calls,
        "start_s": seen[0][0] - began,
        "whole_s": time.monotonic() - began,
        "driver_mib_first": while_asking[0] if while_asking else 0.0,
        "driver_mib_most": max(while_asking, default=0.0),
    }


def _rss_mib(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)


def resume(options: argparse.Namespace) -> dict[str, Any]:
    """Go on after so many answers: how long until the first new call, and where the time goes."""
    import numpy as np
    import pyarrow as pa

    from agora_lab.labelling.on_ray import output_settings
    from agora_lab.labelling.outputs import Output

    with tempfile.TemporaryDirectory(prefix="agora-labelling-") as scratch, steady(20) as address:
        plan_folder = _plan(options.plans or Path(scratch), options.answers)
        plan = read_plan(plan_folder)
        out = Path(scratch) / "out"
        where = Backbone(address=f"{address}/v1", model="steady")
        settings = output_settings(plan, where, None)
        with Output(out, settings, plan.summary.calls) as output:
            size = settings["block_asks"]
            asks = pq.read_table(plan.asks_file, columns=["key", "order"])
            for at in range(0, options.answers, size):
                part = asks.slice(at, min(size, options.answers - at))
                pq.write_table(part, output.answers / f"{at:012d}-0.parquet")
            keys = pa.chunked_array(asks.slice(0, options.answers)["key"])
        timed = time.perf_counter()
        before = time.process_time()
        with Output(out, settings, plan.summary.calls) as output:
            assert int(output.done.sum()) == options.answers
        mine = {"s": time.perf_counter() - timed, "cpu_s": time.process_time() - before}
        timed = time.perf_counter()
        before = time.process_time()
        np.sort(keys.to_numpy(zero_copy_only=False))
        theirs = {"s": time.perf_counter() - timed, "cpu_s": time.process_time() - before}
        began = time.monotonic()
        driver = Driver(plan_folder, out, address, "--concurrency", "8")
        while driver.child.poll() is None and not tally(address)["calls"]:
            time.sleep(0.02)
        first = time.monotonic() - began
        driver.child.send_signal(signal.SIGTERM)
        driver.child.wait()
        # The same, with nothing to read: what Python and Ray take to start.
        small = _plan(Path(scratch), 1_000)
        began = time.monotonic()
        calls = tally(address)["calls"]
        driver = Driver(small, Path(scratch) / "small", address, "--concurrency", "8")
        while driver.child.poll() is None and tally(address)["calls"] == calls:
            time.sleep(0.02)
        empty = time.monotonic() - began
        driver.child.wait()
    return {
        "answers": options.answers,
        "planned": plan.summary.calls,
        "seconds_to_first_call": first,
        "seconds_to_first_call_of_a_small_new_run": empty,
        "reading_what_is_done": mine,
        "sorting_the_keys_as_rays_filter_does": theirs,
    }


def main(given: Sequence[str] | None = None) -> None:
    """Read the command and write down what it found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, dest="command")
    one = commands.add_parser("exactly-once")
    one.add_argument("--kills", type=int, default=50)
    one.add_argument("--terms", type=int, default=5)
    one.add_argument("--pairs", type=int, default=10_000)
    one.add_argument("--seed", type=int, default=0)
    one.set_defaults(measure=exactly_once)
    one = commands.add_parser("efficiency")
    one.add_argument("--pairs", type=int, default=10_000)
    one.add_argument("--latency-ms", type=float, default=32.0)
    one.add_argument("--concurrency", type=int, default=64)
    one.add_argument("--askers", type=int, default=2)
    one.add_argument("--rounds", type=int, default=5)
    one.add_argument("--within-s", type=float, default=360.0, help="No round begins after this.")
    one.add_argument("--model", help="Ask a real llama.cpp server: a GGUF file or name.")
    one.set_defaults(measure=efficiency)
    one = commands.add_parser("growth")
    one.add_argument("--pairs", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000])
    one.add_argument("--latency-ms", type=float, default=2.0)
    one.add_argument("--concurrency", type=int, default=64)
    one.add_argument("--askers", type=int, default=1)
    one.add_argument("--repeats", type=int, default=3)
    one.add_argument("--plans", type=Path, help="Where plans are, or are put, to be used again.")
    one.set_defaults(measure=growth)
    one = commands.add_parser("resume")
    one.add_argument("--answers", type=int, default=1_000_000)
    one.add_argument("--plans", type=Path, help="Where plans are, or are put, to be used again.")
    one.set_defaults(measure=resume)
    one = commands.add_parser("bare")
    one.add_argument("plan", type=Path)
    one.add_argument("--part", type=int, default=0)
    one.add_argument("--parts", type=int, default=1)
    one.add_argument("--address", required=True)
    one.add_argument("--model", default="steady")
    one.add_argument("--concurrency", type=int, default=8)
    one.set_defaults(measure=None)
    options = parser.parse_args(given)
    if options.measure is None:
        bare(options)
        return
    # What was started is stopped, and what was mounted is not left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM; nothing was written"))
    before = os.getloadavg()[0]
    found = options.measure(options)
    # Two figures that say whether times mean anything: on a busy machine they do not.
    found["machine"] = {"cores": os.cpu_count(), "load": [before, os.getloadavg()[0]]}
    print(json.dumps(found, indent=1))
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    # Sizes and servers may be measured one by one, and each says how busy the machine was.
    kept = results.get(options.command, {}) if options.command in {"growth", "efficiency"} else {}
    results[options.command] = kept | found
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()

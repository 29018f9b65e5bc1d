"""A labelling run that can be watched and killed: a plan, a steady server, a driver."""

import argparse
import atexit
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from agora import parse
from agora_lab.labelling.asking import Backbone
from agora_lab.labelling.cases import Case, from_trajectory
from agora_lab.labelling.plan import PlanSettings, Summary, write_plan

NICE = 10


_SEEN = ("a mug", "a lamp", "a book", "nothing", "a pen", "a newspaper")


def toy_cases(count: int, steps: int = 12, words: int = 8) -> Iterator[Case]:
    """Return trajectories of an agent that walks along shelves, all different."""
    chance = random.Random(0)
    for number in range(count):
        chat = [
            {"role": "system", "content": "You walk through a house."},
            {"role": "user", "content": f"Task {number}: find the mug {chance.randrange(10**9)}."},
        ]
        for step in range(steps):
            seen = " and ".join(chance.choice(_SEEN) for _ in range(words))
            chat.append({"role": "assistant", "content": f"go to shelf {step}"})
            chat.append({"role": "user", "content": f"On shelf {step} you see {seen}."})
        whole = parse(chat, format="openai", observations="user")
        case = from_trajectory(whole, name=f"toy-{number}", source="toy", task=f"toy-{number}")
        if case is not None:
            yield case


def toy_plan(folder: Path, pairs: int, *, backbone: str = "steady", **given: Any) -> Summary:
    """Write a plan of about so many pairs: 45 and 54 asks of each trajectory of 12 steps."""
    settings = PlanSettings(**{"backbone": backbone, "samples": 4, **given})
    return write_plan(folder, toy_cases(max(1, round(pairs / 45))), settings)


@contextmanager
def steady(latency_ms: float) -> Iterator[str]:
    """Have a server on this machine; yield its address without `/v1`."""
    command = [
        sys.executable,
        "-m",
        "lab.harness.steady_server",
        "--latency-ms",
        str(latency_ms),
    ]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        yield f"http://127.0.0.1:{int(child.stdout.readline())}"
    finally:
        child.terminate()
        child.wait()


def tally(address: str) -> dict[str, int]:
    """Return what a steady server counted."""
    with urllib.request.urlopen(f"{address}/tally") as answer:  # noqa: S310
        found: dict[str, int] = json.load(answer)
    return found


def used_s(address: str) -> float:
    """Return the CPU seconds that a steady server took so far."""
    with urllib.request.urlopen(f"{address}/used") as answer:  # noqa: S310
        return float(json.load(answer)["cpu_s"])


def served_rate(address: str) -> float:
    """Return the calls a second that a steady server had since it was asked last; 0 for others."""
    try:
        with urllib.request.urlopen(f"{address}/rate") as answer:  # noqa: S310
            return float(json.load(answer)["rate"])
    except urllib.error.HTTPError:
        return 0.0


def answers_hash(folder: Path) -> tuple[int, int, str]:
    """Return rows, distinct keys and a hash of all rows in the order of their keys."""
    table = pq.read_table(folder / "answers").sort_by("key")
    digest = hashlib.sha256()
    for row in table.drop_columns(["attempts"]).to_pylist():
        digest.update(json.dumps(row, sort_keys=True).encode())
    return table.num_rows, len(set(table["key"].to_pylist())), digest.hexdigest()


class Driver:
    """A run in a process of its own, that can be watched and killed."""

    def __init__(self, plan: Path, out: Path, address: str, *options: str) -> None:
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        command = [sys.executable, "-m", "lab.harness.labelling", str(plan), str(out)]
        self.child = subprocess.Popen(
            [*command, "--address", f"{address}/v1", *options],
            stdout=self.log,
            stderr=self.log,
            # Workers are as nice as whoever starts them, not more: a bare client is not either.
            env={**os.environ, "RAY_worker_niceness": "0"},
        )
        atexit.register(self.end)

    def end(self) -> None:
        """Stop the run if it still goes on, as when this process is told to end."""
        while self.child.poll() is None:
            # The second signal does not wait for what is under way.
            self.child.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.child.wait(timeout=20)

    def said(self) -> str:
        """Return what it wrote so far."""
        self.log.seek(0)
        return self.log.read()

    def processes(self) -> dict[int, str]:
        """Return the processes below it with their names."""
        parents: dict[int, list[int]] = {}
        names: dict[int, str] = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                stat = (entry / "stat").read_text()
                name = (entry / "cmdline").read_bytes().split(b"\0", 1)[0].decode()
            except OSError:
                continue
            parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
            names[int(entry.name)] = name
        found: dict[int, str] = {}
        queue = [self.child.pid]
        while queue:
            for child in parents.get(queue.pop(), ()):
                found[child] = names[child]
                queue.append(child)
        return found

    def be_polite(self) -> None:
        """Step back behind other work. Ray gives its parts seconds to start, so only then."""
        for pid in (self.child.pid, *self.processes()):
            with suppress(OSError):
                for thread in Path(f"/proc/{pid}/task").iterdir():
                    # On Linux every thread has a niceness of its own.
                    os.setpriority(os.PRIO_PROCESS, int(thread.name), NICE)

    def pick(self, kind: str) -> int | None:
        """Return a process of a kind, if there is one now."""
        if kind == "driver":
            return self.child.pid
        marks = {"asker": "ray::MapWorker", "writer": "ray::Write", "raylet": "/raylet"}
        found = [pid for pid, name in self.processes().items() if marks[kind] in name]
        return found[0] if found else None


def run(options: argparse.Namespace) -> None:
    """Run a plan, as the other benchmarks do in a process of their own."""
    from agora.errors import AgoraError
    from agora_lab.labelling.on_ray import run_plan
    from agora_lab.labelling.progress import Progress

    began = time.time()
    seen: list[tuple[float, int]] = []

    def report(at: Progress) -> None:
        if at.counts.answered != (seen[-1][1] if seen else -1):
            seen.append((time.monotonic(), at.counts.answered))
        if options.times is None:
            print(f"{time.time() - began:.1f} s: {at}", flush=True)

    try:
        outcome = run_plan(
            options.plan,
            options.out,
            Backbone(
                address=options.address,
                model=options.model,
                samples_at_once=options.samples_at_once,
            ),
            concurrency=options.concurrency,
            askers=options.askers,
            block_asks=options.block_asks,
            spare_mib=options.spare_mib,
            report=report,
            report_s=1.0 if options.times is None else 0.25,
        )
    except AgoraError as error:
        raise SystemExit(f"Error: {error}") from error
    if options.times is not None:
        options.times.write_text(json.dumps(seen))
    print(outcome)
    raise SystemExit(0 if outcome.complete else 1)


def main() -> None:
    """Run a plan in this process: what `Driver` starts."""
    one = argparse.ArgumentParser(description=main.__doc__)
    one.add_argument("plan", type=Path)
    one.add_argument("out", type=Path)
    one.add_argument("--address", required=True)
    one.add_argument("--model", default="steady")
    one.add_argument("--concurrency", type=int, default=8)
    one.add_argument("--askers", type=int, default=1)
    one.add_argument("--block-asks", type=int)
    one.add_argument("--samples-at-once", type=int)
    one.add_argument("--spare-mib", type=int, default=64)
    one.add_argument("--times", type=Path)
    run(one.parse_args())


if __name__ == "__main__":
    main()

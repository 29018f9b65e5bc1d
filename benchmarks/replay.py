"""How much memory and time `agora replay` takes on large logs and on long trajectories.

    python -m benchmarks.replay                     1 GB of generated logs
    python -m benchmarks.replay --megabytes 100     less
    python -m benchmarks.replay --steps             one trajectory of 250 to 2,000 steps instead
    python -m benchmarks.replay --steps 500 --out benchmarks/results/replay-time.json

With `--steps` each length is replayed on its own under all policies, by its model's own prices:
CPU seconds and peak memory of the whole command, the start of Python included. The bar is 20 s for
2,000 steps. Otherwise two logs of equal size: finished chat trajectories, and one request per call
in the Messages format with several agents interleaved. Memory is that of all processes together,
read from /proc ten times a second.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import agora
from harness.gateway.histories import chat, messages

LIMIT_MB = 500
LENGTHS = (250, 500, 1_000, 2_000)
BAR_STEPS, BAR_SECONDS = 2_000, 20
_INTERLEAVED = 6


def trajectories(rng: random.Random) -> Iterator[str]:
    """Yield finished chat trajectories, one per line."""
    for seed in count():
        body = chat(_steps(rng), seed=seed)
        model = rng.choice(("gpt-5", "gpt-4o"))
        yield json.dumps({"model": model, "messages": body["messages"]})


def requests(rng: random.Random) -> Iterator[str]:
    """Yield requests in the Messages format, every call with all before it, agents interleaved."""
    running: list[Iterator[str]] = []
    for number in count():
        if len(running) < _INTERLEAVED:
            running.append(_calls(number, _steps(rng)))
        agent = rng.choice(running)
        line = next(agent, None)
        if line is None:
            running.remove(agent)
        else:
            yield line


def _calls(number: int, steps: int) -> Iterator[str]:
    body = messages(steps)
    whole = body.pop("messages")
    whole[0]["content"] += f" This is ticket {number}."
    for at in range(0, 2 * steps, 2):
        answer = {"type": "message", **whole[at + 1]}
        yield json.dumps({"request": {**body, "messages": whole[: at + 1]}, "response": answer})


def _steps(rng: random.Random) -> int:
    return min(120, 2 + int(rng.expovariate(1 / 18)))


LOGS = {"chat.jsonl": trajectories, "messages.jsonl": requests}


def generate(folder: Path, size: int) -> None:
    """Write logs of about `size` bytes in all."""
    for name, lines in LOGS.items():
        left = size // len(LOGS)
        with (folder / name).open("w", encoding="utf-8") as file:
            for line in lines(random.Random(name)):
                left -= file.write(line + "\n")
                if left <= 0:
                    break


def parse_seconds(folder: Path) -> float:
    """Return how long it takes to parse every line and do nothing with it."""
    start = time.perf_counter()
    for name in LOGS:
        with (folder / name).open("rb") as file:
            for line in file:
                json.loads(line)
    return time.perf_counter() - start


def resident_bytes(root: int) -> int:
    """Return the resident memory of a process and all below it."""
    parents: dict[int, int] = {}
    pages: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path("/proc", entry, "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            fields = stat.rpartition(")")[2].split()
            parents[int(entry)], pages[int(entry)] = int(fields[1]), int(fields[21])
    family = {root}
    while True:
        more = {pid for pid, parent in parents.items() if parent in family} - family
        if not more:
            return sum(pages.get(pid, 0) for pid in family) * os.sysconf("SC_PAGE_SIZE")
        family |= more


def time_against_length(lengths: Sequence[int], out: Path | None) -> None:
    """Replay one trajectory of each length, and print and write what it took."""
    rows = []
    print(f"{'steps':>6} {'log':>9} {'CPU':>8} {'memory':>8}   of each step")
    for steps in lengths:
        row = _one_length(steps)
        rows.append(row)
        print(
            f"{steps:>6,} {row['log_bytes'] / 1e6:>6.1f} MB {row['cpu_seconds']:>6.1f} s "
            f"{row['peak_bytes'] / 1e6:>5.0f} MB   {row['cpu_seconds'] / steps * 1e3:.1f} ms",
            flush=True,
        )
    if out:
        found = {
            "version": agora.__version__,
            "bar_seconds": BAR_SECONDS,
            "lengths": rows,
        }
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if any(row["steps"] <= BAR_STEPS and row["cpu_seconds"] > BAR_SECONDS for row in rows):
        sys.exit(f"a trajectory of {BAR_STEPS:,} steps takes more than {BAR_SECONDS} s")


def _one_length(steps: int) -> dict[str, Any]:
    body = {"model": "claude-sonnet-5", "messages": chat(steps)["messages"]}
    # An answer at the end: the last step is over.
    body["messages"] = [*body["messages"], {"role": "assistant", "content": "Done."}]
    line = json.dumps(body)
    with tempfile.TemporaryDirectory() as scratch:
        log, report = Path(scratch, "log.jsonl"), Path(scratch, "report.json")
        log.write_text(line + "\n", encoding="utf-8")
        command = [sys.executable, "-m", "agora.cli", "replay", "--workers", "1", str(log)]
        command += ["--json", str(report)]
        replay = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(replay.pid, 0)
        replay.returncode = os.waitstatus_to_exitcode(status)
        if replay.returncode:
            sys.exit(f"the replay of {steps:,} steps ended with {replay.returncode}")
        read = json.loads(report.read_text(encoding="utf-8"))
    if read["steps"] != steps:
        sys.exit(f"of {steps:,} steps {read['steps']:,} were seen")
    return {
        "steps": steps,
        "log_bytes": len(line) + 1,
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
        "peak_bytes": used.ru_maxrss * 1024,
    }


def main() -> None:
    """Generate, parse, replay, and print what it took."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--megabytes", type=int, default=1_000)
    options.add_argument("--steps", type=int, nargs="*", help="time one trajectory of each length")
    options.add_argument("--out", type=Path, help="with --steps: write what was measured as JSON")
    given = options.parse_args()
    if given.steps is not None:
        time_against_length(given.steps or LENGTHS, given.out)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        generate(folder, given.megabytes * 1_000_000)
        size = sum((folder / name).stat().st_size for name in LOGS)
        parsing = parse_seconds(folder)
        out = Path(scratch, "report.json")
        command = [sys.executable, "-m", "agora.cli", "replay", "--json", str(out)]
        command += [str(folder / name) for name in LOGS]
        start = time.perf_counter()
        replay = subprocess.Popen(command)
        most = 0
        while replay.poll() is None:
            most = max(most, resident_bytes(replay.pid))
            time.sleep(0.1)
        replaying = time.perf_counter() - start
        if replay.returncode:
            sys.exit(f"the replay ended with {replay.returncode}")
        report = json.loads(out.read_text(encoding="utf-8"))
    print()
    print(
        f"{size / 1e6:,.0f} MB, {report['trajectories']:,} trajectories, {report['steps']:,} steps"
    )
    print(f"parsing      {parsing:8.1f} s  {size / 1e6 / parsing:8.1f} MB/s  (one process)")
    print(f"replaying    {replaying:8.1f} s  {size / 1e6 / replaying:8.1f} MB/s")
    print(f"ratio        {replaying / parsing:8.1f}    times as long as parsing")
    print(f"resident     {most / 1e6:8.0f} MB at most, all processes together (bar: {LIMIT_MB} MB)")
    if most > LIMIT_MB * 1e6:
        sys.exit("more memory than it may take")


if __name__ == "__main__":
    main()

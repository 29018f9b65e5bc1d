"""How much memory `agora replay` takes on large logs, and how its time compares with parsing them.

    python -m benchmarks.replay                     1 GB of generated logs
    python -m benchmarks.replay --megabytes 100     less
    python -m benchmarks.replay --keep FOLDER       leave the logs there, and use them if they are
    python -m benchmarks.replay --steps             one trajectory of 250 to 2,000 steps instead
    python -m benchmarks.replay --steps 500 --out FILE

With `--steps` each length is replayed on its own under all policies, by its model's own prices:
CPU seconds and peak memory of the whole command, the start of Python included. The bar is 20 s for
2,000 steps. With `--page` a page is made too, which compares the prices of other families.

Four shapes in equal parts: finished chat trajectories, one request per call in the Messages
format with several agents interleaved, Responses items, and Claude Code transcripts.
Memory is that of all processes together, read from /proc ten times a second.
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
from pathlib import Path
from typing import Any

import agora

WORDS = (
    "account batch booking cache column commit config currency customer daemon deploy export field "
    "flight gateway handler index invoice ledger legend limit loader marker metric module notice "
    "object order packet parser policy quota record refund report result review route schema "
    "server sheet signal source stage status stream table target ticket token trace value worker"
).split()
MODELS = ("claude-sonnet-5", "claude-opus-5-5", "gpt-5", "gpt-4o")
LIMIT_MB = 500
LENGTHS = (250, 500, 1_000, 2_000)
BAR_STEPS, BAR_SECONDS = 2_000, 20
_INTERLEAVED = 6


class Agent:
    """A made-up agent: what it was asked, and the calls it makes with what came back."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.system = "You look after a booking system. " + self.text(400)
        self.task = f"Find out why {self.name()} fails, and repair it. {self.text(40)}"
        self.steps = min(120, 2 + int(rng.expovariate(1 / 18)))

    def name(self) -> str:
        """Return something that looks like a symbol."""
        return f"{self._rng.choice(WORDS)}_{self._rng.choice(WORDS)}_{self._rng.randrange(100)}"

    def text(self, words: int) -> str:
        """Return so many words, some of them names and numbers."""
        rng = self._rng
        out = rng.choices(WORDS, k=words)
        for place in range(0, words, 9):
            out[place] = self.name() if place % 2 else str(rng.randrange(10**6))
        return " ".join(out)

    def step(self) -> tuple[str, dict[str, str], str]:
        """Return a tool, its arguments and its result."""
        words = 20 + int(self._rng.expovariate(1 / 300))
        tool = self._rng.choice(("read_file", "search", "run", "query"))
        return tool, {"path": f"src/{self.name()}.py"}, self.text(words)


def chat(rng: random.Random) -> Iterator[str]:
    """Yield finished chat trajectories, one per line."""
    while True:
        agent = Agent(rng)
        messages = _chat_messages(agent, agent.steps)
        yield json.dumps({"model": rng.choice(MODELS[2:]), "messages": messages})


def _chat_messages(agent: Agent, steps: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": agent.system},
        {"role": "user", "content": agent.task},
    ]
    for number in range(steps):
        tool, arguments, result = agent.step()
        function = {"name": tool, "arguments": json.dumps(arguments)}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": result})
    messages.append({"role": "assistant", "content": "Done."})
    return messages


def anthropic(rng: random.Random) -> Iterator[str]:
    """Yield requests in the Messages format, every call with all before it, agents interleaved."""
    running: list[Iterator[str]] = []
    while True:
        while len(running) < _INTERLEAVED:
            running.append(_anthropic_calls(Agent(rng), rng.choice(MODELS[:2])))
        agent = rng.choice(running)
        line = next(agent, None)
        if line is None:
            running.remove(agent)
        else:
            yield line


def _anthropic_calls(agent: Agent, model: str) -> Iterator[str]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": agent.task}]
    for number in range(agent.steps):
        tool, arguments, result = agent.step()
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": arguments}
        answer = {"type": "message", "role": "assistant", "content": [use]}
        request = {"model": model, "system": agent.system, "messages": messages}
        yield json.dumps({"request": request, "response": answer})
        back = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": result}
        messages.append({"role": "assistant", "content": [use]})
        messages.append({"role": "user", "content": [back]})


def responses(rng: random.Random) -> Iterator[str]:
    """Yield requests in the Responses format, the last call of each trajectory."""
    while True:
        agent = Agent(rng)
        items: list[dict[str, Any]] = [{"role": "user", "content": agent.task}]
        for number in range(agent.steps):
            tool, arguments, result = agent.step()
            call = {"type": "function_call", "call_id": f"call_{number}", "name": tool}
            items.append({**call, "arguments": json.dumps(arguments)})
            items.append(
                {"type": "function_call_output", "call_id": f"call_{number}", "output": result}
            )
        yield json.dumps({"model": "gpt-5", "instructions": agent.system, "input": items})


def transcript(rng: random.Random) -> Iterator[str]:
    """Yield the lines of Claude Code transcripts."""
    for session in range(1 << 30):
        agent = Agent(rng)
        yield _line(session, "user", 0, {"role": "user", "content": agent.task})
        for number in range(agent.steps):
            tool, arguments, result = agent.step()
            block = {"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": arguments}
            answer = {
                "id": f"msg_{session}_{number}",
                "role": "assistant",
                "model": MODELS[1],
                "content": [block],
                "usage": {"output_tokens": 40},
            }
            yield _line(session, "assistant", 2 * number + 1, answer)
            back = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": result}
            yield _line(session, "user", 2 * number + 2, {"role": "user", "content": [back]})


def _line(session: int, kind: str, number: int, message: dict[str, Any]) -> str:
    minutes, seconds = divmod(number * 7, 60)
    return json.dumps(
        {
            "type": kind,
            "sessionId": f"s{session}",
            "uuid": f"u{session}-{number}",
            "parentUuid": f"u{session}-{number - 1}" if number else None,
            "timestamp": f"2026-01-01T{minutes // 60:02}:{minutes % 60:02}:{seconds:02}Z",
            "message": message,
        }
    )


SHAPES = {
    "chat.jsonl": chat,
    "anthropic.jsonl": anthropic,
    "responses.jsonl": responses,
    "transcript.jsonl": transcript,
}


def generate(folder: Path, size: int) -> None:
    """Write logs of about `size` bytes in all, if they are not there yet."""
    for name, shape in SHAPES.items():
        path = folder / name
        if path.exists() and path.stat().st_size >= size // len(SHAPES):
            continue
        left = size // len(SHAPES)
        with path.open("w", encoding="utf-8") as file:
            for line in shape(random.Random(name)):
                left -= file.write(line + "\n")
                if left <= 0 and (name != "transcript.jsonl" or '"parentUuid": null' in line):
                    break


def parse_seconds(folder: Path) -> float:
    """Return how long it takes to parse every line and do nothing with it."""
    start = time.perf_counter()
    for name in SHAPES:
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


def time_against_length(lengths: Sequence[int], out: Path | None, *, page: bool) -> None:
    """Replay one trajectory of each length, and print and write what it took."""
    rows = []
    print(f"{'steps':>6} {'log':>9} {'CPU':>8} {'memory':>8}   of each step")
    for steps in lengths:
        row = _one_length(steps, page=page)
        rows.append(row)
        print(
            f"{steps:>6,} {row['log_bytes'] / 1e6:>6.1f} MB {row['cpu_seconds']:>6.1f} s "
            f"{row['peak_bytes'] / 1e6:>5.0f} MB   {row['cpu_seconds'] / steps * 1e3:.1f} ms",
            flush=True,
        )
    if out:
        found = {
            "version": agora.__version__,
            "page": page,
            "bar_seconds": BAR_SECONDS,
            "lengths": rows,
        }
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if any(row["steps"] <= BAR_STEPS and row["cpu_seconds"] > BAR_SECONDS for row in rows):
        sys.exit(f"a trajectory of {BAR_STEPS:,} steps takes more than {BAR_SECONDS} s")


def _one_length(steps: int, *, page: bool) -> dict[str, Any]:
    agent = Agent(random.Random(f"{steps} steps"))
    line = json.dumps({"model": MODELS[0], "messages": _chat_messages(agent, steps)})
    with tempfile.TemporaryDirectory() as scratch:
        log, report = Path(scratch, "log.jsonl"), Path(scratch, "report.json")
        log.write_text(line + "\n", encoding="utf-8")
        command = [sys.executable, "-m", "agora.cli", "replay", "--workers", "1", str(log)]
        command += ["--json", str(report)]
        command += ["--html", str(Path(scratch, "page.html"))] if page else []
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
    options.add_argument("--keep", type=Path)
    options.add_argument("--workers", type=int)
    options.add_argument("--steps", type=int, nargs="*", help="time one trajectory of each length")
    options.add_argument("--page", action="store_true", help="with --steps: make a page too")
    options.add_argument("--out", type=Path, help="with --steps: write what was measured as JSON")
    given = options.parse_args()
    if given.steps is not None:
        time_against_length(given.steps or LENGTHS, given.out, page=given.page)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        generate(folder, given.megabytes * 1_000_000)
        size = sum((folder / name).stat().st_size for name in SHAPES)
        parsing = parse_seconds(folder)
        out = Path(scratch, "report.json")
        command = [sys.executable, "-m", "agora.cli", "replay", "--json", str(out)]
        command += ["--workers", str(given.workers)] if given.workers else []
        command += [str(folder / name) for name in SHAPES]
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

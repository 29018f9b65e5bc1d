"""Plans of made-up trajectories, and a steady server to ask."""

import json
import random
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agora import parse
from agora_lab.label.cases import Case, from_trajectory
from agora_lab.label.plan import Plan, PlanSettings, write_plan

_SEEN = ("a mug", "a lamp", "a book", "nothing", "a pen", "a newspaper")


def toy_cases(count: int, steps: int = 12, words: int = 8) -> Iterator[Case]:
    """Return different trajectories of an agent that walks along shelves."""
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


def toy_plan(folder: Path, least: int, *, steps: int = 12, **settings: Any) -> Plan:
    """Write a plan for at least so many pairs, from trajectories of so many steps."""
    pairs_per_case = (steps - 3) * (steps - 2) // 2
    cases = toy_cases(-(-least // pairs_per_case), steps)
    return write_plan(folder, cases, PlanSettings(**{"backbone": "openai:steady", **settings}))


@contextmanager
def steady(latency_ms: float) -> Iterator[str]:
    """Run a server on this machine; yield its address without `/v1`."""
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
        counts: dict[str, int] = json.load(answer)
    return counts


def fail_next(address: str, calls: int) -> None:
    """Make the server refuse the next calls as one that is too busy does."""
    urllib.request.urlopen(f"{address}/fail?next={calls}", data=b"{}").close()  # noqa: S310

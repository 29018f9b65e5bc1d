"""Plans of made-up trajectories, a steady server to ask, and what a run of labelling wrote."""

import hashlib
import json
import random
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from agora import parse
from agora_lab.label.cases import Case, from_trajectory
from agora_lab.label.plan import PlanSettings, Summary, write_plan

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


def answers_hash(folder: Path) -> tuple[int, int, str]:
    """Return rows, distinct keys and a hash of all rows in the order of their keys."""
    table = pq.read_table(folder / "answers").sort_by("key")
    digest = hashlib.sha256()
    for row in table.drop_columns(["attempts"]).to_pylist():
        digest.update(json.dumps(row, sort_keys=True).encode())
    return table.num_rows, len(set(table["key"].to_pylist())), digest.hexdigest()

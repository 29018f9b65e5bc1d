"""Agents that act by text: how many recorded ones are seen without being told.

`python -m benchmarks.text_agents` compresses made-up chats of people at the smallest budget, and
prints how many lost a message. Then it reads the recorded folders under AGORA_DATA, takes away what
their readers say of observations, and prints per folder in how many runs steps are seen, and how
many of the agent's answers are read as observations. What has no frame that a program writes is
not guessed: such runs count as told where they have ten turns or more.
"""

import argparse
import os
import random
from itertools import islice
from pathlib import Path

from agora import Budget, Compressor
from agora.logs import Tally, read_logs
from agora.testing.chats import human_chat, lost
from harness.text_agents import look

DATA = Path(os.environ.get("AGORA_DATA", Path(__file__).parents[2] / "shared" / "data"))
FOLDERS = ("swe-bench-gemini", "swe-agent", "whowhen", "knowagent", "intercode", "adapt")


def chats_that_lose(count: int) -> tuple[int, int]:
    """Return how many of so many chats of people lose one of their messages, and have steps."""
    compressor = Compressor(schedule="every_call", budget=Budget(limit=1), k_recent=0, min_tokens=0)
    losing = stepping = 0
    for seed in range(count):
        chat = human_chat(random.Random(seed))
        compression = compressor.compress(chat, format="openai")
        losing += bool(lost(chat, compression.messages))
        stepping += bool(compression.decisions)
    return losing, stepping


def main() -> None:
    """Print what became of people's chats, and a row for each folder that is there."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--limit", type=int, help="runs of each folder; all by default")
    options.add_argument("--chats", type=int, default=10_000, help="made-up chats of people")
    given = options.parse_args()
    limit: int | None = given.limit
    losing, stepping = chats_that_lose(given.chats)
    print(
        f"{given.chats:,} chats of people: {losing} lose a message, {stepping} have a step",
        flush=True,
    )
    print(f"{'folder':18} {'runs':>6} {'seen':>6} {'share':>6} {'told':>6} {'answers read':>18}")
    for folder in FOLDERS:
        if not (DATA / folder).is_dir():
            print(f"{folder:18} is not in the data folder")
            continue
        seen = look(islice(read_logs([DATA / folder], Tally()), limit))
        share = seen.seen / seen.runs if seen.runs else 0.0
        read = f"{seen.observations:,} of {seen.answers:,}"
        print(
            f"{folder:18} {seen.runs:6,} {seen.seen:6,} {share:6.1%} {seen.told:6,} {read:>18}",
            flush=True,
        )


if __name__ == "__main__":
    main()

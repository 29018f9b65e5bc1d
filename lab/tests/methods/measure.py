"""What each method makes of recorded trajectories: realised compression and time per call.

    python lab/tests/methods/measure.py [--gguf FILE] [--only NAME ...] [--example]

Recorded ALFWorld episodes (KnowAgent, in `AGORA_DATA`) are written as chats; each is
shortened as it stood after its last action. Methods that ask a language model are left
out: what they do is the language model's doing. CPU is that of this process, per call.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agora_lab.chats import read, tokens_of
from agora_lab.environments.data import data_file
from agora_lab.methods import NAMES, MethodSettings, SkipMethod, close, method

SYSTEM = (
    "You act in a house by text. Actions: go to X, open X, close X, take X from Y, "
    "put X in/on Y, heat X with Y, cool X with Y, clean X with Y, use X, look. "
    "Answer with one action."
)
_ASK = ("hiagent", "agentdiet", "agentdiet_matched", "acon", "acon_matched")


def chats(least_steps: int = 12) -> Iterator[list[dict[str, Any]]]:
    """Yield recorded episodes as chats, those of many steps, in the order of the file."""
    name = "knowagent/KnowAgentALFWorld_llama-2-13b_D1.jsonl"
    for line in data_file(name, origin="zjunlp/KnowAgent").read_text().splitlines():
        chat = played(json.loads(line)["traj"])
        if len(chat) >= 2 + 2 * least_steps:
            yield chat


def played(text: str) -> list[dict[str, Any]]:
    """Return one recorded episode as a chat: lines after `>` are said, others are observed."""
    opening, *rest = text.split("\n> ")
    chat = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": opening.strip()}]
    for part in rest:
        said, _, observed = part.partition("\n")
        if not said.startswith(("Think", "ActionPath")) and observed.strip():
            chat.append({"role": "assistant", "content": said.strip()})
            chat.append({"role": "user", "content": observed.strip()})
    return chat


def main() -> None:
    """Print one line per method."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gguf", type=Path)
    parser.add_argument("--only", nargs="*", default=[n for n in NAMES if n not in _ASK])
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--keep-ratio", type=float, default=0.25)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--options", type=json.loads, default={})
    parser.add_argument("--example", action="store_true")
    given = parser.parse_args()
    source = None
    if given.gguf:
        from agora_lab.methods.self_information import LocalModel

        source = LocalModel(given.gguf)
    settings = MethodSettings(
        keep_ratio=given.keep_ratio,
        model="gpt-4o",
        self_information=source,
        weights=given.weights,
        options=given.options,
    )
    recorded = [chat for chat, _ in zip(chats(), range(given.count), strict=False)]
    sizes = [tokens_of(chat) for chat in recorded]
    targets = [read(c).room(given.keep_ratio) / n for c, n in zip(recorded, sizes, strict=True)]
    say(
        f"{len(recorded)} chats of {min(sizes)}-{max(sizes)} tokens, "
        f"mean {statistics.mean(sizes):.0f}; "
        f"keep_ratio {given.keep_ratio} leaves {statistics.mean(targets):.3f} "
        f"({min(targets):.3f}-{max(targets):.3f})"
    )
    for name in given.only:
        try:
            made = method(name, settings)
            made.shorten(recorded[0])
        except SkipMethod as why:
            say(f"{name:34} skipped: {why}")
            continue
        kept, seconds, changed, why_not = [], [], 0, ""
        worked = time.process_time()
        for chat, size in zip(recorded, sizes, strict=True):
            began = time.perf_counter()
            shortened = made.shorten(chat)
            seconds.append(time.perf_counter() - began)
            kept.append(tokens_of(shortened.messages) / size)
            changed += shortened.messages != chat
            why_not = why_not or shortened.detail
        worked = time.process_time() - worked
        say(
            f"{name:34} kept {statistics.mean(kept):.3f} ({min(kept):.3f}-{max(kept):.3f}), "
            f"{1 / statistics.mean(kept):.2f}x, changed {changed}/{len(recorded)}, "
            f"{1000 * statistics.median(seconds):.1f} ms (most {1000 * max(seconds):.0f}), "
            f"CPU {worked / len(recorded) * 1000:.1f} {why_not}"
        )
        if given.example:
            for message in made.shorten(recorded[0]).messages:
                say(f"[{str(message['role']).upper()}]\n{message['content']}\n")
        close(made)


def say(text: str) -> None:
    """Write a line."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

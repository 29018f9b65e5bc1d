"""Whether compressor, replay, explain and gateway name the same edits, call by call.

    python -m benchmarks.one_question                          1,000 drawn and all recorded
    python -m benchmarks.one_question --drawn 1000 --recorded 0
    python -m benchmarks.one_question --seed 4711              one drawn conversation
    python -m benchmarks.one_question --out docs/results/one-question.json

Drawn conversations are asked about at every call, of all four. Recorded ones are every trajectory
that `agora replay` reads below AGORA_DATA. They too are asked about at every call, of replay and
of the gateway, which remembers what it has read; compressor and explain, which read a whole prompt
for each call, at eight calls spread over the trajectory and at the calls next to a change. Where a
log's usage tells of more than its messages (system text, tools), replay and explain are asked about
the log cut at eight of its calls. Exits with 1 if somebody names another epoch than the others.
"""

import argparse
import json
import math
import os
import platform
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, redirect_stderr
from dataclasses import asdict
from io import StringIO
from itertools import islice
from pathlib import Path

import agora
from agora.compressor import Compressor
from agora.logs import Recording, Tally, read_logs
from agora.scorers.recency import RecencyScorer
from harness.one_question import Asked, ask, ask_log, drawn, recorded, spread
from harness.recordings import CLAUDE_CODE, unpacked

DATA = Path(os.environ.get("AGORA_DATA", Path(__file__).parents[2] / "shared" / "data"))
SETTINGS = {
    "as shipped": Compressor(scorer=RecencyScorer()),
    "eager": Compressor(scorer=RecencyScorer(), min_tokens=0, ceiling=math.inf),
}
"""How recorded ones are compressed; the second is for short ones, which the first leaves alone."""
_LONG = 60
"""Messages of a trajectory that is not a short one."""
_BATCH = 24
_SHOWN = 20


def ask_drawn(seeds: Iterable[int]) -> Asked:
    """Ask about drawn conversations."""
    total = Asked()
    with redirect_stderr(StringIO()):
        for seed in seeds:
            total.add(ask(drawn(seed)))
    return total


def ask_recorded(recordings: list[Recording]) -> dict[str, Asked]:
    """Ask about recorded ones, with each of the settings."""
    totals = {name: Asked() for name in (*SETTINGS, "with what the log does not show")}
    with redirect_stderr(StringIO()):
        for recording in recordings:
            for name, compressor in SETTINGS.items():
                if name != "as shipped" and len(recording.messages) > _LONG:
                    continue
                conversation = recorded(recording, compressor)
                totals[name].add(ask(conversation, full=spread(len(conversation.calls))))
            if recording.lacks and len(recording.usage) == len(recording.calls):
                for compressor in SETTINGS.values():
                    found = ask_log(recording, compressor)
                    totals["with what the log does not show"].add(found)
    return totals


@contextmanager
def folders(data: Path) -> Iterator[list[Path]]:
    """Give the folders of logs below another, archives among them unpacked."""
    with ExitStack() as stack:
        found = sorted(path for path in data.iterdir() if path.is_dir())
        packed = data / CLAUDE_CODE
        yield [
            stack.enter_context(unpacked(packed)) if path == packed.parent else path
            for path in found
        ]


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--drawn", type=int, default=1_000, metavar="N")
    parser.add_argument("--folder", default="", help="Only this one of the recorded folders.")
    parser.add_argument("--recorded", type=int, default=None, metavar="N", help="of each folder")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    if options.seed is not None:
        asked = ask(drawn(options.seed))
        print(json.dumps(asdict(asked), indent=2))
        return 1 if asked.differences else 0
    began = time.time()
    totals: dict[str, Asked] = {"drawn": Asked()}
    by_folder: dict[str, int] = {}
    with ProcessPoolExecutor(options.processes) as pool:
        seeds = range(options.drawn)
        parts = [seeds[at : at + _BATCH] for at in range(0, len(seeds), _BATCH)]
        for found in pool.map(ask_drawn, parts):
            totals["drawn"].add(found)
        _say("drawn", totals["drawn"])
        if options.recorded != 0:
            if not DATA.is_dir():
                sys.exit(f"there is no {DATA}; set AGORA_DATA, or give --recorded 0")
            with folders(DATA) as logs:
                for folder in logs:
                    if options.folder not in ("", folder.name):
                        continue
                    by_folder[folder.name] = _ask_folder(folder, pool, totals, options.recorded)
    for name, asked in totals.items():
        if name != "drawn":
            _say(name, asked)
    differences = [one for asked in totals.values() for one in asked.differences]
    if options.out is not None:
        value = {
            "command": f"python -m benchmarks.one_question --drawn {options.drawn}",
            "version": agora.__version__,
            "python": platform.python_version(),
            "seconds": round(time.time() - began),
            "recorded": by_folder,
            "asked": {name: asdict(asked) for name, asked in totals.items()},
            "differences": len(differences),
        }
        options.out.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    return 1 if differences else 0


def _ask_folder(
    folder: Path, pool: ProcessPoolExecutor, totals: dict[str, Asked], most: int | None
) -> int:
    """Ask about the trajectories of a folder that parse, and return how many those are."""
    recordings = list(islice(read_logs([folder], Tally()), most))
    # Long ones first, one at a time: they take most of the time.
    recordings.sort(key=lambda one: -len(one.messages))
    long = sum(len(one.messages) > _LONG for one in recordings)
    parts = [[one] for one in recordings[:long]]
    parts += [recordings[at : at + _BATCH] for at in range(long, len(recordings), _BATCH)]
    for found in pool.map(ask_recorded, parts):
        for name, asked in found.items():
            totals.setdefault(name, Asked()).add(asked)
    print(f"{folder.name}: {len(recordings):,} trajectories", flush=True)
    return len(recordings)


def _say(name: str, asked: Asked) -> None:
    answers = ", ".join(f"{who} {count:,}" for who, count in asked.answers.items())
    print(
        f"{name}: {asked.conversations:,} conversations, {asked.edited:,} of them edited, "
        f"{asked.by_epoch:,} epochs; answers: {answers}; "
        f"{len(asked.differences):,} different",
        flush=True,
    )
    for one in asked.differences[:_SHOWN]:
        print(f"  {one}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""What is left of elided steps, to be read: lines drawn by lot from recorded runs.

    python -m lab.benchmarks.form_lines [--lines 5] [--seed 0]

Each run is cut in its middle and compressed at every call to a quarter of what lies outside the
floor. Of the steps that became a line, some are drawn from each source and printed as they are.
"""

import argparse
import random
from collections.abc import Iterator, Sequence

from agora import Budget, Compressor, Forms
from agora.logs import Recording, Tally, read_logs
from agora.scorers import load_scorer
from agora_lab.environments.data import data_file

SOURCES: Sequence[str] = (
    "tau-bench/gpt-4o-airline.json",
    "agentrx/tau_dataset_full.json",
    "swe-bench-gemini/gemini-3-pro-swe-bench.jsonl.xz",
    "intercode",
)
_RUNS = 60


def lines_of(recording: Recording, compressor: Compressor) -> Iterator[str]:
    """Yield the lines of the markers in a prompt from the middle of a run."""
    messages = list(recording.messages)
    half = messages[: len(messages) // 2]
    while half and half[-1].get("role") == "assistant":
        half.pop()
    found = compressor.compress(half, format="openai", observations=recording.observations)
    for decision in found.decisions:
        if decision.form == "line":
            yield f"{decision.number} {decision.text}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print some lines of each source."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lines", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    lot = random.Random(asked.seed)
    compressor = Compressor(
        schedule="every_call",
        min_tokens=0,
        forms=Forms(),
        scorer=load_scorer("worth"),
        budget=Budget(keep_ratio=0.0, min_ratio=0.25),
    )
    for source in SOURCES:
        path = data_file(source, origin="the recorded trajectories of the data README")
        recordings = [one for _, one in zip(range(_RUNS), read_logs([path], Tally()), strict=False)]
        found = [line for one in recordings for line in lines_of(one, compressor)]
        print(f"\n{source}: {len(found)} lines of {len(recordings)} runs")
        for line in lot.sample(found, min(asked.lines, len(found))):
            print(line)


if __name__ == "__main__":
    main()

"""What could be left out of results as they arrive, and what that would save of the bill.

    python -m benchmarks.arrival LOG... [--sheet gemini-3-pro] [--runs 500] [--json FILE]

Each run of a log is billed call by call: what the call before sent is read from the cache, the
rest is written. Nothing that was sent ever changes, so a run can only become cheaper. Noise is
what `Compressor(noise=…)` leaves out. Repeats are lines that stand word for word in an earlier
result of the prompt, which `Compressor(repeats=True)` replaces by references.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import track

from agora.adapters import make_request, parse
from agora.core.prices import PriceSheet, sheet_for
from agora.core.reading.noise import KINDS, NoiseKind, without_noise
from agora.core.reading.repeats import Repeat, Shown, reference
from agora.core.tokens import EstimatedTokens
from agora.core.trajectory import Trajectory
from agora.errors import AgoraError
from agora.logs import Tally, read_logs

_count = EstimatedTokens().count
SAFE: tuple[NoiseKind, ...] = ("codes", "overwritten", "repeated")
"""Noise that no file view needs: indents and blanks of a file are part of it."""


@dataclass(slots=True)
class Run:
    """The tokens of one run's steps, as they are and with something left out."""

    preamble: int
    steps: list[int] = field(default_factory=list)
    clean: list[int] = field(default_factory=list)
    referred: list[int] = field(default_factory=list)
    results: int = 0
    noise: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


def measured(trajectory: Trajectory) -> Run:
    """Return what could be left out of a trajectory."""
    run = Run(trajectory.preamble_tokens)
    shown = Shown()
    for step in trajectory.steps:
        text = step.observation
        whole = _count(text)
        run.results += whole
        began = time.process_time()
        cleaned = without_noise(text, SAFE)
        lines = text.split("\n")
        repeats = shown.repeats(lines)
        shown.add(lines, repeats)
        run.seconds += time.process_time() - began
        for kind in KINDS:
            alone = without_noise(text, (kind,))
            run.noise[kind] += whole - _count(alone) if alone is not text else 0
        left_out = sum(_saved(lines, one) for one in repeats)
        run.steps.append(step.tokens)
        run.clean.append(step.tokens - (whole - _count(cleaned) if cleaned is not text else 0))
        run.referred.append(step.tokens - left_out)
        run.noise["repeats"] += left_out
    return run


def _saved(lines: Sequence[str], one: Repeat) -> int:
    instead = reference(one.end - one.start, "a7f3", renumbered=one.renumbered)
    return max(0, _count("\n".join(lines[one.start : one.end])) - _count(f"{instead}\n"))


def bill(preamble: int, steps: Sequence[int], sheet: PriceSheet) -> float:
    """Return what the calls of a run cost, in tokens at the price of input."""
    sent = preamble
    total = sheet.write * sent
    for tokens in steps:
        total += sheet.read * sent + sheet.write * tokens
        sent += tokens
    return total


def runs_in(paths: Sequence[Path], most: int) -> Iterator[Run]:
    """Yield the runs of some logs that have steps."""
    found = 0
    for recording in read_logs(list(paths), Tally()):
        if found == most:
            return
        try:
            request = make_request(
                list(recording.messages),
                format=recording.format or None,
                observations=recording.observations,
            )
            trajectory = parse(request).trajectory
        except AgoraError:
            continue
        if trajectory.steps:
            found += 1
            yield measured(trajectory)


def summary(runs: Sequence[Run], sheet: PriceSheet) -> dict[str, object]:
    """Return the bills and shares of some runs."""
    whole = [bill(run.preamble, run.steps, sheet) for run in runs]
    told: dict[str, object] = {"runs": len(runs), "sheet": sheet.name}
    for name in ("clean", "referred"):
        bills = [bill(run.preamble, getattr(run, name), sheet) for run in runs]
        ratios = sorted(a / b for a, b in zip(bills, whole, strict=True))
        told[name] = {
            "bill": round(sum(bills) / sum(whole), 4),
            "median_run": round(ratios[len(ratios) // 2], 4),
            "best_run": round(ratios[0], 4),
            "worst_run": round(ratios[-1], 4),
            "runs_with_nothing": sum(ratio >= 1 for ratio in ratios),
        }
    results = sum(run.results for run in runs)
    shares = Counter[str]()
    for run in runs:
        shares.update(run.noise)
    told["share_of_result_tokens"] = {k: round(v / results, 4) for k, v in shares.items()}
    told["ms_per_10000_tokens"] = round(1e7 * sum(run.seconds for run in runs) / results, 3)
    return told


def main() -> None:
    """Measure logs and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", type=Path, nargs="+")
    parser.add_argument("--sheet", default="gemini-3-pro")
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    runs = list(track(runs_in(given.logs, given.runs), "runs", total=given.runs))
    found = summary(runs, sheet_for(given.sheet))
    Console().print_json(json.dumps(found))
    if given.json:
        before = json.loads(given.json.read_text()) if given.json.exists() else {}
        before[given.logs[0].name.partition(".")[0]] = found
        given.json.write_text(json.dumps(before, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

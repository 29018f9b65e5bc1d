"""What a best-effort prefix cache does, fitted to a real bill call by call.

    python -m benchmarks.cache_fit [--out docs/results/cache-fit.json]

Reads the billed usage of 500 SWE-bench runs (`swe-bench-gemini` under AGORA_DATA). A model of the
cache has three numbers: the block by which a match grows, the least prefix that is cached, and
`hit`, the share of what the rules allow that is really read. `hit` is fitted on the runs of half of
the repositories and tested on those of the other half, both ways.
"""

import argparse
import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from agora.core.prices import PriceSheet, sheet_for
from agora.logs import Tally, Usage, read_logs

DATA = Path(os.environ.get("AGORA_DATA", "../shared/data")) / "swe-bench-gemini"
MODEL = "gemini-3-pro-preview"
CANDIDATES = (
    (1, 4_096),
    (128, 1_024),
    (1_024, 2_048),
    (2_048, 2_048),
    (2_048, 4_096),
    (4_096, 4_096),
)
Run = Sequence[Usage]


@dataclass(frozen=True)
class Fit:
    """One model of the cache, and how far its bill is from the one that was sent."""

    block: int
    minimum: int
    hit: float
    runs: int
    billed: float
    simulated: float
    error: float
    """Of the total, as a ratio to what was billed."""
    call_error: float
    """Of a single call, in absolute value, on average."""


def runs_by_repository() -> dict[str, list[Run]]:
    """Return the usage of each run, by the repository its task is from."""
    found: dict[str, list[Run]] = {}
    for recording in read_logs([DATA], Tally()):
        if recording.usage:
            found.setdefault(recording.task.split("__")[0], []).append(recording.usage)
    return found


def fitted_hit(runs: Iterable[Run], block: int, minimum: int) -> float:
    """Return which share of the tokens that could be read was billed as read."""
    could = did = 0
    for run in runs:
        before = 0
        for usage in run:
            could += allowed(before, block, minimum)
            did += usage.read
            before = usage.prompt
    return min(1.0, did / could) if could else 1.0


def allowed(before: int, block: int, minimum: int) -> int:
    """Return what a cache of such blocks may read of the prompt before."""
    whole = before // block * block
    return whole if whole >= minimum else 0


def tested(runs: Sequence[Run], block: int, minimum: int, hit: float, sheet: PriceSheet) -> Fit:
    """Return how a model does on runs it was not fitted to."""
    billed = simulated = errors = 0.0
    calls = 0
    for run in runs:
        before = 0
        for usage in run:
            read = hit * allowed(before, block, minimum)
            ours = sheet.dollars(uncached=usage.prompt - read, read=read)
            theirs = sheet.dollars(uncached=usage.uncached, read=usage.read)
            billed += theirs
            simulated += ours
            errors += abs(ours - theirs) / theirs
            calls += 1
            before = usage.prompt
    error = simulated / billed - 1
    return Fit(block, minimum, hit, len(runs), billed, simulated, error, errors / calls)


def misses(runs: Iterable[Run], minimum: int) -> dict[str, float]:
    """Return how calls after a prompt of at least `minimum` tokens did, in shares of them."""
    kinds: Counter[str] = Counter()
    for run in runs:
        before = 0
        for usage in run:
            if before >= minimum:
                behind = before // 2_048 - round(usage.read / 2_017)
                kind = "nothing" if not usage.read else "all" if behind <= 0 else "some"
                kinds[kind] += 1
            before = usage.prompt
    return {kind: count / kinds.total() for kind, count in kinds.items()}


def main() -> None:
    """Print the fits, and write them if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path)
    out: Path | None = parser.parse_args().out
    by_repository = runs_by_repository()
    if not by_repository:
        raise SystemExit(f"{DATA} holds no runs with usage; set AGORA_DATA to where the data is")
    names = sorted(by_repository)
    halves = [[run for name in names[at::2] for run in by_repository[name]] for at in (0, 1)]
    everything = [run for half in halves for run in half]
    sheet = sheet_for(MODEL)
    kinds = misses(everything, 4_096)
    print(f"{len(everything)} runs, {sum(map(len, everything)):,} calls, {len(names)} repositories")
    print("after a prompt of 4,096 tokens or more:", {k: round(v, 3) for k, v in kinds.items()})
    print("block minimum    hit   runs  billed  simulated  error  error of a call")
    rows = []
    for block, minimum in CANDIDATES:
        for fitting, testing in (halves, halves[::-1]):
            hit = fitted_hit(fitting, block, minimum)
            fit = tested(testing, block, minimum, hit, sheet)
            rows.append(asdict(fit))
            print(
                f"{block:5,} {minimum:7,} {hit:6.4f} {fit.runs:6} {fit.billed:7.2f} "
                f"{fit.simulated:10.2f} {fit.error:+6.1%} {fit.call_error:16.1%}"
            )
    ideal = tested(everything, 1, 4_096, 1.0, sheet)
    shipped = tested(everything, sheet.block, sheet.minimum_prefix, sheet.hit, sheet)
    print(f"a cache that never misses: {ideal.error:+.1%} of the bill")
    print(f"the shipped sheet {sheet.name}: {shipped.error:+.1%} of the bill")
    if out is not None:
        value = {
            "model": MODEL,
            "after_4096_tokens": kinds,
            "held_out": rows,
            "never_misses": asdict(ideal),
            "shipped": asdict(shipped),
        }
        out.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

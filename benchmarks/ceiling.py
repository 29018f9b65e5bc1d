"""What a ceiling on the bill saves and costs, on real sessions and generated ones, by price sheet.

    python -m benchmarks.ceiling --out docs/results/ceiling.json --plot docs/concepts/ceiling.svg
    python -m benchmarks.ceiling --runs 500 --sheets gemini-3-pro --ceilings 1.02 1.05 1.1

Each run is sent as it was and as AGORA would have sent it with each ceiling, billed by the
simulator of the provider's cache. A row has the bill as a ratio to sending everything (all runs
together), the worst run, the worst moment of any run (its bill up to some call), how many actions
still found every name they need of earlier steps in the prompt, and how many runs were edited at
all. `hindsight` is the cheapest schedule that knows where each run ends, by the sizes of its steps.
Recorded coding runs and Claude Code sessions are under AGORA_DATA; each is a session of its own.
"""

import argparse
import json
import math
import os
import random
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rich.progress import track

from agora.compressor import Compressor
from agora.core.prices import PriceSheet, sheet_for
from agora.core.schedule import RentOrBuy, Sizes
from agora.core.tokens import EstimatedTokens
from agora.errors import AgoraError
from agora.logs import Recording, Tally, read_logs
from agora.replay.measure import measure
from agora.replay.simulate import Policy, PolicyBill, replay_by
from harness.recordings import CLAUDE_CODE, unpacked

CEILINGS = (1.0, 1.01, 1.02, 1.03, 1.05, 1.1, math.inf)
SHEETS = (
    "gemini-3-pro",
    "gpt-5",
    "gpt-5.5",
    "claude-sonnet-5",
    "claude-opus-5-5",
    "deepseek-v4-flash",
)
OWN = "as billed"
"""Each recording by the sheet of the model that made it."""
GENERATED = {30: 40, 60: 20, 120: 10, 500: 3}
"""How many trajectories of how many steps."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run by one sheet and ceiling."""

    source: str
    sheet: str
    ceiling: float
    everything: float
    agora: float
    hindsight: float
    """The best schedule's bill as a ratio to sending everything."""
    worst_moment: float
    actions: int = 0
    needing: int = 0
    met: int = 0
    edits: int = 0


def runs_of(
    recording: Recording, source: str, sheets: Sequence[str], ceilings: Sequence[float]
) -> list[Run]:
    """Return a recording by each sheet and ceiling; nothing if it cannot be replayed."""
    model = recording.model or ""
    named = {name: sheet_for(model if name == OWN else name) for name in sheets}
    found: list[Run] = []
    try:
        measured = measure(recording, EstimatedTokens())
        for ceiling in ceilings:
            compressor = Compressor(ceiling=ceiling)
            policies = (Policy.AS_IT_WAS, Policy.AGORA)
            replayed = replay_by(recording, list(named.values()), policies, compressor)
            for (name, sheet), one in zip(named.items(), replayed, strict=True):
                paid = sheet.for_ttl(measured.ttl)
                was, now = one.bills[Policy.AS_IT_WAS], one.bills[Policy.AGORA]
                asking = replace(compressor, sheet=paid)
                schedule = asking.schedule_for()
                best = 1.0
                if isinstance(schedule, RentOrBuy):
                    best = hindsight(asking.sizes(measured.trajectory), schedule)
                found.append(
                    Run(
                        source,
                        name,
                        ceiling,
                        was.dollars,
                        now.dollars,
                        best,
                        worst_moment(was, now, paid),
                        one.steps,
                        now.needing,
                        now.met,
                        now.edits,
                    )
                )
    except AgoraError as error:
        print(f"{recording.id}: {error}", file=sys.stderr)
    return found


def worst_moment(was: PolicyBill, now: PolicyBill, sheet: PriceSheet) -> float:
    """Return the largest ratio of the two bills up to any call."""
    worst = everything = agora = 0.0
    for before, after in zip(was.calls, now.calls, strict=True):
        everything += sheet.dollars(
            uncached=before.uncached, read=before.read, written=before.written
        )
        agora += sheet.dollars(uncached=after.uncached, read=after.read, written=after.written)
        worst = max(worst, agora / everything if everything else 1.0)
    return worst


def hindsight(sizes: Sizes, schedule: RentOrBuy) -> float:
    """Return the bill of the best schedule that knows the end, as a ratio to never editing.

    By sizes: an edit at any call leaves what the budget says and no less than the least share,
    writes all after the preamble, and each call reads what the one before had sent.
    """
    sheet, count = schedule.sheet, len(sizes.steps)
    read, write = sheet.expected_read, sheet.write
    found = sizes.preamble - (sizes.unmarked if sheet.breakpoints else 0)
    totals, left = [sizes.preamble], [sizes.preamble]
    old = 0
    for at in range(count):
        totals.append(totals[-1] + sizes.steps[at] + (sizes.said[at - 1] if at else 0))
        if at + 1 > schedule.k_recent:
            place = at - schedule.k_recent
            old += sizes.steps[place] - sizes.residues[place]
        room = max(
            (schedule.budget.keep_ratio or 0.0) * totals[-1],
            totals[-1] - (1 - schedule.min_ratio) * max(0, old - schedule.marker_tokens),
        )
        left.append(min(totals[-1], round(room)))

    def paid(prompt: float, stored: float) -> float:
        return sheet.tier(prompt).input * (read * stored + write * (prompt - stored))

    never = paid(totals[0], 0)
    for at in range(1, count + 1):
        never += paid(totals[at], totals[at - 1])
    # By the last edit: the least that all calls up to it cost.
    least = {0: paid(totals[0], 0)}
    best = math.inf
    for start in range(count + 1):
        if start not in least:
            continue
        spent, gap = least[start], totals[start] - left[start] if start else 0
        for at in range(start + 1, count + 1):
            edited = spent + paid(left[at], found)
            if left[at] < totals[at] - gap and edited < least.get(at, math.inf):
                least[at] = edited
            spent += paid(totals[at] - gap, totals[at - 1] - gap)
        best = min(best, spent)
    return best / never


def generated(sheets: Sequence[str], ceilings: Sequence[float]) -> Iterator[Run]:
    """Yield trajectories of 30 to 500 steps: a preamble of 4,096 tokens, steps of 150 + Exp(1,200).

    They have sizes and no text, so nothing is known of names.
    """
    from benchmarks import bill

    for recording in bill.generated():
        prompts, sizes = bill.Prompts(recording), recording.sizes()
        for name in sheets:
            sheet = replace(sheet_for(name), window=None)
            never = bill.bill(sheet, prompts.sent(lambda _: 0, bill.PAPER))
            for ceiling in ceilings:
                schedule = RentOrBuy(sheet, ceiling=ceiling)
                planned = schedule.edit(sizes).by_call(len(sizes.steps))
                epochs = [edit.epoch for edit in planned]
                rooms = [edit.room for edit in planned]
                edits = bill.agora_edit(schedule)
                mine = bill.bill(sheet, prompts.sent(epochs.__getitem__, edits, rooms.__getitem__))
                everything = agora = worst = 0.0
                for before, after in zip(never, mine, strict=True):
                    everything += before.dollars
                    agora += after.dollars
                    worst = max(worst, agora / everything)
                yield Run(
                    f"generated, {recording.steps} steps",
                    name,
                    ceiling,
                    everything,
                    agora,
                    hindsight(sizes, schedule),
                    worst,
                    edits=len(set(epochs) - {0}),
                )


def summary(runs: Sequence[Run]) -> dict[str, object]:
    """Return one row of figures of the runs of one source, sheet and ceiling."""
    everything = sum(run.everything for run in runs)
    needing = sum(run.needing for run in runs)
    actions = sum(run.actions for run in runs)
    missing = needing - sum(run.met for run in runs)
    first = runs[0]
    return {
        "source": first.source,
        "sheet": first.sheet,
        "ceiling": first.ceiling if first.ceiling < math.inf else None,
        "runs": len(runs),
        "edited": sum(run.edits > 0 for run in runs),
        "edits": sum(run.edits for run in runs),
        "bill": sum(run.agora for run in runs) / everything,
        "interval": interval(runs),
        "hindsight": sum(run.hindsight * run.everything for run in runs) / everything,
        "worst_run": max(run.agora / run.everything for run in runs if run.everything),
        "worst_moment": max(run.worst_moment for run in runs),
        "costs_more": sum(run.agora > run.everything * 1.0005 for run in runs),
        "names_of_needing": 1 - missing / needing if needing else None,
        "names_of_all": 1 - missing / actions if actions else None,
    }


def interval(runs: Sequence[Run], draws: int = 1_000) -> tuple[float, float]:
    """Return the middle 95 % of the bill's ratio over runs drawn again with replacement."""
    lots = random.Random(0)
    ratios = []
    for _ in range(draws):
        drawn = lots.choices(runs, k=len(runs))
        ratios.append(sum(r.agora for r in drawn) / sum(r.everything for r in drawn))
    ratios.sort()
    return ratios[round(0.025 * draws)], ratios[round(0.975 * draws) - 1]


def plot(rows: Sequence[dict[str, object]], path: Path) -> None:
    """Draw what each ceiling saves against the worst moment of any run, and what is still found."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "agora"
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
    series = (
        ("coding", "gemini-3-pro", "coding runs, gemini-3-pro", "#2471a3", "o"),
        ("coding", "claude-sonnet-5", "coding runs, claude-sonnet-5", "#27ae60", "s"),
        ("coding", "claude-opus-5-5", "coding runs, claude-opus-5-5", "#8e44ad", "^"),
        ("Claude Code", OWN, "Claude Code sessions", "#c0392b", "D"),
    )
    for source, sheet, label, colour, mark in series:
        mine = [row for row in rows if (row["source"], row["sheet"]) == (source, sheet)]
        saved = [100 * (1 - float(str(row["bill"]))) for row in mine]
        worst = [100 * (float(str(row["worst_moment"])) - 1) for row in mine]
        left.plot(worst, saved, mark + "-", color=colour, label=label, ms=5)
        found = [100 * float(str(row["names_of_all"])) for row in mine]
        right.plot(saved, found, mark + "-", color=colour, label=label, ms=5)
        for x, y, z, row in zip(worst, saved, found, mine, strict=True):
            name = "none" if row["ceiling"] is None else f"{row['ceiling']:g}"
            if name in ("1.02", "1.05", "1.1", "none") and mark in "oD":
                left.annotate(name, (x, y), textcoords="offset points", xytext=(4, -9), fontsize=7)
                right.annotate(name, (y, z), textcoords="offset points", xytext=(4, 3), fontsize=7)
    left.set(
        xlabel="worst moment of any run: % above sending everything",
        ylabel="% of the input bill saved",
        title="Saving against the worst moment",
    )
    right.set(
        xlabel="% of the input bill saved",
        ylabel="% of next actions that find all names",
        title="Saving against what is still found",
    )
    left.legend(frameon=False, fontsize=7)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def _coding(data: Path, runs: int) -> list[Recording]:
    path = data / "swe-bench-gemini" / "gemini-3-pro-swe-bench.jsonl.xz"
    found = list(read_logs([path], Tally())) if path.exists() else []
    step = max(1, len(found) // runs) if runs else 1
    return found[::step][:runs]


def _claude_code(data: Path) -> list[Recording]:
    path = data / CLAUDE_CODE
    if not path.exists():
        return []
    with unpacked(path) as folder:
        return list(read_logs([folder], Tally()))


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    root = Path(__file__).resolve().parent.parent
    parser.add_argument("--data", type=Path, default=None, help="default: AGORA_DATA")
    parser.add_argument("--runs", type=int, default=100, help="coding runs, evenly spaced")
    parser.add_argument("--sheets", nargs="*", default=list(SHEETS))
    parser.add_argument("--ceilings", type=float, nargs="*", default=list(CEILINGS))
    parser.add_argument("--only", default="", help="sources that begin so")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--plot", type=Path, default=None)
    options = parser.parse_args()
    data = options.data or Path(os.environ.get("AGORA_DATA", root.parent / "shared" / "data"))
    runs: list[Run] = []
    work: list[tuple[str, Sequence[str], list[Recording]]] = []
    if "coding".startswith(options.only):
        work.append(("coding", options.sheets, _coding(data, options.runs)))
    if "Claude Code".startswith(options.only):
        work.append(("Claude Code", (OWN, *options.sheets), _claude_code(data)))
    with ProcessPoolExecutor(options.jobs) as pool:
        for source, sheets, recordings in work:
            task = partial(runs_of, source=source, sheets=sheets, ceilings=options.ceilings)
            done = pool.map(task, recordings)
            for part in track(done, source, total=len(recordings)):
                runs.extend(part)
    if "generated".startswith(options.only):
        runs.extend(generated(options.sheets, options.ceilings))
    keys = dict.fromkeys((run.source, run.sheet, run.ceiling) for run in runs)
    rows = [summary([r for r in runs if (r.source, r.sheet, r.ceiling) == key]) for key in keys]
    for row in rows:
        print(json.dumps(row))
    if options.out:
        made = {"command": "python -m benchmarks.ceiling", "rows": rows}
        options.out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    if options.plot:
        plot(rows, options.plot)


if __name__ == "__main__":
    main()

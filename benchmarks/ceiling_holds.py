"""Whether the bill ever exceeds its ceiling: generated runs, at every call, under both cache rules.

    python -m benchmarks.ceiling_holds                       # 10,000 runs, six sheets
    python -m benchmarks.ceiling_holds --sheets all --runs 300

Each run is drawn: how much stands before its first step, 5 to 120 steps, what users say in between,
steps of which something stays. It is sent as it is and as the schedule edits it, to a cache that
matches any prefix and to one that keeps only marked places (the system text and the newest
message, as agents mark them). An edit is taken at its worst: it uses all the room it has, and
nothing after the task is as it was. Exits with 1 if a bill exceeds the ceiling at any call.

A provider that caches by blocks rounds each hit down; so a bill may be off by less than a block at
every edit, at the price that a hit saves. That much is allowed for, and the largest excess without
the allowance is reported beside it.
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

from agora.core.prefix_cache import PrefixCache, Segment
from agora.core.prices import PriceSheet, sheet_for, shipped_sheets
from agora.core.rent_or_buy import MIN_TOKENS, Change, RentOrBuy, Sizes

SHEETS = (
    "gemini-3-pro",
    "gpt-5",
    "gpt-5.5",
    "claude-sonnet-5",
    "claude-opus-5-5",
    "deepseek-v4-flash",
)
CEILINGS = (1.0, 1.02, 1.05, 1.1)


@dataclass(slots=True)
class Found:
    """What was seen of one sheet and rule."""

    bills: int = 0
    calls: int = 0
    edits: int = 0
    exceeded: int = 0
    worst: float = 0.0
    """The largest bill up to any call, as a ratio to its ceiling."""

    def add(self, other: "Found") -> None:
        """Take in what was seen of another run."""
        self.bills += other.bills
        self.calls += other.calls
        self.edits += other.edits
        self.exceeded += other.exceeded
        self.worst = max(self.worst, other.worst)


def drawn(seed: int) -> Sizes:
    """Return the sizes of a run."""
    lots = random.Random(seed)
    count = lots.choice((5, 12, 25, 25, 50, 50, 120))
    scale = lots.choice((80, 400, 1_200, 1_200, 4_000))
    steps = tuple(20 + int(lots.expovariate(1 / scale)) for _ in range(count))
    asks = lots.choice((0.0, 0.0, 0.05, 0.3))
    said = tuple(int(lots.expovariate(1 / 200)) + 1 if lots.random() < asks else 0 for _ in steps)
    stays = lots.choice((0.0, 0.0, 0.3, 1.0))
    pinned = lots.choice((0.0, 0.0, 0.02))
    preamble = lots.choice((60, 700, 3_000, 9_000, 26_000))
    return Sizes(
        preamble=preamble,
        steps=steps,
        said=said,
        residues=tuple(
            tokens if lots.random() < pinned else int(tokens * stays * lots.random())
            for tokens in steps
        ),
        asked=tuple(int(tokens > 0) for tokens in said),
        unmarked=int(preamble * lots.choice((0.02, 0.3, 1.0))),
    )


class Prompts:
    """The prompts of a run, as it was and as edits leave it."""

    def __init__(self, sizes: Sizes, schedule: RentOrBuy) -> None:
        system = Segment("system", sizes.preamble - sizes.unmarked, breakpoint=True)
        task = Segment("task", sizes.unmarked)
        self._begins = [one for one in (system, task) if one.tokens]
        self._sizes = sizes
        self._recent = max(1, schedule.k_recent)
        self._schedule = schedule

    def pieces(self, first: int, last: int) -> Iterator[Segment]:
        """Yield the steps after the first so many, up to the last, and what was said between."""
        for at in range(first, last):
            if at and self._sizes.said[at - 1]:
                yield Segment(("said", at), self._sizes.said[at - 1])
            yield Segment(("step", at + 1), self._sizes.steps[at])

    def prompt(self, steps: int, sent: Change, *, spoken: bool) -> list[Segment]:
        """Return the prompt after so many steps, and what was said since if `spoken`."""
        epoch = sent.epoch
        segments = list(self._begins)
        if epoch > self._recent:
            stays = epoch - self._recent
            sizes = self._sizes
            tail = sum(sizes.steps[stays:epoch]) + sum(sizes.said[: epoch - 1])
            least = sum(sizes.residues[:stays]) + self._schedule.marker_tokens
            filled = max(least, sent.room - sizes.preamble - tail)
            segments.append(Segment(("edit", epoch), filled + sum(sizes.said[: stays - 1])))
            segments.extend(self.pieces(stays, steps))
        else:
            segments.extend(self.pieces(0, steps))
        if spoken:
            segments.append(Segment(("said", steps), self._sizes.said[steps - 1]))
        newest = segments[-1]
        segments[-1] = Segment(newest.key, newest.tokens, breakpoint=True)
        return segments


def rules(sheet: PriceSheet) -> dict[str, PriceSheet]:
    """Return the sheet with a cache that matches any prefix, and with one of marked places."""
    return {
        "any prefix": replace(sheet, breakpoints=0, lookback=0, block=max(1, sheet.block)),
        "marked places": replace(
            sheet, breakpoints=4, lookback=20, block=1, common_prefix=False, hit=1.0
        ),
    }


def follow(sizes: Sizes, sheet: PriceSheet, ceiling: float, min_tokens: int) -> Found:
    """Return what a run costs at every call, as a ratio to its ceiling."""
    schedule = RentOrBuy(sheet, ceiling=ceiling, min_tokens=min_tokens)
    changes = schedule.edit(sizes).by_call(len(sizes.steps))
    prompts = Prompts(sizes, schedule)
    mine, never = PrefixCache(sheet), PrefixCache(sheet)
    unedited = Change(0, 0, 0)
    found = Found(bills=1)
    spent = full = allowed = 0.0
    before = unedited
    for steps in range(len(sizes.steps) + 1):
        for spoken in (False, True):
            if spoken and not (steps and sizes.said[steps - 1]):
                continue
            sent = changes[steps]
            spent += mine.send(prompts.prompt(steps, sent, spoken=spoken)).dollars
            full += never.send(prompts.prompt(steps, unedited, spoken=spoken)).dollars
            found.calls += 1
            if sheet.block > 1:
                # Each side's hits are rounded down by themselves, at every call.
                saved = (sheet.write - sheet.read) * sheet.block
                allowed += sheet.dollars(uncached=saved)
            found.edits += sent.epoch != before.epoch and sent.epoch > 0
            before = sent
            rounding = sheet.dollars(uncached=2.0) * found.calls
            over = spent - allowed - rounding
            found.worst = max(found.worst, over / (ceiling * full))
            found.exceeded += over > ceiling * full
    return found


def run(seed: int, sheets: Sequence[str]) -> dict[tuple[str, str], Found]:
    """Return what one run shows by sheet and rule."""
    sizes, lots = drawn(seed), random.Random(seed)
    ceiling, least = lots.choice(CEILINGS), lots.choice((0, MIN_TOKENS))
    found = {}
    for name in sheets:
        # Ratios do not depend on the price of input, and one's own server has none.
        sheet = replace(sheet_for(name), window=None, input=1.0)
        lives = [sheet.for_ttl(None), *(sheet.for_ttl(life.ttl) for life in sheet.lifetimes)]
        for rule, priced in rules(lives[seed % len(lives)]).items():
            found[name, rule] = follow(sizes, priced, ceiling, least)
    return found


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first run")
    parser.add_argument("--sheets", nargs="*", default=list(SHEETS), help="`all` for all shipped")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    sheets = list(shipped_sheets()) if options.sheets == ["all"] else options.sheets
    totals: dict[tuple[str, str], Found] = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        seeds = range(options.seed, options.seed + options.runs)
        done = pool.map(partial(run, sheets=sheets), seeds, chunksize=20)
        for part in track(done, "runs", total=options.runs):
            for key, found in part.items():
                totals.setdefault(key, Found()).add(found)
    rows = []
    for (name, rule), found in totals.items():
        figures = {field: getattr(found, field) for field in Found.__slots__}
        rows.append({"sheet": name, "rule": rule, **figures})
    rows.sort(key=lambda row: -float(str(row["worst"])))
    for row in rows if len(rows) < 40 else rows[:10]:
        print(json.dumps(row))
    exceeded = sum(found.exceeded for found in totals.values())
    calls = sum(found.calls for found in totals.values())
    worst = max((found.worst for found in totals.values()), default=math.nan)
    print(
        f"{options.runs:,} runs, {len(sheets)} sheets, 2 rules, {calls:,} calls: "
        f"{exceeded:,} above the ceiling; at most {worst:.4f} of it"
    )
    if options.out:
        made = {"runs": options.runs, "exceeded": exceeded, "calls": calls, "rows": rows}
        options.out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    sys.exit(1 if exceeded else 0)


if __name__ == "__main__":
    main()

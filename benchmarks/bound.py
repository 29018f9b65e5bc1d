"""Whether the bill ever exceeds its ceiling: drawn runs, at every call, by a simulated cache.

    python -m benchmarks.bound --runs 10000 --out benchmarks/results/bound.json

Each run is drawn: what stands before its first step, up to 120 steps, one to four of them a call,
what users say, pauses, a process that starts again and has no clock, a change of the model, a time
to live of five minutes or an hour, tiers, a cache of marked places or of any prefix. Each edit
removes more or less than its room implies. Every call goes to two caches, as it is and as the
schedule has it. Exits with 1 if the edited calls cost more than the ceiling at any call.

A cache that matches by blocks rounds each hit down, on both sides. That much is allowed for. An
edit that the window forces ends the run: the bound does not cover it.
"""

import argparse
import json
import math
import os
import random
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from agora import PriceSheet, sheet_for
from agora.core.calls import Billed, Call
from agora.core.prefix_cache import PrefixCache, Segment
from agora.core.schedule import Policy, advance

SHEETS = (
    *("claude-opus-5", "claude-sonnet-5", "claude-haiku-5-5", "claude-opus-5-5"),
    *("gpt-5", "gpt-5.5", "gemini-3-pro", "deepseek-v4-flash"),
)
CEILINGS = (1.0, 1.02, 1.05, 1.05, 1.05, 1.1)


@dataclass(slots=True)
class Seen:
    """What runs showed."""

    runs: int = 0
    calls: int = 0
    edited_runs: int = 0
    edits: Counter[str] = field(default_factory=Counter)
    dropped: int = 0
    """Edits that were not taken, since they removed too little."""
    exceeded: int = 0
    worst: float = 0.0
    """The largest bill up to any call, as a ratio to its ceiling."""

    def add(self, other: "Seen") -> None:
        """Take in other runs."""
        for name in ("runs", "calls", "edited_runs", "edits", "dropped", "exceeded"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.worst = max(self.worst, other.worst)


class Conversation:
    """The prompts of one run: what every call sends, without edits and with the newest one."""

    def __init__(self, lots: random.Random) -> None:
        self._lots = lots
        self.preamble = lots.choice((60, 700, 3_000, 9_000, 26_000))
        self.unmarked = int(self.preamble * lots.choice((0.02, 0.3, 1.0)))
        self._scale = lots.choice((80, 400, 1_200, 1_200, 4_000))
        self._stays = lots.choice((0.0, 0.0, 0.3, 1.0))
        self._asks = lots.choice((0.0, 0.05, 0.3))
        system = Segment("system", self.preamble - self.unmarked, breakpoint=True)
        self._head = [one for one in (system, Segment("task", self.unmarked)) if one.tokens]
        self.pieces: list[Segment] = []
        """Steps, and what was said between them."""
        self.residues: list[int] = []
        self._places: list[int] = []
        """The place of each step among the pieces."""
        self.tail = 0
        self.edit: tuple[int, Segment] | None = None
        """How many pieces the edit replaces, and what is left of them."""

    def grow(self) -> bool:
        """Add what comes before the next call, and return True if the user spoke."""
        lots = self._lots
        for _ in range(lots.choice((1, 1, 1, 1, 2, 4))):
            tokens = 20 + int(lots.expovariate(1 / self._scale))
            self._places.append(len(self.pieces))
            self.pieces.append(Segment(("step", len(self.pieces)), tokens))
            self.residues.append(int(tokens * self._stays * lots.random()))
        self.tail = 0
        if lots.random() < self._asks:
            self.tail = int(lots.expovariate(1 / 300)) + 1
            self.pieces.append(Segment(("words", len(self.pieces)), self.tail))
        return self.tail > 0

    def call(self, sheet: PriceSheet) -> Call:
        """Return the sizes of the call at hand."""
        old = self._places[:-2]
        lost = sum(self.pieces[at].tokens for at in old) - sum(self.residues[: len(old)])
        opening = self.preamble - (self.unmarked if sheet.breakpoints else 0)
        block = max(1, sheet.block)
        return Call(
            steps=len(self._places),
            prompt=self.preamble + sum(piece.tokens for piece in self.pieces) - self.tail,
            outside=max(0, lost - 16),
            opening=opening // block * block if opening >= sheet.minimum_prefix else 0,
            tail=self.tail,
        )

    def edit_away(self, tokens: int) -> None:
        """Replace all but the newest two steps by what is left without so many tokens."""
        until = self._places[-2]
        left = sum(piece.tokens for piece in self.pieces[:until]) - tokens
        self.edit = until, Segment(("edit", until, left), left)

    def prompt(self, *, edited: bool) -> list[Segment]:
        """Return the prompt of the current call."""
        pieces = self.pieces
        if edited and self.edit:
            pieces = [self.edit[1], *pieces[self.edit[0] :]]
        segments = [*self._head, *pieces]
        segments[-1] = replace(segments[-1], breakpoint=True)
        return segments


def drawn_sheet(lots: random.Random) -> PriceSheet:
    """Return a sheet for any prefix or for marked places, of one of its lifetimes."""
    sheet = sheet_for(lots.choice(SHEETS))
    sheet = sheet.for_ttl(lots.choice([None, *(life.ttl for life in sheet.lifetimes)]))
    if lots.random() < 0.5:
        return replace(sheet, breakpoints=0, lookback=0, block=max(1, sheet.block))
    return replace(sheet, breakpoints=4, lookback=20, block=1, common_prefix=False, hit=1.0)


def run(seed: int) -> Seen:
    """Return the figures of one run at every call."""
    lots = random.Random(seed)
    conversation, sheet = Conversation(lots), drawn_sheet(lots)
    ceiling, forgetting = lots.choice(CEILINGS), lots.choice((0.0, 0.5, 1.0, 1.0))
    tells_usage, tells_size = lots.random() < 0.5, lots.random() < 0.7
    pauses = lots.choice((0.0, 0.02, 0.1))
    policy = Policy(sheet=sheet, max_cost_ratio=ceiling, forgetting=forgetting)
    mine, never = PrefixCache(sheet), PrefixCache(sheet)
    seen, state, usage = Seen(runs=1), None, None
    spent = full = allowed = now = 0.0
    beginning = 1
    for _ in range(lots.choice((5, 12, 25, 50, 50, 100))):
        idle: float | None = lots.expovariate(1 / 20)
        if conversation.grow() and lots.random() < pauses * 5:
            idle = lots.choice((200.0, 330.0, 400.0, 3_500.0, 4_000.0, 90_000.0))
        now += idle or 0.0
        if lots.random() < pauses / 4:
            idle = None
        if lots.random() < pauses / 8:
            beginning, sheet = beginning + 1, drawn_sheet(lots)
            policy = replace(policy, sheet=sheet)
            mine, never = PrefixCache(sheet), PrefixCache(sheet)
        call = conversation.call(sheet)._replace(
            beginning=beginning, idle_seconds=idle, usage=usage if tells_usage else None
        )
        after = advance(state, call, policy)
        if after.is_new and after.edit and after.edit.room is not None:
            implied = call.prompt - after.edit.room
            removes = after.removed
            if tells_size:
                removes = min(call.outside, int(implied * lots.uniform(0.7, 1.05)))
                after = advance(state, call._replace(removes=removes), policy)
            if after.is_new:
                conversation.edit_away(removes)
                seen.edits[after.edit.why if after.edit else ""] += 1
            else:
                seen.dropped += 1
        if after.is_new and after.edit and after.edit.why == "window":
            break
        state = after
        bill = mine.send(conversation.prompt(edited=True), now)
        usage = Billed(bill.uncached, bill.read, bill.written)
        spent += bill.dollars
        full += never.send(conversation.prompt(edited=False), now).dollars
        seen.calls += 1
        tier = sheet.tier(bill.tokens).input
        # Each side's hits are rounded down by themselves, at every call.
        rounding = (sheet.write - sheet.read) * sheet.block if sheet.block > 1 else 0.0
        allowed += sheet.dollars(uncached=rounding + 2.0) * tier
        over = spent - allowed
        seen.worst = max(seen.worst, over / (ceiling * full))
        seen.exceeded += over > ceiling * full
    seen.edited_runs = int(seen.edits.total() > 0)
    return seen


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    total = Seen()
    with ProcessPoolExecutor(options.jobs) as pool:
        seeds = range(options.seed, options.seed + options.runs)
        for seed, seen in zip(seeds, pool.map(run, seeds, chunksize=20), strict=True):
            total.add(seen)
            if seen.exceeded:
                print(f"run {seed}: {seen.exceeded} calls, {seen.worst:.4f} of the ceiling")
    print(
        f"{total.runs:,} runs, {total.calls:,} calls: {total.exceeded:,} above the ceiling, "
        f"at most {total.worst:.4f} of it; {total.edited_runs:,} runs edited, {dict(total.edits)}, "
        f"{total.dropped:,} edits not taken"
    )
    if options.out:
        figures = {name: getattr(total, name) for name in Seen.__slots__}
        command = " ".join(["python -m benchmarks.bound", *sys.argv[1:]])
        options.out.write_text(json.dumps({"command": command} | figures, indent=1) + "\n")
    sys.exit(1 if total.exceeded or math.isnan(total.worst) else 0)


if __name__ == "__main__":
    main()

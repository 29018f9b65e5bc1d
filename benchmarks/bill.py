"""What each schedule costs on every price sheet, billed by the simulator of the provider's cache.

    python -m benchmarks.bill
    python -m benchmarks.bill --only long --sheets gpt-5 claude-opus-5
    python -m benchmarks.bill --out benchmarks/results/bill.json --plot docs/concepts/bill.svg

Input cost only, relative to sending everything with the same provider's cache: an edit at every
call, AGORA's schedule, and the cheapest schedule that knows the future. `--plot` needs all sheets,
and matplotlib.
"""

import argparse
import json
import math
import os
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from agora.core.budget import Budget
from agora.core.prefix_cache import Bill, PrefixCache, Segment
from agora.core.prices import PriceSheet, shipped_sheets
from agora.core.schedule import CEILING, MARKER_TOKENS, RentOrBuy, Sizes

K_RECENT = 2
KEEP_RATIO = 0.25
SKELETON_SHARE = 0.5
SKELETON_TOKENS = 40
GENERATED = {30: 40, 60: 20, 120: 10, 500: 3}
"""How many trajectories of how many steps."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A step or an utterance, and whether a call was made right before it."""

    kind: Literal["step", "said"]
    tokens: int
    call_before: bool
    by_user: bool = False


@dataclass(frozen=True, slots=True)
class Recording:
    """A trajectory as sizes, with the calls that were made."""

    source: str
    name: str
    preamble: int
    pieces: tuple[Piece, ...]

    @property
    def steps(self) -> int:
        """How many steps it has."""
        return sum(piece.kind == "step" for piece in self.pieces)

    def sizes(self) -> Sizes:
        """Return what a schedule sees of it."""
        steps: list[int] = []
        said: list[int] = []
        asked: list[int] = []
        preamble = self.preamble
        for piece in self.pieces:
            if piece.kind == "step":
                steps.append(piece.tokens)
                said.append(0)
                asked.append(0)
            elif steps:
                said[-1] += piece.tokens
                asked[-1] += piece.by_user
            else:
                preamble += piece.tokens
        return Sizes(
            preamble=preamble,
            steps=tuple(steps),
            said=tuple(said),
            residues=(0,) * len(steps),
            asked=tuple(asked),
        )


# Recorded and generated trajectories


def count_tokens(value: object) -> int:
    """Return about how many tokens a value of a message takes: four characters each."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return math.ceil(len(text) / 4)


def message_tokens(message: dict[str, Any]) -> int:
    """Return about how many tokens a message takes."""
    tokens = 4 + count_tokens(message.get("content") or "")
    if message.get("tool_calls"):
        tokens += count_tokens(message["tool_calls"])
    return tokens


def read_messages(
    source: str, name: str, messages: Sequence[dict[str, Any]], *, user_observes: bool
) -> Recording:
    """Return the recording of chat messages.

    A step is an assistant message with tool calls and what follows of role
    tool; with `user_observes` any assistant message with the user message after it.
    """
    head = 0
    while head < len(messages) and messages[head]["role"] != "assistant":
        head += 1
    preamble = sum(message_tokens(message) for message in messages[:head])
    pieces: list[Piece] = []
    at = head
    while at < len(messages):
        message = messages[at]
        tokens, end = message_tokens(message), at + 1
        called = message["role"] == "assistant"
        observers = {"tool", "user"} if user_observes else {"tool"}
        if called and (message.get("tool_calls") or user_observes):
            while end < len(messages) and messages[end]["role"] in observers:
                tokens += message_tokens(messages[end])
                end += 1
            if end < len(messages):
                pieces.append(Piece("step", tokens, call_before=True))
        elif end < len(messages):
            pieces.append(Piece("said", tokens, call_before=called, by_user=not called))
        at = end
    return Recording(source, name, preamble, tuple(pieces))


def recorded(data: Path) -> Iterator[Recording]:
    """Yield the recorded trajectories that are there."""
    for source, path in (
        ("airline", data / "tau-bench/gpt-4o-airline.json"),
        ("retail", data / "agentrx/tau_dataset_full.json"),
    ):
        if not path.exists():
            print(f"{path} is not there; set AGORA_DATA", file=sys.stderr)
            continue
        for i, row in enumerate(json.loads(path.read_text(encoding="utf-8"))):
            yield read_messages(source, f"{source}-{i}", row["traj"], user_observes=False)
    for i, path in enumerate(sorted((data / "swe-agent").glob("*.traj"))):
        history = json.loads(path.read_text(encoding="utf-8"))["history"]
        yield read_messages("coding", f"coding-{i}", history, user_observes=True)


def generated() -> Iterator[Recording]:
    """Yield long trajectories: a preamble of 4,096 tokens, steps of 150 + Exp(1,200)."""
    for steps, many in GENERATED.items():
        for seed in range(many):
            rng = random.Random(f"{steps}-{seed}")
            pieces = tuple(
                Piece("step", 150 + int(rng.expovariate(1 / 1200)), call_before=True)
                for _ in range(steps)
            )
            yield Recording(f"long-{steps}", f"long-{steps}-{seed}", 4_096, pieces)


# Prompts


@dataclass(frozen=True, slots=True)
class Call:
    """One call: how many pieces and steps came before it, and what all of it costs."""

    pieces: int
    steps: int
    total: int


def calls_of(recording: Recording) -> list[Call]:
    """Return the calls of a recording, the last one at its end."""
    calls: list[Call] = []
    steps, total = 0, recording.preamble
    for i, piece in enumerate(recording.pieces):
        if piece.call_before:
            calls.append(Call(i, steps, total))
        steps += piece.kind == "step"
        total += piece.tokens
    calls.append(Call(len(recording.pieces), steps, total))
    return calls


@dataclass(frozen=True, slots=True)
class Edit:
    """How much an edit leaves, and which share of that, outside the floor, goes to skeletons."""

    budget: Budget
    skeleton_share: float = 0.0


PAPER = Edit(Budget(keep_ratio=KEEP_RATIO, min_ratio=0.0))


class Prompts:
    """The prompts of a recording after an edit at any call, by a scorer that is a die."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.calls = calls_of(recording)
        self.first_call: dict[int, int] = {}
        for i, call in enumerate(self.calls):
            self.first_call.setdefault(call.steps, i)
        self.preamble = Segment("preamble", recording.preamble)
        self.whole = [
            Segment((piece.kind, i), piece.tokens) for i, piece in enumerate(recording.pieces)
        ]
        self.edited = lru_cache(maxsize=None)(self._edited)

    def _edited(self, epoch: int, kind: Edit, left: int | None) -> tuple[Segment, ...]:
        """Return the segments up to the first call after `epoch` steps, as an edit leaves them."""
        call = self.calls[self.first_call[epoch]]
        pieces = self.recording.pieces[: call.pieces]
        steps = [i for i, piece in enumerate(pieces) if piece.kind == "step"]
        old = steps[: max(0, len(steps) - K_RECENT)]
        if not old:
            return (self.preamble, *self.whole[: call.pieces])
        floor = call.total - sum(pieces[i].tokens for i in old) + MARKER_TOKENS
        if left is None:
            left = kind.budget.of(call.total, floor=floor)
        room = max(0, left - floor)
        share = kind.skeleton_share
        for_steps = room * (1 - share)
        rng = random.Random(f"{self.recording.name}-{epoch}")
        kept: set[int] = set()
        for i in sorted(old, key=lambda _: rng.random()):
            if pieces[i].tokens <= for_steps:
                for_steps -= pieces[i].tokens
                kept.add(i)
        gone = len(old) - len(kept)
        skeletons = min(room * share, SKELETON_TOKENS * gone)
        out = [self.preamble]
        run: list[int] = []
        marker_left = MARKER_TOKENS
        for i in range(call.pieces + 1):
            if i < call.pieces and i in old and i not in kept:
                run.append(i)
                continue
            if run:
                tokens = int(skeletons * len(run) / gone) + marker_left
                marker_left = 0
                out.append(Segment(("marker", epoch, run[0]), max(1, tokens)))
                run = []
            if i < call.pieces:
                out.append(self.whole[i])
        return tuple(out)

    def sent(
        self,
        due: Callable[[int], int],
        kind: Edit,
        left: Callable[[int], int | None] = lambda _: None,
    ) -> Iterator[tuple[Segment, ...]]:
        """Yield the prompt of each call, edited last after `due(steps)` steps to `left(steps)`."""
        for call in self.calls:
            epoch = due(call.steps)
            if epoch == 0:
                yield (self.preamble, *self.whole[: call.pieces])
                continue
            start = self.calls[self.first_call[epoch]].pieces
            edited = self.edited(epoch, kind, left(call.steps))
            yield (*edited, *self.whole[start : call.pieces])


def bill(sheet: PriceSheet, prompts: Iterator[tuple[Segment, ...]]) -> list[Bill]:
    """Return the bills of prompts; a caller of breakpoints marks the preamble and the end."""
    cache = PrefixCache(sheet)
    bills: list[Bill] = []
    for prompt in prompts:
        if sheet.breakpoints:
            marked = [replace(prompt[0], breakpoint=True), *prompt[1:]]
            marked[-1] = replace(marked[-1], breakpoint=True)
            bills.append(cache.send(marked))
        else:
            bills.append(cache.send(prompt))
    return bills


def cost(sheet: PriceSheet, bills: Sequence[Bill]) -> float:
    """Return what bills cost, in tokens at the price of uncached input."""
    return sum(b.uncached + b.read * sheet.read + b.written * sheet.write for b in bills)


# The best schedule that knows the future


def offline(prompts: Prompts, sheet: PriceSheet, kind: Edit) -> tuple[int, ...]:
    """Return the epoch after each number of steps of the cheapest schedule (a programme in O(N^2)).

    Like the schedule it may edit at any call, and send everything again at the first call that
    is long enough to be cached.
    """
    calls = prompts.calls
    block = max(1, sheet.block)
    minimum = sheet.minimum_prefix

    def price(hit: int, size: int) -> float:
        hit = hit // block * block
        if size < minimum:
            return size
        if hit < minimum:
            hit = 0
        return sheet.read * hit + sheet.write * (size - hit)

    size_after: dict[int, int] = {}
    for steps, i in prompts.first_call.items():
        if steps:
            size_after[i] = sum(segment.tokens for segment in prompts.edited(steps, kind, None))
    edit = {i: price(prompts.preamble.tokens, size) for i, size in size_after.items()}

    best: dict[int, float] = {-1: 0.0}
    came_from: dict[int, int] = {}
    end, last = math.inf, -1
    crossing = next((i for i, call in enumerate(calls) if call.total >= minimum), 0)
    whole = len(calls)  # the state of having sent everything at the crossing, whatever was before
    for start in (*range(-1, crossing), whole, *range(crossing, len(calls))):
        spent = best.get(start)
        if spent is None:
            continue
        gap, before, first = 0, 0, start + 1
        if start == whole:
            before, first = calls[crossing].total, crossing + 1
        elif start >= 0:
            gap, before = calls[start].total - size_after[start], size_after[start]
        for i in range(first, len(calls)):
            size = calls[i].total - gap
            if i in edit and size_after[i] < size:
                total = spent + edit[i]
                if total < best.get(i, math.inf):
                    best[i] = total
                    came_from[i] = start
            if i == crossing and 0 <= start < crossing:
                total = spent + price(0, calls[i].total)
                if total < best.get(whole, math.inf):
                    best[whole] = total
                    came_from[whole] = start
            spent += price(before, size)
            before = size
        if spent < end:
            end, last = spent, start
    changes: dict[int, int] = {}
    while last >= 0:
        if last == whole:
            changes.setdefault(calls[crossing].steps, 0)
        else:
            changes.setdefault(calls[last].steps, calls[last].steps)
        last = came_from[last]
    epochs = [0]
    for steps in range(1, calls[-1].steps + 1):
        epochs.append(changes.get(steps, epochs[-1]))
    return tuple(epochs)


# One trajectory on all sheets


def classes() -> dict[str, PriceSheet]:
    """Return one sheet for each way of billing, without its window, by its families' names."""
    found: dict[tuple[object, ...], list[PriceSheet]] = {}
    for sheet in shipped_sheets().values():
        rule = (sheet.minimum_prefix, sheet.block, sheet.breakpoints, sheet.common_prefix)
        key = (sheet.read, sheet.write, sheet.hit, *rule)
        found.setdefault(key, []).append(sheet)
    out = {}
    for _, family in sorted(found.items(), key=lambda pair: str(pair[0]), reverse=True):
        named = next((s for s in family if "-" in s.name and s.name != "gpt-automatic"), family[0])
        out[named.name] = replace(named, window=None)
    return out


def agora_edit(schedule: RentOrBuy) -> Edit:
    """Return how the schedule's edits are filled."""
    return Edit(replace(schedule.budget, min_ratio=schedule.min_ratio), SKELETON_SHARE)


def measure(recording: Recording, ceiling: float, sheets: Sequence[str]) -> list[dict[str, Any]]:
    """Return one row of figures per sheet."""
    prompts = Prompts(recording)
    sizes = recording.sizes()
    budget = Budget(keep_ratio=KEEP_RATIO)
    rows = []
    for name, sheet in classes().items():
        if sheets and name not in sheets:
            continue
        never = bill(sheet, prompts.sent(lambda _: 0, PAPER))
        kind = agora_edit(RentOrBuy(sheet, budget, K_RECENT))
        planned = RentOrBuy(sheet, budget, K_RECENT, ceiling=ceiling).edit(sizes)
        changes = planned.by_call(len(sizes.steps))
        epochs = [change.epoch for change in changes]
        rooms = [change.room for change in changes]
        known = offline(prompts, sheet, kind)
        costs = {
            "every call": bill(sheet, prompts.sent(lambda steps: steps, PAPER)),
            "agora": bill(sheet, prompts.sent(epochs.__getitem__, kind, rooms.__getitem__)),
            "offline": bill(sheet, prompts.sent(known.__getitem__, kind)),
        }
        row: dict[str, Any] = {
            "sheet": name,
            "source": recording.source,
            "name": recording.name,
            "steps": recording.steps,
            "calls": len(prompts.calls),
            "tokens": prompts.calls[-1].total,
        }
        full = cost(sheet, never)
        row |= {policy: cost(sheet, bills) / full for policy, bills in costs.items()}
        rows.append(row)
    return rows


# Report


COLUMNS = ("every call", "agora", "offline")


def report(rows: Sequence[dict[str, Any]]) -> None:
    """Print a table of all trajectories, then one for each kind: mean and, behind it, worst."""
    console = Console(width=180)
    sources = list(dict.fromkeys(row["source"] for row in rows))
    for title, chosen in [("all", sources), *((source, [source]) for source in sources)]:
        part = [row for row in rows if row["source"] in chosen]
        count = len({row["name"] for row in part})
        table = Table("sheet", *COLUMNS, title=f"{title}: {count} trajectories; mean, worst")
        for sheet in dict.fromkeys(row["sheet"] for row in part):
            mine = [row for row in part if row["sheet"] == sheet]
            values = [[row[column] for row in mine] for column in COLUMNS]
            table.add_row(sheet, *(f"{statistics.fmean(v):.3f} {max(v):.2f}" for v in values))
        console.print(table)


SHOWN = (
    *("gpt-5-pro", "gpt-4o", "gpt-4.1", "gpt-5"),
    *("claude-opus-5", "claude-opus-5-5", "claude-fable-5-1", "deepseek-v4-flash"),
)
"""One model for each way of pricing in the picture."""


def plot(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the bill of one long trajectory as it grows, and what schedules cost by sheet."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "agora"
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), width_ratios=(1, 1.25))
    recording = next(r for r in generated() if r.source == "long-120")
    prompts = Prompts(recording)
    schedule = RentOrBuy(replace(shipped_sheets()["claude-opus-5"], window=None))
    sheet, sizes = schedule.sheet, recording.sizes()
    epochs = [change.epoch for change in schedule.edit(sizes).by_call(len(sizes.steps))]
    for label, due, kind, colour in (
        ("every call", lambda steps: steps, PAPER, "#c0392b"),
        ("send everything", lambda _: 0, PAPER, "#7f8c8d"),
        ("AGORA", epochs.__getitem__, agora_edit(schedule), "#2471a3"),
    ):
        total, line = 0.0, []
        for one in bill(sheet, prompts.sent(due, kind)):
            total += one.dollars
            line.append(total)
        left.plot(line, label=label, color=colour)
    for epoch in sorted(set(epochs) - {0}):
        left.axvline(epoch, color="#2471a3", lw=0.5, alpha=0.35)
    left.set(xlabel="call", ylabel="dollars of input so far", title="One trajectory of 120 steps")
    left.legend(frameon=False)

    found = []
    for name in SHOWN:
        like = shipped_sheets()[name]
        same = [
            row
            for row in rows
            if row["source"] in ("long-60", "long-120")
            and (s := shipped_sheets()[row["sheet"]]).read == like.read
            and s.write == like.write
        ]
        found.append((f"{like.read:g}/{like.write:g}", same))
    for label, key, colour, mark in (
        ("every call", "every call", "#c0392b", "x"),
        ("AGORA", "agora", "#2471a3", "o"),
        ("best in hindsight", "offline", "#27ae60", "_"),
    ):
        means = [statistics.fmean(row[key] for row in same) for _, same in found]
        right.plot(range(len(found)), means, mark, label=label, color=colour, ms=8, mew=2)
    right.axhline(1, color="#7f8c8d", lw=1)
    right.set_xticks(range(len(found)), [label for label, _ in found], rotation=30)
    right.set(
        xlabel="price of a cached read / of a cache write",
        ylabel="input cost, send everything = 1",
        title="60 and 120 steps",
        yscale="log",
    )
    right.minorticks_off()
    right.set_yticks([0.25, 0.5, 1, 2, 4], ["0.25", "0.5", "1", "2", "4"])
    right.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="only trajectories of sources that begin so")
    parser.add_argument("--sheets", nargs="*", default=[], help="only these, by family")
    parser.add_argument("--ceiling", type=float, default=CEILING, help="of the schedule")
    parser.add_argument("--out", type=Path, help="write all rows as JSON")
    parser.add_argument("--plot", type=Path, help="write the picture as SVG")
    options = parser.parse_args()
    data = Path(os.environ.get("AGORA_DATA", Path(__file__).parents[2] / "shared" / "data"))
    recordings = [
        recording
        for recording in (*recorded(data), *generated())
        if recording.steps and recording.source.startswith(options.only)
    ]
    with ProcessPoolExecutor() as pool:
        done = pool.map(
            partial(measure, ceiling=options.ceiling, sheets=options.sheets),
            recordings,
            chunksize=4,
        )
        rows = list(chain.from_iterable(done))
    report(rows)
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if options.plot:
        plot(rows, options.plot)


if __name__ == "__main__":
    main()

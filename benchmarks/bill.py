"""What edits cost and save on recorded sessions, by policy, beside what the provider billed.

    python -m benchmarks.bill                                   Claude Code, all recordings
    python -m benchmarks.bill --data gemini --sheet gpt-5       500 coding runs at other prices
    python -m benchmarks.bill --every 5 --guesses               a sample, with wrong guesses
    python -m benchmarks.bill --out benchmarks/results/bill-claude-code.json

Each call is billed by a simulated cache that loses its contents where `usage` says it did. A row
has the dollars of all calls, the highest ratio to sending everything at any call of any session,
and the share of actions that find every name they take from an earlier step in their prompt
(`agora.replay.needs`). Exits with 1 if the simulation of what was sent is off by more than 3 %, or
a policy that promises 1.05 exceeds 1.051.
"""

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from agora import Budget, Compressor, EstimatedTokens, PriceSheet, sheet_for
from agora.core.schedule import CLOCK_MARGIN_SECONDS, Policy
from agora.formats import broken_rules
from agora.logs import Recording, Tally, read_logs
from agora.replay.clearing import cleared, clears
from agora.replay.measure import Measured, measure
from agora.replay.needs import Needs
from agora.replay.prompts import Prompt
from agora.replay.report import billed_dollars
from agora.replay.simulate import Account, Agora, CallBill
from harness.recordings import unpacked

DATA = Path(os.environ.get("AGORA_DATA", "../shared/data"))
SOURCES = {
    "claude-code": ("claude-code-entire/sessions.tar.xz",),
    "claude-code-small": ("claude-code/sessions.tar.xz",),
    "gemini": ("swe-bench-gemini",),
}
SUM_BAR, BOUND_BAR = 0.03, 1.051
LONG = 60
"""Sessions of so many calls have a row of their own."""

Change = Callable[[Policy, PriceSheet], Policy]


def _blind(policy: Policy, _: PriceSheet) -> Policy:
    """Take the clock away."""
    return replace(policy, sheet=replace(policy.sheet, ttl_assumed=True))


def _margin(seconds: float, policy: Policy, _: PriceSheet) -> Policy:
    lives = policy.sheet.ttl_seconds + seconds - CLOCK_MARGIN_SECONDS
    return replace(policy, sheet=replace(policy.sheet, ttl_seconds=max(1.0, lives)))


def _lives(seconds: float, policy: Policy, _: PriceSheet) -> Policy:
    return replace(policy, sheet=replace(policy.sheet, ttl_seconds=seconds))


def _unnamed(policy: Policy, sheet: PriceSheet) -> Policy:
    """Forget which lifetime the requests named."""
    return replace(policy, sheet=replace(policy.sheet, lifetimes=sheet_for(sheet.name).lifetimes))


@dataclass(frozen=True, slots=True)
class Way:
    """A way of sending a session: settings of the compressor, and a change to what it believes."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    believes: Change | None = None


WAYS = {
    "default": Way(),
    "version before: h = 0, no free edits": Way({"forgetting": 0.0}, _blind),
    "free only": Way({"edits": "free"}),
    "warm only": Way({}, _blind),
    "h = 0": Way({"forgetting": 0.0}),
    "h = 0.5": Way({"forgetting": 0.5}),
    "for databases: keep 0.4": Way({"budget": Budget(keep_ratio=0.4)}),
}
GUESSES = {
    "no margin": Way({}, partial(_margin, 0.0)),
    "margin of 300 s": Way({}, partial(_margin, 300.0)),
    "five minutes believed": Way({}, partial(_lives, 300.0)),
    "one hour believed": Way({}, partial(_lives, 3_600.0)),
    "no lifetime named": Way({}, _unnamed),
    "free only, no margin": Way({"edits": "free"}, partial(_margin, 0.0)),
    "free only, five minutes believed": Way({"edits": "free"}, partial(_lives, 300.0)),
}
CLEARING = "the provider's own clearing"


@dataclass(slots=True)
class Row:
    """One way over all recordings, or over one."""

    dollars: float = 0.0
    everything: float = 0.0
    output: float = 0.0
    """Dollars of the answers."""
    worst_end: float = 0.0
    worst_moment: float = 0.0
    worst: str = ""
    """The recording of the worst moment."""
    sessions: int = 0
    edited: int = 0
    gained: int = 0
    """Sessions that cost less."""
    edits: Counter[str] = field(default_factory=Counter)
    removed_tokens: Counter[str] = field(default_factory=Counter)
    needing: int = 0
    met: int = 0
    needing_after: int = 0
    """Those after an edit."""
    met_after: int = 0
    again: int = 0
    """Recorded calls that repeat a shortened one; all would have come anyway."""
    expected: float = 0.0
    """How many the counter of extra calls expects."""
    savings: list[float] = field(default_factory=list)

    def add(self, other: "Row") -> None:
        """Take in another recording."""
        if other.worst_moment > self.worst_moment:
            self.worst = other.worst
        self.worst_end = max(self.worst_end, other.worst_end)
        self.worst_moment = max(self.worst_moment, other.worst_moment)
        self.edits += other.edits
        self.removed_tokens += other.removed_tokens
        self.savings += other.savings
        for name in (
            *("dollars", "everything", "output", "sessions", "edited", "gained"),
            *("needing", "met", "needing_after", "met_after", "again", "expected"),
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def figures(self) -> dict[str, Any]:
        """Return the row as it is written."""
        savings = sorted(self.savings)
        return {
            "saved": 1 - self.dollars / self.everything,
            "saved_with_output": (self.everything - self.dollars) / (self.everything + self.output),
            "names": self.met / self.needing if self.needing else None,
            "names_after_an_edit": self.met_after / self.needing_after
            if self.needing_after
            else None,
            "median_session": savings[len(savings) // 2],
            "nothing_saved": 1 - self.gained / self.sessions,
            "edited_share": self.edited / self.sessions,
            "missed": self.needing - self.met,
            "break_even": (self.everything - self.dollars) / (self.dollars + self.output),
            **{name: getattr(self, name) for name in Row.__slots__ if name != "savings"},
        }


@dataclass(slots=True)
class Session:
    """What one recording shows: its classes, its bills, and a row for each way."""

    id: str
    groups: tuple[str, ...]
    billed: float
    simulated: float
    calls: int
    alone: str = ""
    """Why AGORA leaves it alone."""
    example: dict[str, Any] = field(default_factory=dict)
    """The prompts of every call in the default way, if it has edits of both kinds."""
    rows: dict[str, Row] = field(default_factory=dict)


def recordings(names: tuple[str, ...]) -> Iterator[Recording]:
    """Yield the recordings of a source."""
    with ExitStack() as stack:
        paths = [
            stack.enter_context(unpacked(DATA / name)) if name.endswith(".tar.xz") else DATA / name
            for name in names
        ]
        yield from read_logs(paths, Tally())


def session(recording: Recording, ways: Mapping[str, Way], sheet_name: str) -> Session:
    """Return the bill of one recording for each way."""
    counter = EstimatedTokens()
    measured = measure(recording, counter)
    needs = Needs(measured.trajectory)
    own = sheet_for(recording.model or "")
    sheet = (sheet_for(sheet_name) if sheet_name else own).for_ttl(recording.ttl)
    compressor = Compressor(sheet=sheet, counter=counter)
    writer = Agora(measured, compressor).writer
    everything = Account(measured, sheet, needs)
    for moment in measured.moments:
        everything.send(Prompt(writer.prompt(moment, ()), (), edited=False))
    whole = _dollars(everything.calls, sheet, measured)
    alone = measured.shortened or str(next(iter(broken_rules(recording.request())), ""))
    groups = ["all", own.name]
    if own.lifetimes:
        groups.append("1 hour" if recording.ttl == "1h" else "5 minutes")
    if len(whole) >= LONG:
        groups.append(f"{LONG} calls or more")
    found = Session(
        id=recording.id,
        groups=tuple(groups),
        billed=sum(billed_dollars(usage, own, recording.ttl) for usage in measured.usage),
        simulated=sum(whole),
        calls=len(whole),
        alone=alone,
    )
    output = sheet.dollars(output=sum(usage.output for usage in measured.usage))
    for name, way in ways.items():
        account, agora = Account(measured, sheet, needs), None
        if alone:
            account = everything
        elif name == CLEARING:
            if not clears(sheet):
                continue
            for prompt in cleared(measured, counter):
                account.send(prompt)
        else:
            compressor = Compressor(**{"sheet": sheet, "counter": counter, **way.settings})
            policy = compressor.policy()
            if way.believes:
                policy = way.believes(policy, sheet)
            agora = Agora(measured, compressor, policy)
            agora.send(account)
        row = _row(account.calls, whole, output, sheet, measured, agora)
        row.worst = recording.id
        found.rows[name] = row
        if name == "default" and len(row.edits) > 1:
            found.example = {
                "id": recording.id,
                "whole": [_prompt(call, measured) for call in everything.calls],
                "sent": [_prompt(call, measured) for call in account.calls],
                "edits": [at for at, call in enumerate(account.calls) if call.edited],
                "kinds": [why for why, _ in agora.made] if agora else [],
                "seconds": measured.at_seconds,
            }
    return found


def _prompt(call: CallBill, measured: Measured) -> int:
    return round((call.uncached + call.read + call.written) * measured.unseen.scale)


def _row(
    calls: list[CallBill],
    whole: list[float],
    output: float,
    sheet: PriceSheet,
    measured: Measured,
    agora: Agora | None,
) -> Row:
    dollars = _dollars(calls, sheet, measured)
    ratios = [
        paid / full
        for paid, full in zip(accumulate(dollars), accumulate(whole), strict=True)
        if full
    ]
    first = next((at for at, call in enumerate(calls) if call.edited), len(calls))
    after = calls[first:]
    row = Row(
        dollars=sum(dollars),
        everything=sum(whole),
        output=output,
        worst_end=ratios[-1],
        worst_moment=max(ratios),
        sessions=1,
        edited=first < len(calls),
        gained=sum(dollars) < sum(whole) - 1e-12,
        needing=sum(call.has_names is not None for call in calls),
        met=sum(call.has_names is True for call in calls),
        needing_after=sum(call.has_names is not None for call in after),
        met_after=sum(call.has_names is True for call in after),
        again=agora.repeats.again if agora else 0,
        expected=agora.repeats.expected if agora else 0.0,
        savings=[1 - sum(dollars) / sum(whole)],
    )
    for why, tokens in agora.made if agora else ():
        row.edits[why] += 1
        row.removed_tokens[why] += round(tokens * measured.unseen.scale)
    return row


def _dollars(calls: list[CallBill], sheet: PriceSheet, measured: Measured) -> list[float]:
    scaled = (call.scaled(measured.unseen.scale) for call in calls)
    return [sheet.dollars(uncached=c.uncached, read=c.read, written=c.written) for c in scaled]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", choices=SOURCES, default="claude-code")
    parser.add_argument("--sheet", default="", help="prices other than those of the log's models")
    parser.add_argument("--guesses", action="store_true", help="rows with wrong guesses")
    parser.add_argument("--ways", nargs="*", help="only these rows")
    parser.add_argument("--every", type=int, default=1, help="only every so many recordings")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    ways = {**WAYS, **(GUESSES if options.guesses else {}), CLEARING: Way()}
    ways = {name: way for name, way in ways.items() if name in (options.ways or ways)}
    left_out: list[str] = []
    groups: dict[str, dict[str, Row]] = {}
    billed = simulated = 0.0
    count = calls = 0
    example: dict[str, Any] = {}
    alone: Counter[str] = Counter()

    def chosen() -> Iterator[Recording]:
        for recording in islice(recordings(SOURCES[options.data]), 0, None, options.every):
            # It goes on from an earlier recording, which was microcompacted or had another model:
            # its text is not what was sent.
            if recording.earlier_calls:
                left_out.append(recording.id)
            else:
                yield recording

    work = partial(session, ways=ways, sheet_name=options.sheet)
    with ProcessPoolExecutor(options.jobs) as pool:
        for found in pool.map(work, chosen()):
            count, calls = count + 1, calls + found.calls
            if found.alone:
                alone["shortened before" if "shortened" in found.alone else "breaks a rule"] += 1
            else:
                billed, simulated = billed + found.billed, simulated + found.simulated
            if len(found.example.get("sent", ())) > len(example.get("sent", ())):
                example = found.example
            for group in found.groups:
                for name, row in found.rows.items():
                    groups.setdefault(group, {}).setdefault(name, Row()).add(row)
    for group, rows in sorted(groups.items(), key=lambda item: -len(item[1]["default"].savings)):
        print(f"\n{group}: {rows['default'].sessions} sessions, ${rows['default'].everything:,.2f}")
        print("  saved  +output  names  after   end    moment  nothing  again expect   edits")
        for name, row in rows.items():
            f = row.figures()
            print(
                f"  {f['saved']:6.1%} {f['saved_with_output']:6.1%} {f['names'] or 1:7.1%}"
                f" {f['names_after_an_edit'] or 1:6.1%} {row.worst_end:6.3f}"
                f" {row.worst_moment:7.4f} {f['nothing_saved']:7.0%}"
                f" {row.again:6,} {row.expected:6,.0f}   {name}  {dict(row.edits)}"
            )
    error = simulated / billed - 1 if billed else 0.0
    print(f"\n{count} recordings, {calls:,} calls; left out: {', '.join(left_out) or 'none'}")
    print(f"left alone: {dict(alone)}; simulated {error:+.2%} of ${billed:,.2f} billed")
    if options.out:
        made = {
            "command": " ".join(["python -m benchmarks.bill", *sys.argv[1:]]),
            "recordings": count,
            "calls": calls,
            "left_out": left_out,
            "left_alone": dict(alone),
            "billed": billed,
            "simulated": simulated,
            "example": example,
            "groups": {
                group: {name: row.figures() for name, row in rows.items()}
                for group, rows in groups.items()
            },
        }
        options.out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    bound = max(row.worst_moment for name, row in groups["all"].items() if name in WAYS)
    if abs(error) > SUM_BAR or bound > BOUND_BAR:
        sys.exit(f"off by {error:+.1%} in sum; at most {bound:.4f} of sending everything")


if __name__ == "__main__":
    main()

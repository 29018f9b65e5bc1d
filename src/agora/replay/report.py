"""The report of many replays: totals, a row per trajectory, details of the most expensive."""

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from agora.core.prices import FAMILIES, UNKNOWN, PriceSheet
from agora.core.schedule import MIN_TOKENS
from agora.formats.text_agents import ACTS_BY_TEXT
from agora.logs import Tally, Usage
from agora.replay.run import OWN, Pricing, ReplayOutcome
from agora.replay.simulate import Policy, PolicyBill, Replayed

MOST_ROWS = 5_000
"""How many trajectories are listed, the most expensive first. The totals cover all."""
MOST_DETAILS = 200
"""For how many of them the calls and the elided steps are listed."""
MOST_ELIDED = 1_000
"""The most elided steps listed for one trajectory."""
_MOST_REASONS = 50
_MOST_MODELS = 100
_EXAMPLES = 5
_SHOWN_OF_A_NAME = 200
_SAME = 1e-9
"""Relative difference below which two bills are the same."""

Unit = Literal["dollars", "seconds"]
Json = dict[str, Any]


def unit_of(sheet: PriceSheet) -> Unit:
    """Return the unit of a sheet's costs: seconds of prefill for one's own hardware."""
    return "seconds" if not sheet.input and sheet.prefill_seconds_per_million else "dollars"


@dataclass(slots=True)
class Totals:
    """The calls of all trajectories under one policy, by one price sheet."""

    calls: int = 0
    edits: int = 0
    uncached: int = 0
    read: int = 0
    written: int = 0
    uncached_cost: float = 0.0
    read_cost: float = 0.0
    written_cost: float = 0.0
    needing: int = 0
    """Actions that need a name from an earlier step."""
    met: int = 0
    """The actions with every needed name still in the prompt."""
    offered: int = 0
    """Trajectories whose provider has this policy; others are in the totals as they were."""
    saved: dict[str, float] = field(default_factory=dict)
    """Dollars saved by the edits of each kind: free, warm and window."""
    extra_calls: int = 0
    """Calls to expect on top, if each action that misses a name asks for it again."""
    again: int = 0
    """Recorded calls that repeat one that would have been shortened by then."""
    extra_dollars: float = 0.0
    """The price of those calls, answers included."""

    @property
    def cost(self) -> float:
        """In dollars, or in seconds of prefill."""
        return self.uncached_cost + self.read_cost + self.written_cost

    def add(self, bill: PolicyBill, sheet: PriceSheet, call_dollars: float) -> float:
        """Add a trajectory whose calls cost so much each, and return its input cost."""
        before = self.cost
        rate = sheet.input
        if unit_of(sheet) == "seconds":
            rate = sheet.prefill_seconds_per_million or 0.0
        for call in bill.calls:
            dollars = rate * sheet.tier(call.uncached + call.read + call.written).input / 1e6
            self.uncached += call.uncached
            self.read += call.read
            self.written += call.written
            self.uncached_cost += call.uncached * dollars
            self.read_cost += call.read * dollars * sheet.read
            self.written_cost += call.written * dollars * sheet.write
        self.calls += len(bill.calls)
        self.edits += bill.edits
        self.needing += bill.needing
        self.met += bill.met
        self.offered += bill.offered
        self.extra_calls += bill.extra_calls
        self.again += bill.repeats.again
        self.extra_dollars += bill.extra_calls * call_dollars
        for why, dollars in bill.saved.items():
            self.saved[why] = self.saved.get(why, 0.0) + dollars
        return self.cost - before

    def value(self) -> Json:
        """Return the totals as JSON."""
        return {
            "cost": self.cost,
            "tokens": self.uncached + self.read + self.written,
            **asdict(self),
            "append_only_share": 1 - self.edits / self.calls if self.calls else 1.0,
            "met_share": self.met / self.needing if self.needing else None,
        }


def billed_dollars(usage: Usage, sheet: PriceSheet, ttl: str | None = None) -> float:
    """Return the dollars of a call's input by the provider's usage.

    `ttl` is the time to live that the call asked for, used if the usage does not say.
    """
    paid = sheet.as_billed(usage.written, usage.written_1h, ttl)
    return paid.dollars(uncached=usage.uncached, read=usage.read, written=usage.written)


@dataclass(slots=True)
class Billed:
    """The provider's bill for calls with usage in the log, beside our simulation."""

    calls: int = 0
    prompt: int = 0
    read: int = 0
    cost: float = 0.0
    """Input only, by the price sheet, from the tokens that the provider reported."""
    simulated_read: int = 0
    simulated_cost: float = 0.0
    """The same calls with the cache simulated."""

    def add(self, replayed: Replayed, sheet: PriceSheet, ttl: str | None) -> None:
        """Add a trajectory that has its usage."""
        if not replayed.usage or replayed.shortened:
            return
        usual = sheet.for_ttl(ttl)
        simulated = replayed.bills[Policy.AS_IT_WAS].calls
        for usage, call in zip(replayed.usage, simulated, strict=True):
            self.calls += 1
            self.prompt += usage.prompt
            self.read += usage.read
            self.cost += billed_dollars(usage, sheet, ttl)
            self.simulated_read += call.read
            self.simulated_cost += usual.dollars(
                uncached=call.uncached, read=call.read, written=call.written
            )

    def value(self) -> Json:
        """Return it as JSON."""
        return {
            **asdict(self),
            "error": self.simulated_cost / self.cost - 1 if self.cost else None,
        }


@dataclass(slots=True)
class Comparison:
    """The numbers of trajectories where AGORA costs less, the same and more; the worst ratio."""

    cheaper: int = 0
    same: int = 0
    costlier: int = 0
    worst: float = 0.0
    """AGORA's cost as a ratio to the recorded one, on the trajectory where that is highest."""

    def add(self, was: float, now: float) -> None:
        """Add a trajectory."""
        if abs(now - was) <= _SAME * max(was, now):
            self.same += 1
        elif now < was:
            self.cheaper += 1
        else:
            self.costlier += 1
        if was:
            self.worst = max(self.worst, now / was)


class Reasons:
    """Reasons with their number and places, the most frequent ones."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._where: dict[str, list[str]] = {}

    def add(self, reason: str, where: str) -> None:
        """Count a reason."""
        if reason not in self._counts and len(self._counts) >= _MOST_REASONS:
            reason = "something else"
        self._counts[reason] += 1
        examples = self._where.setdefault(reason, [])
        if len(examples) < _EXAMPLES:
            examples.append(where)

    def value(self) -> Json:
        """Return them as JSON, the most frequent first."""
        return {
            "count": self._counts.total(),
            "reasons": [
                {"reason": reason, "count": count, "examples": self._where[reason]}
                for reason, count in self._counts.most_common()
            ],
        }


@dataclass(slots=True)
class Report:
    """Adds up outcomes as they come; only the rows grow with their number."""

    pricing: Pricing
    min_tokens: int = MIN_TOKENS
    """Prompts below this were not edited."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The name of a path before the number of a trajectory, if there are several paths."""
    trajectories: int = 0
    steps: int = 0
    calls: int = 0
    below_threshold: int = 0
    """Trajectories left alone because no prompt of them reached `min_tokens`."""
    act_by_text: int = 0
    """Trajectories of ten or more turns in which no step was seen."""
    billed: Billed = field(default_factory=Billed)
    """By the first sheet."""
    compared: Comparison = field(default_factory=Comparison)
    """By the first sheet."""
    failed: Reasons = field(default_factory=Reasons)
    """Trajectories that could not be replayed."""
    illegal: Reasons = field(default_factory=Reasons)
    """Trajectories left unedited because a provider would refuse them in any case."""
    shortened: Reasons = field(default_factory=Reasons)
    """Trajectories left unedited because they had been shortened already."""
    not_shown: dict[str, list[int]] = field(default_factory=dict)
    """By a part of every call that logs do not show: its size in each trajectory, in tokens."""
    lost: int = 0
    """Calls before which the provider's cache had expired or was lost, as usage shows."""
    totals: dict[str, dict[Policy, Totals]] = field(default_factory=dict)
    models: dict[str, Json] = field(default_factory=dict)
    _sheets: dict[str, PriceSheet] = field(default_factory=dict)
    _rows: list[Json] = field(default_factory=list)
    _detailed: list[tuple[float, int, Json]] = field(default_factory=list)
    """A heap of the rows that have details, the cheapest first."""

    def __post_init__(self) -> None:
        for key in self.pricing.keys:
            self.totals[key] = {policy: Totals() for policy in Policy}

    def add(self, outcome: ReplayOutcome) -> None:
        """Add one outcome."""
        path = self.names.get(outcome.path, "")
        place = f"{path}#{outcome.number}" if outcome.path else outcome.id
        if not outcome.by_sheet:
            self.failed.add(outcome.error, place)
            return
        sheets = self.pricing.of(outcome.model, outcome.ttl)
        costs: list[list[float]] = []
        for key, replayed in outcome.by_sheet.items():
            sheet = sheets[key]
            self._sheets[sheet.name] = sheet
            totals = self.totals[key]
            price = replayed.call_dollars
            bills = replayed.bills
            costs.append([totals[policy].add(bills[policy], sheet, price) for policy in Policy])
        first = next(iter(outcome.by_sheet.values()))
        self.trajectories += 1
        self.steps += first.steps
        self.calls += len(first.bills[Policy.AS_IT_WAS].calls)
        self.below_threshold += first.below_threshold
        self.act_by_text += first.acts_by_text
        self.lost += first.lost
        self.billed.add(first, next(iter(self.pricing.of(outcome.model).values())), outcome.ttl)
        self.compared.add(costs[0][0], costs[0][1])
        if first.illegal:
            self.illegal.add(first.illegal, place)
        if first.shortened:
            self.shortened.add(first.shortened, place)
        if first.lacks:
            self.not_shown.setdefault(first.lacks, []).append(first.unseen_tokens)
        self._count_model(outcome.model, first.sheet, first.bills[Policy.AGORA].edits)
        row = _row(first, costs[0])
        row["path"] = path
        row["number"] = outcome.number if outcome.path else self.trajectories - 1
        self._rows.append(row)
        row["detail"] = _detail(first)
        heapq.heappush(self._detailed, (costs[0][0], -self.trajectories, row))
        if len(self._detailed) > MOST_DETAILS:
            del heapq.heappop(self._detailed)[2]["detail"]

    def value(self, tally: Tally, paths: Sequence[str] = ()) -> Json:
        """Return the report as JSON; a row's costs and edits are in the order of `policies`."""
        rows = sorted(self._rows, key=lambda row: -row["cost"][0])[:MOST_ROWS]
        return {
            "policies": [str(policy) for policy in Policy],
            "input": {
                "paths": list(paths),
                "files": tally.files,
                "records": tally.records,
                "bytes": tally.bytes_read,
                "bad": tally.bad,
                "bad_examples": [asdict(bad) for bad in tally.examples],
                "skipped": dict(tally.skipped.most_common(_MOST_REASONS)),
            },
            "trajectories": self.trajectories,
            "steps": self.steps,
            "calls": self.calls,
            "idle": self._idle(),
            "billed": self.billed.value(),
            "compared": asdict(self.compared),
            "failed": self.failed.value(),
            "left_alone": self.illegal.value(),
            "shortened": self.shortened.value(),
            "not_shown": [_sizes(what, sizes) for what, sizes in self.not_shown.items()],
            "lost": self.lost,
            "units": {key: self._unit(key) for key in self.pricing.keys},
            "sheets": {name: _sheet(sheet) for name, sheet in sorted(self._sheets.items())},
            "models": self.models,
            "totals": {
                key: {str(policy): totals.value() for policy, totals in by_policy.items()}
                for key, by_policy in self.totals.items()
            },
            "rows": rows,
        }

    def _idle(self) -> str:
        """Return why AGORA would have edited nothing, for the case that it did not."""
        if self.act_by_text and not self.steps:
            return (
                f"No step was seen in {self.act_by_text:,} of {self.trajectories:,} trajectories,"
                f" though the agent speaks ten times or more: {ACTS_BY_TEXT} (--observations user)."
            )
        small, least = self.below_threshold, f"{self.min_tokens:,} tokens"
        if small and small == self.trajectories:
            return (
                f"Left alone: no prompt reached {least}, below which AGORA edits nothing. "
                "Whether an edit would have paid off was not checked."
            )
        rest = f" ({small:,} of {self.trajectories:,} stayed below {least})" if small else ""
        return f"Nothing to do: no edit would have paid off{rest}, so AGORA changes nothing."

    def _count_model(self, model: str, sheet: str, edits: int) -> None:
        name = model[:_SHOWN_OF_A_NAME] or "(not said)"
        if name not in self.models and len(self.models) >= _MOST_MODELS:
            name = "(others)"
        counted = self.models.setdefault(name, {"trajectories": 0, "sheet": sheet, "edits": 0})
        counted["trajectories"] += 1
        counted["edits"] += edits

    def _unit(self, key: str) -> Unit:
        """Return a key's unit; where models differ it is dollars, and hardware costs none."""
        if key != OWN:
            return unit_of(self.pricing.of(None)[key])
        units = {unit_of(self._sheets[model["sheet"]]) for model in self.models.values()}
        return "seconds" if units == {"seconds"} else "dollars"


def _row(replayed: Replayed, costs: Sequence[float]) -> Json:
    return {
        "id": replayed.id[:_SHOWN_OF_A_NAME],
        "model": replayed.model[:_SHOWN_OF_A_NAME],
        "sheet": replayed.sheet,
        "format": replayed.format,
        "task": replayed.task[:_SHOWN_OF_A_NAME],
        "steps": replayed.steps,
        "calls": len(replayed.bills[Policy.AS_IT_WAS].calls),
        "tokens": replayed.tokens,
        "elided": len(replayed.elided),
        "edits": [replayed.bills[policy].edits for policy in Policy],
        "cost": costs,
        "illegal": replayed.illegal,
        "shortened": replayed.shortened,
        "lacks": replayed.lacks,
        "unseen_tokens": replayed.unseen_tokens,
    }


def _detail(replayed: Replayed) -> Json:
    """Return the largest elided steps, and the tokens of each call under each policy."""
    largest = sorted(replayed.elided, key=lambda step: -step.tokens)[:MOST_ELIDED]
    return {
        "elided": [
            [step.number, step.tokens, step.action, step.skeleton]
            for step in sorted(largest, key=lambda step: step.number)
        ],
        "calls": [_columns(replayed.bills[policy]) for policy in Policy],
    }


def _columns(bill: PolicyBill) -> list[list[int]]:
    """Return uncached, read and written tokens per call, and which calls were edited."""
    return [
        [call.uncached for call in bill.calls],
        [call.read for call in bill.calls],
        [call.written for call in bill.calls],
        [place for place, call in enumerate(bill.calls) if call.edited],
    ]


def _sizes(what: str, sizes: Sequence[int]) -> Json:
    """Return the spread of a size over trajectories, to the nearest thousand tokens."""
    thousands = sorted(round(tokens, -3) for tokens in sizes)
    return {
        "what": what,
        "trajectories": len(thousands),
        "tokens": thousands[(len(thousands) - 1) // 2],
        "least": thousands[0],
        "most": thousands[-1],
    }


def _sheet(sheet: PriceSheet) -> Json:
    return {
        "name": sheet.name,
        "unit": unit_of(sheet),
        "input": sheet.input,
        "read": sheet.read,
        "write": sheet.write,
        "minimum_prefix": sheet.minimum_prefix,
        "ttl_seconds": sheet.ttl_seconds,
        "tiers": [asdict(tier) for tier in sheet.tiers],
        "prefill_seconds_per_million": sheet.prefill_seconds_per_million,
        "known": sheet.name != UNKNOWN,
        "family": sheet.name.partition(" (")[0] in FAMILIES,
        "source": sheet.source,
        "date": sheet.date,
    }

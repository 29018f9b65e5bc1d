"""What many replays add up to: totals, a row per trajectory, details of the most expensive."""

import heapq
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from agora.adapters.spoken import ACTS_BY_TEXT
from agora.core.prices import FAMILIES, UNKNOWN, PriceSheet
from agora.core.schedule import MIN_TOKENS
from agora.logs import Tally, Usage
from agora.replay.run import OWN, Pricing, ReplayOutcome
from agora.replay.simulate import Policy, PolicyBill, Replayed

MOST_ROWS = 20_000
"""How many trajectories are listed one by one, most expensive first. The totals cover all."""
MOST_DETAILS = 200
MOST_DETAIL_BYTES = 8 << 20
"""Of how many trajectories the calls and elided steps are kept, and in how much JSON together."""
MOST_ELIDED = 1_000
"""Elided steps kept of one trajectory, by each sheet."""
_MOST_REASONS = 50
_MOST_MODELS = 100
_EXAMPLES = 5
_SHOWN_OF_A_NAME = 200
_SAME = 1e-9
"""Relative difference below which two bills are the same."""

Unit = Literal["dollars", "seconds"]
Json = dict[str, Any]


def unit_of(sheet: PriceSheet) -> Unit:
    """Return what a sheet's costs are in: seconds of prefill for hardware that is paid for."""
    return "seconds" if not sheet.input and sheet.prefill_seconds_per_million else "dollars"


@dataclass(slots=True)
class Totals:
    """What all calls under one policy add up to."""

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
    """Those of them whose prompt still had every name they need."""
    acting: int = 0
    """All actions, whether they need such a name or not."""
    offered: int = 0
    """Trajectories whose model has such a way of sending them; others are in it as they were."""
    estimated: int = 0
    """Calls estimated from their neighbours, not decided one by one."""

    @property
    def cost(self) -> float:
        """In dollars, or what the sheet's unit is."""
        return self.uncached_cost + self.read_cost + self.written_cost

    def add(self, bill: PolicyBill, sheet: PriceSheet) -> float:
        """Take in a trajectory, and return what it cost."""
        uncached = read = written = edits = 0
        dear_uncached = dear_read = dear_written = 0.0
        for call in bill.calls:
            uncached += call.uncached
            read += call.read
            written += call.written
            edits += call.edited
            factor = sheet.tier(call.uncached + call.read + call.written).input
            dear_uncached += factor * call.uncached
            dear_read += factor * call.read
            dear_written += factor * call.written
        self.calls += len(bill.calls)
        self.edits += edits
        self.needing += bill.needing
        self.met += bill.met
        self.acting += bill.acting
        self.offered += bill.offered
        self.estimated += bill.estimated
        self.uncached += uncached
        self.read += read
        self.written += written
        rate = sheet.input
        if unit_of(sheet) == "seconds":
            rate = sheet.prefill_seconds_per_million or 0.0
        costs = (
            dear_uncached * rate / 1e6,
            dear_read * sheet.read * rate / 1e6,
            dear_written * sheet.write * rate / 1e6,
        )
        self.uncached_cost += costs[0]
        self.read_cost += costs[1]
        self.written_cost += costs[2]
        return sum(costs)

    def value(self) -> Json:
        """Return it as JSON."""
        tokens = self.uncached + self.read + self.written
        return {
            "cost": self.cost,
            "tokens": tokens,
            **asdict(self),
            "append_only_share": 1 - self.edits / self.calls if self.calls else 1.0,
            "met_share": self.met / self.needing if self.needing else None,
            "found_share": 1 - (self.needing - self.met) / self.acting if self.acting else None,
        }


def billed_dollars(usage: Usage, sheet: PriceSheet, ttl: str | None = None) -> float:
    """Return what a call's input cost by the tokens that the provider reported.

    `ttl` is what the call asked for, where the provider does not say for how long it wrote.
    """
    paid = sheet.as_billed(usage.written, usage.written_1h, ttl)
    return paid.dollars(uncached=usage.uncached, read=usage.read, written=usage.written)


@dataclass(slots=True)
class Billed:
    """What a provider billed for calls with usage in the log, compared with our simulation."""

    trajectories: int = 0
    calls: int = 0
    prompt: int = 0
    read: int = 0
    cost: float = 0.0
    """Input only, by the price sheet, from the tokens that the provider reported."""
    simulated_read: int = 0
    simulated_cost: float = 0.0
    """The same calls with the cache simulated."""
    call_errors: float = 0.0
    """Of each call, how far the simulated cost is from the billed one, as a ratio to it; summed."""

    def add(self, replayed: Replayed, sheet: PriceSheet, ttl: str | None) -> None:
        """Take in a trajectory that has its usage, and the time to live that it asked for."""
        if not replayed.usage or replayed.shortened:
            return
        self.trajectories += 1
        usual = sheet.for_ttl(ttl)
        simulated = replayed.bills[Policy.AS_IT_WAS].calls
        for usage, call in zip(replayed.usage, simulated, strict=True):
            cost = billed_dollars(usage, sheet, ttl)
            ours = usual.dollars(uncached=call.uncached, read=call.read, written=call.written)
            self.calls += 1
            self.prompt += usage.prompt
            self.read += usage.read
            self.cost += cost
            self.simulated_read += call.read
            self.simulated_cost += ours
            self.call_errors += abs(ours - cost) / cost if cost else 0.0

    def value(self) -> Json:
        """Return it as JSON."""
        return {
            **asdict(self),
            "error": self.simulated_cost / self.cost - 1 if self.cost else None,
            "call_error": self.call_errors / self.calls if self.calls else None,
        }


@dataclass(slots=True)
class NotShown:
    """Trajectories whose log does not show a part of every call, and how large that part is."""

    trajectories: int = 0
    _thousands: Counter[int] = field(default_factory=Counter)

    def add(self, tokens: int) -> None:
        """Take in a trajectory."""
        self.trajectories += 1
        self._thousands[round(tokens, -3)] += 1

    def value(self, what: str) -> Json:
        """Return it as JSON, tokens to the nearest thousand."""
        sizes = sorted(self._thousands.elements())
        return {
            "what": what,
            "trajectories": self.trajectories,
            "tokens": sizes[(len(sizes) - 1) // 2],
            "least": sizes[0],
            "most": sizes[-1],
        }


@dataclass(slots=True)
class Compactions:
    """What agents' own compactions cost, and what came after them, by the first sheet."""

    count: int = 0
    least: int = 0
    most: int = 0
    """The prompts that were summed up, in tokens, where logs say."""
    summary_tokens: int = 0
    """What stands for them; by our estimate."""
    steps: int = 0
    repeated: int = 0
    reread: int = 0
    needing: int = 0
    met: int = 0
    calls: int = 0
    """Calls that wrote summaries, of those that are in the logs; their input is in every bill."""
    input_cost: float = 0.0
    output_tokens: int = 0
    """What those calls wrote; by our estimate, and in no bill."""
    output_cost: float = 0.0

    def add(self, replayed: Replayed, sheet: PriceSheet, cost: float) -> None:
        """Take in a trajectory, with what it cost as it was."""
        if replayed.summary_tokens:
            self.calls += 1
            self.input_cost += cost
            self.output_tokens += replayed.summary_tokens
            self.output_cost += sheet.dollars(output=replayed.summary_tokens)
        after = replayed.compacted
        if after is None:
            return
        self.count += 1
        if after.prompt_tokens:
            self.least = min(self.least or after.prompt_tokens, after.prompt_tokens)
            self.most = max(self.most, after.prompt_tokens)
        self.summary_tokens += after.summary_tokens
        self.steps += after.steps
        self.repeated += after.repeated
        self.reread += after.reread
        self.needing += after.needing
        self.met += after.met

    def value(self) -> Json:
        """Return it as JSON."""
        return {**asdict(self), "met_share": self.met / self.needing if self.needing else None}


@dataclass(slots=True)
class Comparison:
    """On how many trajectories AGORA costs less, the same and more, and the worst ratio."""

    cheaper: int = 0
    same: int = 0
    costlier: int = 0
    worst: float = 0.0
    """AGORA's cost as a ratio to what it was, on the trajectory where that is highest."""

    def add(self, was: float, now: float) -> None:
        """Take in a trajectory."""
        if abs(now - was) <= _SAME * max(was, now):
            self.same += 1
        elif now < was:
            self.cheaper += 1
        else:
            self.costlier += 1
        if was:
            self.worst = max(self.worst, now / was)


class Reasons:
    """Reasons with how often each came up and where, at most so many of them."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._where: dict[str, list[str]] = {}

    def add(self, reason: str, where: str) -> None:
        """Put one down."""
        if reason not in self._counts and len(self._counts) >= _MOST_REASONS:
            reason = "something else"
        self._counts[reason] += 1
        examples = self._where.setdefault(reason, [])
        if len(examples) < _EXAMPLES:
            examples.append(where)

    def value(self) -> list[Json]:
        """Return them as JSON, the most frequent first."""
        return [
            {"reason": reason, "count": count, "examples": self._where[reason]}
            for reason, count in self._counts.most_common()
        ]

    @property
    def count(self) -> int:
        """How often any of them came up."""
        return self._counts.total()


class MostExpensive:
    """The values with the highest costs, at most so many and so many bytes."""

    def __init__(self, most: int, most_bytes: float = float("inf")) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._heap: list[tuple[float, int, int, Any]] = []
        self._bytes = 0
        self._offered = 0

    def wants(self, cost: float) -> bool:
        """Whether a value of this cost would be among them as they are now, sizes aside."""
        return len(self._heap) < self._most or cost > self._heap[0][0]

    def offer(self, cost: float, value: Any, size: int = 0) -> list[Any]:
        """Take a value in, and return what is not among them any more, perhaps itself.

        Of two that cost the same the earlier stays.
        """
        self._offered += 1
        heapq.heappush(self._heap, (cost, -self._offered, size, value))
        self._bytes += size
        gone = []
        while len(self._heap) > self._most or self._bytes > self._most_bytes:
            _, _, less, let_go = heapq.heappop(self._heap)
            self._bytes -= less
            gone.append(let_go)
        return gone

    def values(self) -> list[Any]:
        """Return them, most expensive first."""
        return [item[3] for item in sorted(self._heap, key=lambda item: item[:2], reverse=True)]


@dataclass(slots=True)
class _Model:
    trajectories: int = 0
    sheet: str = ""


@dataclass(slots=True)
class Report:
    """Adds up outcomes as they come, in memory that does not grow with their number."""

    pricing: Pricing
    min_tokens: int = MIN_TOKENS
    """The threshold that was replayed with: below it, nothing is edited."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What a path is called before the number of a trajectory; nothing where there is but one."""
    trajectories: int = 0
    steps: int = 0
    calls: int = 0
    elided: int = 0
    rereads: int = 0
    """Actions that did again what an earlier one had done."""
    rereads_after_edit: int = 0
    """Those of them after AGORA's first edit."""
    steps_after_edit: int = 0
    below_threshold: int = 0
    """Trajectories left alone because no prompt of them reached the least tokens."""
    act_by_text: int = 0
    """Trajectories of ten or more turns in which no step was seen."""
    billed: Billed = field(default_factory=Billed)
    """By the first sheet."""
    failed: Reasons = field(default_factory=Reasons)
    """What could not be replayed."""
    illegal: Reasons = field(default_factory=Reasons)
    """What was replayed but left as it is, because a provider would refuse it in any case."""
    shortened: Reasons = field(default_factory=Reasons)
    """What was left as it is because it had been shortened already."""
    not_shown: dict[str, NotShown] = field(default_factory=dict)
    """By what a log does not show of every call."""
    compactions: Compactions = field(default_factory=Compactions)
    lost: int = 0
    """Calls at which the cache had been lost in time, as usage shows."""
    totals: dict[str, dict[Policy, Totals]] = field(default_factory=dict)
    compared: dict[str, Comparison] = field(default_factory=dict)
    _models: dict[str, _Model] = field(default_factory=dict)
    _used: dict[str, PriceSheet] = field(default_factory=dict)
    _rows: MostExpensive = field(default_factory=lambda: MostExpensive(MOST_ROWS))
    _details: MostExpensive = field(
        default_factory=lambda: MostExpensive(MOST_DETAILS, MOST_DETAIL_BYTES)
    )

    def __post_init__(self) -> None:
        for key in self.pricing.keys:
            self.totals[key] = {policy: Totals() for policy in Policy}
            self.compared[key] = Comparison()

    def add(self, outcome: ReplayOutcome) -> None:
        """Take in one outcome."""
        path = self.names.get(outcome.path, "")
        place = f"{path}#{outcome.number}" if outcome.path else outcome.id
        if not outcome.by_sheet:
            self.failed.add(outcome.error, place)
            return
        sheets = self.pricing.of(outcome.model, outcome.ttl)
        first = next(iter(outcome.by_sheet.values()))
        calls = len(first.bills[Policy.AS_IT_WAS].calls)
        self.trajectories += 1
        self.steps += first.steps
        self.calls += calls
        self.elided += len(first.elided)
        self.rereads += first.rereads
        self.rereads_after_edit += first.rereads_after_edit
        self.steps_after_edit += first.steps_after_edit
        self.below_threshold += first.below_threshold
        self.act_by_text += first.acts_by_text
        self.billed.add(first, next(iter(self.pricing.of(outcome.model).values())), outcome.ttl)
        if first.illegal:
            self.illegal.add(first.illegal, place)
        if first.shortened:
            self.shortened.add(first.shortened, place)
        if first.lacks:
            self.not_shown.setdefault(first.lacks, NotShown()).add(first.unseen_tokens)
        self.lost += first.lost
        self._count_model(outcome.model, first.sheet)
        costs: dict[str, list[float]] = {}
        for key, replayed in outcome.by_sheet.items():
            sheet = sheets[key]
            self._used[sheet.name] = sheet
            totals = self.totals[key]
            costs[key] = [totals[policy].add(replayed.bills[policy], sheet) for policy in Policy]
            self.compared[key].add(costs[key][0], costs[key][1])
        own = next(iter(costs))
        self.compactions.add(first, sheets[own], costs[own][0])
        row = _row(outcome, costs)
        row["path"] = path
        row["number"] = outcome.number if outcome.path else self.trajectories - 1
        cost = next(iter(costs.values()))[0]
        self._rows.offer(cost, row)
        if self._details.wants(cost):
            row["detail"] = detail = _detail(outcome.by_sheet)
            size = len(json.dumps(detail))
            if size > MOST_DETAIL_BYTES // 8:
                # One giant would push out all others.
                del row["detail"]
                return
            for let_go in self._details.offer(cost, row, size):
                del let_go["detail"]

    def value(self, tally: Tally, paths: Sequence[str] = ()) -> Json:
        """Return the report as JSON.

        Costs and edits of a trajectory are listed by sheet key, in the order of `policies`.
        """
        rows = self._rows.values()
        keys = self.pricing.keys
        return {
            "schema": 1,
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
            "elided": self.elided,
            "rereads": {
                "count": self.rereads,
                "after_edit": self.rereads_after_edit,
                "steps_after_edit": self.steps_after_edit,
            },
            "below_threshold": self.below_threshold,
            "act_by_text": self.act_by_text,
            "billed": self.billed.value(),
            "idle": self._idle(),
            "failed": {"count": self.failed.count, "reasons": self.failed.value()},
            "left_alone": {"count": self.illegal.count, "reasons": self.illegal.value()},
            "shortened": {"count": self.shortened.count, "reasons": self.shortened.value()},
            "not_shown": [found.value(what) for what, found in self.not_shown.items()],
            "compactions": self.compactions.value(),
            "lost": self.lost,
            "sheet_keys": list(keys),
            "units": {key: self._unit(key) for key in keys},
            "sheets": {name: _sheet(sheet) for name, sheet in sorted(self._used.items())},
            "models": {name: asdict(model) for name, model in self._models.items()},
            "totals": {
                key: {str(policy): totals.value() for policy, totals in by_policy.items()}
                for key, by_policy in self.totals.items()
            },
            "compared": {key: asdict(compared) for key, compared in self.compared.items()},
            "cut": {
                "rows": self.trajectories - len(rows),
                "details": sum("detail" not in row for row in rows),
            },
            "rows": rows,
        }

    def _idle(self) -> str:
        """Return why nothing would have been edited, if nothing was: each reason as what it is."""
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

    def _count_model(self, model: str, sheet: str) -> None:
        name = model[:_SHOWN_OF_A_NAME] or "(not said)"
        if name not in self._models and len(self._models) >= _MOST_MODELS:
            name = "(others)"
        counted = self._models.setdefault(name, _Model(sheet=sheet))
        counted.trajectories += 1

    def _unit(self, key: str) -> Unit:
        """Return a key's unit; where models differ it is dollars, and hardware costs none."""
        if key != OWN:
            return unit_of(self.pricing.of(None)[key])
        own = {unit_of(self._used[model.sheet]) for model in self._models.values()}
        return "seconds" if own == {"seconds"} else "dollars"


def _row(outcome: ReplayOutcome, costs: Mapping[str, list[float]]) -> Json:
    """Return what is listed of a trajectory; its costs are by sheet, in the order of policies."""
    first = next(iter(outcome.by_sheet.values()))
    return {
        "id": first.id[:_SHOWN_OF_A_NAME],
        "model": first.model[:_SHOWN_OF_A_NAME],
        "sheet": first.sheet,
        "format": first.format,
        "task": first.task[:_SHOWN_OF_A_NAME],
        "steps": first.steps,
        "calls": len(first.bills[Policy.AS_IT_WAS].calls),
        "tokens": first.tokens,
        "elided": {key: len(one.elided) for key, one in outcome.by_sheet.items()},
        "edits": {key: _edits(one) for key, one in outcome.by_sheet.items()},
        "cost": costs,
        "illegal": first.illegal,
        "shortened": first.shortened,
        "lacks": first.lacks,
        "unseen_tokens": first.unseen_tokens,
        "tokens_scale": round(first.tokens_scale, 3),
    }


def _edits(replayed: Replayed) -> list[int]:
    return [replayed.bills[policy].edits for policy in Policy]


def _detail(by_sheet: Mapping[str, Replayed]) -> Json:
    """Return the calls and the elided steps by each sheet; actions are listed once for all."""
    steps: dict[int, list[Any]] = {}
    sheets: Json = {}
    for key, replayed in by_sheet.items():
        elided = sorted(
            sorted(replayed.elided, key=lambda step: -step.tokens)[:MOST_ELIDED],
            key=lambda step: step.number,
        )
        for step in elided:
            steps[step.number] = [step.tokens, step.action]
        sheets[key] = {
            "elided": [
                [step.number, None if step.score is None else round(step.score, 3), step.skeleton]
                for step in elided
            ],
            "calls": [_columns(replayed.bills[policy]) for policy in Policy],
        }
    return {"steps": {str(number): steps[number] for number in sorted(steps)}, "by_sheet": sheets}


def _columns(bill: PolicyBill) -> list[list[int]]:
    """Return uncached, read and written tokens per call, and which calls were edited."""
    return [
        [call.uncached for call in bill.calls],
        [call.read for call in bill.calls],
        [call.written for call in bill.calls],
        [place for place, call in enumerate(bill.calls) if call.edited],
    ]


def _sheet(sheet: PriceSheet) -> Json:
    return {
        "name": sheet.name,
        "unit": unit_of(sheet),
        "input": sheet.input,
        "read": sheet.read,
        "write": sheet.write,
        "minimum_prefix": sheet.minimum_prefix,
        "ttl_seconds": sheet.ttl_seconds,
        "hit": sheet.hit,
        "tiers": [asdict(tier) for tier in sheet.tiers],
        "prefill_seconds_per_million": sheet.prefill_seconds_per_million,
        "known": sheet.name != UNKNOWN,
        "family": sheet.name.partition(" (")[0] in FAMILIES,
        "source": sheet.source,
        "date": sheet.date,
    }

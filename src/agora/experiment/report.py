"""The result of an experiment, from the log lines `agora.calls` of one or several processes.

A line has the experiment's name, the arm, the conversation's ID and the cost of the call. A
conversation counts when it is over and comparable: it was in one arm from beginning to end, and
its prompt became long enough to be shortened. A line with only a conversation and an outcome,
from the user's own log, gives the end of that conversation.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from textwrap import wrap
from typing import Any

from agora.experiment.assignment import Arm
from agora.experiment.sequences import Comparison, Interval

ALPHA = 0.05
ARMS = (Arm.AGORA, Arm.EVERYTHING)
IDLE_SECONDS = 1_800.0
"""A conversation without a call for this time is over. Later calls are not counted."""
FIGURES = {
    "dollars": "dollars",
    "typical_dollars": "dollars, typical",
    "calls": "calls",
    "extra_calls": "extra calls, counted",
    "errors": "share of failed calls",
    "outcome": "outcome",
}
"""The figures that are compared, with their titles. The typical figure is the geometric mean: a few
huge conversations do not dominate it, so an effect shows after far fewer conversations."""
_RATIOS = ("dollars", "calls")
"""Figures whose effect is a ratio. The effect on the others is a difference."""
METHOD = (
    "Design-based confidence sequences with a normal mixture: each interval holds at 95% at "
    "every look."
)
WIDTH = 80
_TOO_SHORT = "too_short"
"""The reason code of a prompt that neither arm shortens."""
_SCALES = {"errors": 0.01}
"""Variances that are fixed beforehand, so that a figure that is always 0 counts too. Any fixed
value is valid. This one is the variance if one call in a hundred fails."""


@dataclass(slots=True)
class Conversation:
    """Sums over the calls of one conversation."""

    arms: set[str] = field(default_factory=set)
    calls: int = 0
    dollars: float = 0.0
    extra_calls: float = 0.0
    """Calls that were asked for again after they were shortened, beyond those expected anyway."""
    errors: Counter[str] = field(default_factory=Counter)
    """Failed calls, by the log's error code or by status."""
    long: bool = False
    """True if its prompt was ever long enough to be shortened. Until then both arms are alike."""
    ended: float = 0.0
    """End of its last call, in seconds since 1970."""

    def add(self, when: float, row: Mapping[str, Any]) -> None:
        """Add the call of a log line."""
        status, error = row.get("status", 0), row.get("error", "")
        self.arms.add(row["arm"])
        self.calls += 1
        self.dollars += row.get("dollars", 0.0)
        self.extra_calls += row.get("extra_calls", 0.0)
        if error or not 200 <= status < 400:
            self.errors[error or str(status)] += 1
        self.long = self.long or row.get("reason") != _TOO_SHORT
        self.ended = when

    def figures(self, outcome: float | None) -> dict[str, float]:
        """Return the conversation's figures, without those that are not known."""
        errors = self.errors.total() / self.calls
        values = {
            "dollars": self.dollars,
            "calls": self.calls,
            "extra_calls": self.extra_calls,
            "errors": errors,
        }
        if self.dollars > 0:
            values["typical_dollars"] = math.log(self.dollars)
        return values if outcome is None else {**values, "outcome": outcome}


def read_lines(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the log's lines about conversations."""
    for line in lines:
        # A log collector may have added a prefix.
        start = line.find("{")
        if start < 0 or '"conversation"' not in line:
            continue
        try:
            row = json.loads(line[start:])
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("conversation"), str):
            yield row


def reports(
    rows: Iterable[Mapping[str, Any]], idle_seconds: float = IDLE_SECONDS
) -> list[dict[str, Any]]:
    """Return a report for each experiment in the rows, sorted by name."""
    calls: list[tuple[float, Mapping[str, Any]]] = []
    outcomes: dict[str, float] = {}
    for row in rows:
        outcome = row.get("outcome")
        if isinstance(outcome, int | float) and math.isfinite(outcome):
            outcomes[row["conversation"]] = float(outcome)
        if "arm" in row and "experiment" in row and "time" in row:
            calls.append((datetime.fromisoformat(row["time"]).timestamp(), row))
    calls.sort(key=lambda call: call[0])
    experiments: dict[str, dict[str, Conversation]] = {}
    for when, row in calls:
        conversations = experiments.setdefault(row["experiment"], {})
        conversation = conversations.setdefault(row["conversation"], Conversation(ended=when))
        if when <= conversation.ended + idle_seconds:
            conversation.add(when, row)
    over = calls[-1][0] - idle_seconds if calls else 0.0
    return [_report(name, group, outcomes, over) for name, group in sorted(experiments.items())]


def _report(
    name: str,
    conversations: Mapping[str, Conversation],
    outcomes: Mapping[str, float],
    over: float,
) -> dict[str, Any]:
    pairs = {figure: Comparison(scale=_SCALES.get(figure, 0.0)) for figure in FIGURES}
    values: dict[str, dict[str, list[float]]] = {arm: {} for arm in ARMS}
    errors: dict[str, Counter[str]] = {arm: Counter() for arm in ARMS}
    counts = dict.fromkeys(ARMS, 0)
    comparable = [
        (key, conversation)
        for key, conversation in conversations.items()
        if len(conversation.arms) == 1 and conversation.long
    ]
    for key, conversation in sorted(comparable, key=lambda pair: pair[1].ended):
        [arm] = conversation.arms
        if arm not in ARMS or conversation.ended >= over:
            continue
        counts[Arm(arm)] += 1
        errors[arm].update(conversation.errors)
        for figure, value in conversation.figures(outcomes.get(key)).items():
            values[arm].setdefault(figure, []).append(value)
            pairs[figure].observe(value, treated=arm == Arm.AGORA)
    return {
        "experiment": name,
        "conversations": counts,
        "open": sum(
            conversation.ended >= over and conversation.arms <= set(ARMS)
            for conversation in conversations.values()
        ),
        "figures": [
            _figure(figure, pair, {arm: values[arm].get(figure, []) for arm in ARMS})
            for figure, pair in pairs.items()
            if any(figure in by_figure for by_figure in values.values())
        ],
        "errors": {arm: dict(errors[arm]) for arm in ARMS},
        "method": METHOD,
    }


def _figure(name: str, pair: Comparison, values: Mapping[str, list[float]]) -> dict[str, Any]:
    """Return a figure's means in both arms, and the effect as a ratio or a difference."""
    means = {arm: sum(column) / len(column) if column else None for arm, column in values.items()}
    effect = pair.ratio(ALPHA) if name in _RATIOS else pair.difference(ALPHA)
    if name == "typical_dollars":
        # Means and differences of logarithms are geometric means and ratios.
        means = {arm: None if mean is None else math.exp(mean) for arm, mean in means.items()}
        if effect is not None:
            ends = (effect.estimate, effect.low, effect.high)
            estimate, low, high = (math.exp(end) if end < 700 else math.inf for end in ends)
            effect = Interval(estimate=estimate, low=low, high=high)
    is_ratio = name in _RATIOS or name == "typical_dollars"
    return {"figure": name, **means, "ratio" if is_ratio else "difference": _ends(effect)}


def _ends(interval: Interval | None) -> dict[str, float | None] | None:
    if interval is None:
        return None
    ends = {"estimate": interval.estimate, "low": interval.low, "high": interval.high}
    # JSON has no infinity.
    return {name: end if math.isfinite(end) else None for name, end in ends.items()}


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield a report as lines of at most `WIDTH` columns."""
    counts = report["conversations"]
    yield (
        f"{report['experiment']}: {counts[Arm.AGORA]:,} conversations with AGORA, "
        f"{counts[Arm.EVERYTHING]:,} with everything, {report['open']:,} still open"
    )
    yield f"  {'a conversation':<22}{'AGORA':>10}{'everything':>12}  effect, 95% at any time"
    for row in report["figures"]:
        ours, theirs = _number(row[Arm.AGORA]), _number(row[Arm.EVERYTHING])
        yield f"  {FIGURES[row['figure']]:<22}{ours:>10}{theirs:>12}  {_effect(row)}"
    for arm in ARMS:
        if kinds := report["errors"][arm]:
            counted = ", ".join(f"{kind} {count:,}" for kind, count in sorted(kinds.items()))
            yield from wrap(f"  errors, {arm}: {counted}", WIDTH, subsequent_indent="    ")
    yield from wrap(report["method"], WIDTH)


def _effect(row: Mapping[str, Any]) -> str:
    ends = row.get("ratio") or row.get("difference")
    if ends is None:
        return "not known yet"
    percent = "ratio" in row

    def shown(value: float | None) -> str:
        if value is None:
            return "?"
        return f"{(value - 1) * 100:+.3g}%" if percent else f"{value:+.3g}"

    return f"{shown(ends['estimate'])} ({shown(ends['low'])} to {shown(ends['high'])})"


def _number(value: float | None) -> str:
    """Return a figure in few digits.

    >>> _number(1234567.0), _number(0.01234), _number(None)
    ('1,234,567', '0.0123', '-')
    """
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"

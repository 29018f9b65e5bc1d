"""What an experiment found, as values to write down and as lines to read."""

import math
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

from agora.experiment.assignment import Arm
from agora.experiment.conversations import FIGURES, NAMES, POSITIVE, TYPICAL
from agora.experiment.rules import ALPHA, Rule, alpha_each, effect
from agora.experiment.sequences import Comparison, Interval
from agora.experiment.store import Account
from agora.experiment.tally import ARMS, Tally, together

METHOD = (
    "design-based confidence sequences with a normal mixture: each interval holds at 95 % however "
    "often one looks; the bounds together are wrong at most 5 % of the time"
)
WIDTH = 80
_REGRETS = 8
"""Lines of what was done again."""


def report(
    accounts: Sequence[Account], rules: Sequence[Rule], stopped: str, tally: Tally | None = None
) -> dict[str, Any]:
    """Return everything that is known of an experiment, from one gateway or from several.

    `tally` is what they come to together, if something was added to it.
    """
    tally = tally or together(account.tally for account in accounts)
    alpha = alpha_each(len(rules))
    return {
        "name": accounts[0].name if accounts else "",
        "stopped": stopped,
        "conversations": {arm: tally.arms[arm].conversations for arm in ARMS},
        "open": sum(len(account.open) for account in accounts),
        "bounds": [
            {"bound": rule.text, "verdict": rule.verdict(tally.compared.get(rule.figure), alpha)}
            for rule in rules
        ],
        "figures": _figures(tally),
        "by_model": _sliced(tally.by_model),
        "by_agent": _sliced(tally.by_agent),
        "regret": _regret(tally),
        "errors": {arm: tally.arms[arm].errors for arm in ARMS},
        "method": METHOD,
    }


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield a report as lines of at most `WIDTH` columns."""
    counts = found["conversations"]
    yield (
        f"{found['name']}: {counts[Arm.AGORA]:,} conversations with AGORA, "
        f"{counts[Arm.EVERYTHING]:,} with everything, {found['open']:,} still open"
    )
    if found["stopped"]:
        yield from wrap(f"STOPPED, nothing is edited: {found['stopped']}", WIDTH)
    yield ""
    for bound in found["bounds"]:
        yield f"  {bound['bound']:<28} {_VERDICTS[bound['verdict']]}"
    yield ""
    yield f"  {'':<22}{'AGORA':>10}{'everything':>11}  effect, 95 % at any time"
    for row in found["figures"]:
        ours, theirs = _number(row[Arm.AGORA]), _number(row[Arm.EVERYTHING])
        yield f"  {row['figure']:<22}{ours:>10}{theirs:>11}  {_effect(row)}"
    for arm in ARMS:
        if kinds := found["errors"][arm]:
            told = ", ".join(f"{kind} {count:,}" for kind, count in sorted(kinds.items()))
            yield from wrap(f"  errors, {arm}: {told}", WIDTH, subsequent_indent="    ")
    for slices in (found["by_model"], found["by_agent"]):
        if len(slices) > 1:
            yield ""
        for each, compared in slices.items() if len(slices) > 1 else ():
            for name in ("dollars", TYPICAL + "calls"):
                if name in compared:
                    yield f"  {each[:30]:<32}{name:<16}{_effect(compared[name])}"
    yield from _regret_lines(found["regret"])
    yield ""
    yield from wrap(found["method"][0].upper() + found["method"][1:] + ".", WIDTH)


_VERDICTS = {
    "open": "open: more conversations are needed",
    "cleared": "cleared: the effect is within it",
    "harm": "HARM: the effect is beyond it",
}


def _sliced(slices: Mapping[str, Mapping[str, Comparison]]) -> dict[str, Any]:
    return {
        each: {name: _effects(name, pair) for name, pair in sorted(compared.items())}
        for each, compared in sorted(slices.items())
    }


def _regret(tally: Tally) -> list[dict[str, Any]]:
    """Return what was elided and done again, by form and tool, most of it first."""
    ours, theirs = tally.arms[Arm.AGORA], tally.arms[Arm.EVERYTHING]
    rows: list[dict[str, Any]] = []
    for kind in ours.elided.keys() | theirs.elided.keys():
        form, _, tool = kind.partition(" ")
        row: dict[str, Any] = {"form": form, "tool": tool}
        for arm, totals in ((Arm.AGORA, ours), (Arm.EVERYTHING, theirs)):
            row[arm] = {
                "elided": totals.elided.get(kind, 0),
                "asked_again": totals.asked.get(kind, 0),
            }
        rows.append(row)
    return sorted(rows, key=lambda row: (-row[Arm.AGORA]["asked_again"], row["form"], row["tool"]))


def _regret_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield "  elided, and done again later      AGORA          everything (not elided there)"
    for row in rows[:_REGRETS]:
        told = f"{row['tool'][:20]}, {row['form']}"
        ours, theirs = (
            f"{row[arm]['asked_again']:,} of {row[arm]['elided']:,}"
            for arm in (Arm.AGORA, Arm.EVERYTHING)
        )
        yield f"  {told:<32}{ours:>15}{theirs:>18}"


def _figures(tally: Tally) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name in NAMES:
        if name not in tally.compared:
            continue
        means: dict[str, float | None] = {arm: tally.arms[arm].mean(name) for arm in ARMS}
        if name.startswith(TYPICAL):
            means = {arm: None if mean is None else math.exp(mean) for arm, mean in means.items()}
        row: dict[str, Any] = {"figure": name, "meaning": _meaning(name), **means}
        rows.append(row | _effects(name, tally.compared[name]))
    return rows


def _meaning(name: str) -> str:
    if name.startswith(TYPICAL):
        return f"{FIGURES[name.removeprefix(TYPICAL)]}: the geometric mean"
    return FIGURES[name]


def _effects(name: str, pair: Comparison) -> dict[str, Any]:
    """Return the effect on a figure as a ratio and as a difference, where each says something."""
    may_be_ratio = name in POSITIVE or name.startswith(TYPICAL)
    found = {
        "ratio": effect(pair, name, True, ALPHA) if may_be_ratio else None,
        "difference": None if name.startswith(TYPICAL) else effect(pair, name, False, ALPHA),
    }
    return {kind: _told(interval) for kind, interval in found.items()}


def _told(interval: Interval | None) -> dict[str, float | None] | None:
    if interval is None:
        return None
    ends = {"estimate": interval.estimate, "low": interval.low, "high": interval.high}
    # JSON has no infinity: an end that is not known is none.
    return {name: end if math.isfinite(end) else None for name, end in ends.items()}


def _effect(row: Mapping[str, Any]) -> str:
    if row["ratio"] is not None:
        told = {k: None if v is None else (v - 1) * 100 for k, v in row["ratio"].items()}
        return _interval(told, "%")
    if row["difference"] is not None:
        return _interval(row["difference"], "")
    return "not known yet"


def _interval(told: Mapping[str, float | None], unit: str) -> str:
    def say(value: float | None) -> str:
        return "?" if value is None else f"{value:+.3g}{unit}"

    return f"{say(told['estimate'])} ({say(told['low'])} to {say(told['high'])})"


def _number(value: float | None) -> str:
    """Return a figure in few digits.

    >>> _number(1234567.0), _number(0.01234), _number(None)
    ('1,234,567', '0.0123', '-')
    """
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"

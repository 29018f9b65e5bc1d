"""Which share of the gap between the floor and everything each method recovers.

The gap of an anchor is what the floor loses against sending everything, in nats of
the target. A share is a ratio of sums: what a method wins back over all anchors,
divided by all gaps. Tasks are resampled whole, and methods are compared on the
same anchors.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from agora_lab.bootstrap import interval
from agora_lab.evaluate.statistics import Estimate, Resampled, holm, ratio_of_means, wilcoxon
from agora_lab.judge.judged import (
    MAIN_KEEP,
    Comparison,
    Judged,
    Target,
    has,
    nats,
)
from agora_lab.judge.records import Measured
from agora_lab.judge.rows import EVERYTHING, FLOOR

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

ORACLE = "oracle"
"""The best method at each anchor: what a perfect choice among them would recover."""
SPLITS = 200
_DIGITS = 6

Setting = tuple[str, float | None]
"""A method and the share it may keep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one method recovers on one target in one group of anchors."""

    group: str
    method: str
    keep: float | None
    target: Target
    anchors: int
    share: Estimate
    ahead: Estimate | None
    """The share minus that of the method it is compared with, on the same anchors."""
    lost: float
    """Nats lost against everything, mean of an anchor."""
    tokens_sent: float
    """Mean of an anchor."""
    sent_outside: float
    """Share of the tokens outside the floor that was really sent, ratio of sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A comparison named before the run, and how it came out."""

    source: str
    ours: str
    theirs: str
    keep: float
    anchors: int
    our_share: Estimate
    their_share: Estimate
    ahead: Estimate
    p: float
    p_holm: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutHeaviest:
    """What a method recovers without the anchor that has the largest gap, at the main budget."""

    group: str
    method: str
    anchors: int
    """Those that are left."""
    weight: float
    """The share of all gaps that is the gap of the anchor left out."""
    share: Estimate
    median: float
    """Of the shares that the method recovers at single anchors, all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """How many of the drawn anchors can tell methods apart."""

    source: str
    kind: str
    drawn: int
    scored: int
    passed: int
    compared: int
    """Passed, and scored under every method of the headline."""
    tasks: int
    """Tasks of the compared anchors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """Whether two disjoint halves of the tasks say the same."""

    group: str
    shares: tuple[tuple[str, float, float], ...]
    """Each method's share in the one half and in the other, at the main budget."""
    tasks: tuple[int, int]
    rank_correlation: float | None
    """Spearman's, of the methods' shares in the two halves."""
    rank_correlation_mean: float | None
    """The same, mean over many random halvings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Whether two ways to measure rank the methods alike."""

    group: str
    methods: int
    rank_correlation: float | None
    pairs: int = 0
    """Pairs of methods at one anchor on which the two ways could disagree."""
    pairs_alike: float | None = None


class Table:
    """The rows of a run by anchor, with the anchors that a comparison may use."""

    def __init__(self, run: Judged) -> None:
        self.run = run
        self.by_anchor: dict[str, dict[Setting, Measured]] = {}
        for row in run.rows:
            self.by_anchor.setdefault(row.anchor, {})[row.method, row.keep] = row
        self.headline: frozenset[Setting] = frozenset(
            (name, one.keep) for one in run.headline for name in (one.ours, one.theirs)
        )
        self.compared = {
            source: [key for key in run.anchors if self._compared(key, source)]
            for source in run.sources
        }
        self._lost: dict[tuple[str, Setting, Target], float] = {}
        self._recovered: dict[tuple[Target, tuple[tuple[str, Setting], ...]], Resampled | None] = {}

    def _compared(self, key: str, source: str) -> bool:
        anchor = self.run.anchors[key]
        base: frozenset[Setting] = frozenset({(EVERYTHING, None), (FLOOR, None)})
        scored = self.by_anchor.get(key, {}).keys()
        return anchor.source == source and bool(anchor.passed) and base | self.headline <= scored

    def groups(self) -> dict[str, list[str]]:
        """Return the compared anchors of each source, then of each kind of agent."""
        kinds: dict[str, list[str]] = {}
        for source in self.run.sources:
            kinds.setdefault(self.kind_of(source), []).append(source)
        found = {source: self.compared[source] for source in self.run.sources}
        for kind, sources in kinds.items():
            found[f"kind:{kind}"] = [key for name in sources for key in self.compared[name]]
        return {name: keys for name, keys in found.items() if keys}

    def kind_of(self, source: str) -> str:
        """Return the kind of agent a source recorded."""
        return next(one.kind for one in self.run.anchors.values() if one.source == source)

    def settings(self) -> list[Setting]:
        """Return the shortened prompts that were scored, as the plan orders the methods."""
        planned = [
            one if isinstance(one, str) else str(one["method"])
            for one in self.run.plan.get("methods", ())
        ]
        places = {name: place for place, name in enumerate(dict.fromkeys(planned))}
        found = {(row.method, row.keep) for row in self.run.rows} - {(EVERYTHING, None)}
        return sorted(found, key=lambda s: (places.get(s[0], len(places)), s[0], s[1] or 0.0))

    def lost(self, key: str, setting: Setting, target: Target) -> float:
        """Return the nats that a prompt loses against everything at an anchor."""
        known = self._lost.get((key, setting, target))
        if known is None:
            rows = self.by_anchor[key]
            known = nats(rows[setting], target) - nats(rows[EVERYTHING, None], target)
            self._lost[key, setting, target] = known
        return known

    def recovered(self, at: Mapping[str, Setting], target: Target) -> Resampled | None:
        """Return the share over anchors, each under its own prompt; None where there is no gap."""
        # Resampling is what a report waits for, and many comparisons ask for the same share.
        known = target, tuple(at.items())
        if known not in self._recovered:
            self._recovered[known] = self._resampled(at, target)
        return self._recovered[known]

    def _resampled(self, at: Mapping[str, Setting], target: Target) -> Resampled | None:
        won: dict[str, float] = {}
        gaps: dict[str, float] = {}
        for key, setting in at.items():
            task, gap = self.task(key), self.lost(key, (FLOOR, None), target)
            gaps[task] = gaps.get(task, 0.0) + gap
            won[task] = won.get(task, 0.0) + gap - self.lost(key, setting, target)
        if sum(gaps.values()) <= 0:
            return None
        tasks = sorted(gaps)
        return ratio_of_means([won[task] for task in tasks], [gaps[task] for task in tasks])

    def best(self, key: str, target: Target, keep: float = MAIN_KEEP) -> Setting:
        """Return the method that loses least at an anchor, among those with this budget."""
        own = [setting for setting in self.by_anchor[key] if setting[1] == keep]
        return min(own, key=lambda setting: (self.lost(key, setting, target), setting[0]))

    def task(self, key: str) -> str:
        """Return what groups anchors that are not independent."""
        anchor = self.run.anchors[key]
        return f"{anchor.source}|{anchor.task}"


def shares(table: Table, target: Target) -> list[Share]:
    """Return what each method recovers, by source and by kind of agent, the oracle last."""
    found: list[Share] = []
    for group, keys in table.groups().items():
        usable = [key for key in keys if has(table.by_anchor[key][EVERYTHING, None], target)]
        for setting in [*table.settings(), (ORACLE, MAIN_KEEP)]:
            if setting != (FLOOR, None):
                share = _share(table, group, usable, setting, target)
                found += [share] if share else []
    return found


def _share(
    table: Table, group: str, keys: Sequence[str], setting: Setting, target: Target
) -> Share | None:
    if setting[0] == ORACLE:
        at = {key: table.best(key, target) for key in keys}
    else:
        at = {key: setting for key in keys if setting in table.by_anchor[key]}
    own = list(at)
    resampled = table.recovered(at, target) if own else None
    if resampled is None:
        return None
    rows = [table.by_anchor[key][at[key]] for key in own]
    outside = sum(row.tokens_whole - row.tokens_floor for row in rows)
    sent = sum(row.tokens_sent - row.tokens_floor for row in rows)
    return Share(
        group=group,
        method=setting[0],
        keep=setting[1],
        target=target,
        anchors=len(own),
        share=resampled.estimate,
        ahead=_ahead_of_headline(table, own, setting, target),
        lost=_mean(table.lost(key, at[key], target) for key in own),
        tokens_sent=_mean(row.tokens_sent for row in rows),
        sent_outside=round(sent / outside, _DIGITS) if outside else 0.0,
    )


def _ahead_of_headline(
    table: Table, keys: Sequence[str], setting: Setting, target: Target
) -> Estimate | None:
    """Return how far a method is ahead of the headline's other side at the same budget."""
    theirs = next((one.theirs for one in table.run.headline), "")
    other = (theirs, setting[1])
    if setting[0] in (theirs, ORACLE):
        return None
    both = [key for key in keys if other in table.by_anchor[key]]
    return _ahead(table, both, setting, other, target) if both else None


def _ahead(
    table: Table, keys: Sequence[str], ours: Setting, theirs: Setting, target: Target
) -> Estimate | None:
    one, other = (
        table.recovered(dict.fromkeys(keys, setting), target) for setting in (ours, theirs)
    )
    if one is None or other is None:
        return None
    # Both were resampled with the same draws of the same tasks.
    low, high = interval(one.values - other.values)
    value = one.estimate.value - other.estimate.value
    return Estimate(
        round(value, _DIGITS), round(low, _DIGITS), round(high, _DIGITS), one.estimate.n
    )


def decisions(table: Table, target: Target = "action") -> list[Decision]:
    """Return the comparisons named before the run, corrected by Holm for being so many."""
    found = [one for named in table.run.headline if (one := _decision(table, named, target))]
    corrected = holm([one.p for one in found])
    return [replace(one, p_holm=p) for one, p in zip(found, corrected, strict=True)]


def _decision(table: Table, named: Comparison, target: Target) -> Decision | None:
    keys = table.compared.get(named.source, [])
    ours, theirs = (named.ours, named.keep), (named.theirs, named.keep)
    our, their = (table.recovered(dict.fromkeys(keys, s), target) for s in (ours, theirs))
    ahead = _ahead(table, keys, ours, theirs, target)
    if our is None or their is None or ahead is None:
        return None
    by_task: dict[str, list[float]] = {}
    for key in keys:
        less = table.lost(key, theirs, target) - table.lost(key, ours, target)
        by_task.setdefault(table.task(key), []).append(less)
    means = [sum(own) / len(own) for _, own in sorted(by_task.items())]
    p = wilcoxon(means, [0.0] * len(means))
    return Decision(
        source=named.source,
        ours=named.ours,
        theirs=named.theirs,
        keep=named.keep,
        anchors=len(keys),
        our_share=our.estimate,
        their_share=their.estimate,
        ahead=ahead,
        p=p,
        p_holm=p,
    )


def without_heaviest(table: Table, target: Target = "action") -> list[WithoutHeaviest]:
    """Return how much of each method's share hangs on one anchor.

    A ratio of sums weighs anchors by their gaps, and a long command that is written once more can
    have a gap as large as those of all others together.
    """
    found = []
    for group, compared in table.groups().items():
        methods, keys = _block(table, compared)
        gaps = {key: table.lost(key, (FLOOR, None), target) for key in keys}
        if len(keys) < 2:
            continue
        heaviest = max(gaps, key=lambda key: (gaps[key], key))
        left = [key for key in keys if key != heaviest]
        for setting in methods:
            own = table.recovered(dict.fromkeys(left, setting), target)
            if own is None:
                continue
            found.append(
                WithoutHeaviest(
                    group=group,
                    method=setting[0],
                    anchors=len(left),
                    weight=round(gaps[heaviest] / sum(gaps.values()), _DIGITS),
                    share=own.estimate,
                    median=round(
                        median(1 - table.lost(key, setting, target) / gaps[key] for key in keys),
                        _DIGITS,
                    ),
                )
            )
    return found


def chosen_by_oracle(table: Table, target: Target = "action") -> dict[str, dict[str, int]]:
    """Return how often each method is the best at an anchor, by group."""
    found: dict[str, dict[str, int]] = {}
    for group, keys in table.groups().items():
        own = found.setdefault(group, {})
        for key in keys:
            name = table.best(key, target)[0]
            own[name] = own.get(name, 0) + 1
    return found


def passed(table: Table) -> list[Passed]:
    """Return how many anchors of each source were drawn, scored, passed and compared."""
    found = []
    for source in table.run.sources:
        own = [one for one in table.run.anchors.values() if one.source == source]
        compared = table.compared[source]
        found.append(
            Passed(
                source=source,
                kind=own[0].kind,
                drawn=len(own),
                scored=sum(one.passed is not None for one in own),
                passed=sum(bool(one.passed) for one in own),
                compared=len(compared),
                tasks=len({table.task(key) for key in compared}),
            )
        )
    return found


def steady(table: Table, target: Target = "action") -> list[Steady]:
    """Return, by group, what two disjoint halves of the tasks say about each method."""
    found = []
    for group, compared in table.groups().items():
        methods, keys = _block(table, compared)
        tasks = sorted({table.task(key) for key in keys}, key=_by_hash)
        if len(tasks) < 2 or len(methods) < 2:
            continue
        gaps, lost = _by_task(table, keys, tasks, methods, target)
        chance = np.random.default_rng(0)
        drawn = [chance.permutation(len(tasks)) < len(tasks) // 2 for _ in range(SPLITS)]
        halves = np.array([np.arange(len(tasks)) % 2 == 0, *drawn])
        first, second = _in_halves(gaps, lost, halves)
        correlations = _row_by_row(first, second)
        there = [float(value) for value in correlations[1:] if not np.isnan(value)]
        one, other = ([round(float(v), _DIGITS) for v in side[0]] for side in (first, second))
        found.append(
            Steady(
                group=group,
                shares=tuple(
                    (name, a, b) for (name, _), a, b in zip(methods, one, other, strict=True)
                ),
                tasks=(len(tasks[::2]), len(tasks[1::2])),
                rank_correlation=rank_correlation(one, other),
                rank_correlation_mean=_mean(there) if there else None,
            )
        )
    return found


def _by_task(
    table: Table,
    keys: Sequence[str],
    tasks: Sequence[str],
    methods: Sequence[Setting],
    target: Target,
) -> tuple["Floats", "Floats"]:
    """Return the gap of each task, and what each method (a column) loses in it."""
    place = {task: number for number, task in enumerate(tasks)}
    gaps, lost = np.zeros(len(tasks)), np.zeros((len(tasks), len(methods)))
    for key in keys:
        own = place[table.task(key)]
        gaps[own] += table.lost(key, (FLOOR, None), target)
        lost[own] += [table.lost(key, setting, target) for setting in methods]
    return gaps, lost


def _in_halves(
    gaps: "Floats", lost: "Floats", halves: "NDArray[np.bool_]"
) -> tuple["Floats", "Floats"]:
    """Return each method's share in the tasks of each half (a row), and in the other tasks."""
    one, other = (
        1 - (side.astype(np.float64) @ lost) / (side.astype(np.float64) @ gaps)[:, None]
        for side in (halves, ~halves)
    )
    return one, other


def _row_by_row(one: "Floats", other: "Floats") -> "Floats":
    """Return the rank correlation of each row with the same row of the other."""
    a, b = (stats.rankdata(side.round(_DIGITS), axis=1) for side in (one, other))
    a, b = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = (a * b).sum(axis=1) / np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    return found


def plain_share(table: Table, keys: Sequence[str], setting: Setting, target: Target) -> float:
    """Return a share without its interval; NaN where there is no gap to recover."""
    gap = sum(table.lost(key, (FLOOR, None), target) for key in keys)
    lost = sum(table.lost(key, setting, target) for key in keys)
    return round(1 - lost / gap, _DIGITS) if gap > 0 else float("nan")


def targets_agree(
    table: Table, one: Target = "action", other: Target = "message"
) -> list[Agreement]:
    """Return, by group, whether two targets rank the methods alike, overall and at each anchor."""
    found = []
    for group, compared in table.groups().items():
        methods, keys = _block(table, compared)
        if len(methods) < 2 or not keys:
            continue
        ranks = [[plain_share(table, keys, m, t) for m in methods] for t in (one, other)]
        alike = [
            (table.lost(key, a, one) < table.lost(key, b, one))
            == (table.lost(key, a, other) < table.lost(key, b, other))
            for key in keys
            for a, b in combinations(methods, 2)
            if table.lost(key, a, one) != table.lost(key, b, one)
        ]
        found.append(
            Agreement(
                group=group,
                methods=len(methods),
                rank_correlation=rank_correlation(*ranks),
                pairs=len(alike),
                pairs_alike=_mean(alike) if alike else None,
            )
        )
    return found


def judges_agree(table: Table, other: Table, target: Target = "action") -> list[Agreement]:
    """Return, by group, whether two judges rank the methods alike on the anchors both compared."""
    found = []
    theirs = other.groups()
    for group, keys in table.groups().items():
        both = set(theirs.get(group, ()))
        known, scored = _block(other, [key for key in keys if key in both])
        methods, common = _block(table, scored)
        methods = [setting for setting in methods if setting in known]
        if len(methods) < 2 or not common:
            continue
        ranks = [[plain_share(t, common, m, target) for m in methods] for t in (table, other)]
        found.append(
            Agreement(
                group=group,
                methods=len(methods),
                rank_correlation=rank_correlation(*ranks),
                pairs=len(common),
            )
        )
    return found


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation; None where there is none, as of constant values.

    >>> rank_correlation([1.0, 2.0, 3.0], [0.1, 0.2, 0.9])
    1.0
    >>> rank_correlation([1.0, 1.0], [0.1, 0.2]) is None
    True
    """
    a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
    there = ~(np.isnan(a) | np.isnan(b))
    a, b = a[there], b[there]
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    return round(float(stats.spearmanr(a, b).statistic), _DIGITS)


def _block(table: Table, keys: Sequence[str]) -> tuple[list[Setting], list[str]]:
    """Return the methods with the main budget and the anchors at which all of them were scored.

    A method that was scored at less than half of the anchors is left out, so that one
    that has just begun does not take the others' anchors away.
    """
    methods = [
        setting
        for setting in table.settings()
        if setting[1] == MAIN_KEEP
        and 2 * sum(setting in table.by_anchor[key] for key in keys) >= len(keys)
    ]
    return methods, [key for key in keys if all(m in table.by_anchor[key] for m in methods)]


def _by_hash(task: str) -> str:
    return hashlib.sha256(task.encode()).hexdigest()


def _mean(values: Iterable[float]) -> float:
    own = list(values)
    return round(sum(own) / len(own), _DIGITS)

"""The judge's report, from a run's files alone: JSON and Markdown."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from agora_lab.evaluate.statistics import Estimate
from agora_lab.judge import recovered
from agora_lab.judge.judged import FORMS, MAIN_KEEP, TARGETS, Judged, RunError, read_run
from agora_lab.judge.markdown import bold, document, heading
from agora_lab.judge.markdown import table as grid
from agora_lab.judge.recovered import Decision, Share, Table
from agora_lab.judge.words import TARGETS as TARGET_WORDS
from agora_lab.judge.words import group_title, listed, method_title, percent

ALPHA = 0.05
LEAST_TASKS = 10
"""With fewer tasks an interval by resampling them is too narrow to go by."""
JSON_FILE, MARKDOWN_FILE = "fidelity.json", "fidelity.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Every figure of the report."""

    model: str
    half: str
    margin: float | None
    planned: str
    """The day the plan was fixed."""
    asked: bool = False
    """Whether its comparisons were asked for with the report, and not fixed by the plan."""
    verdict: str
    sentences: tuple[str, ...]
    """One per kind of agent."""
    passed: tuple[recovered.Passed, ...]
    decisions: tuple[Decision, ...]
    shares: tuple[Share, ...]
    without_heaviest: tuple[recovered.WithoutHeaviest, ...]
    chosen_by_oracle: Mapping[str, Mapping[str, int]]
    steady: tuple[recovered.Steady, ...]
    targets_agree: tuple[recovered.Agreement, ...]
    judges_agree: Mapping[str, tuple[recovered.Agreement, ...]]
    """By the name of the other judge."""


def make(
    folder: Path,
    out: Path,
    *,
    half: str = "validation",
    beside: Sequence[Path] = (),
    compare: Sequence[tuple[str, str]] = (),
) -> Summary:
    """Write the report on a run and return its figures.

    `half` is the half of the tasks to report on, or empty for both; runs in `beside`
    are those of other judges on the same anchors. Pairs of methods in `compare` take the
    place of the headline that the plan fixed.

    Raises:
        RunError: the folder holds no run, or no anchor that can be compared yet.
    """
    table = Table(_comparing(read_run(folder, half), compare))
    if not table.groups():
        raise RunError(
            str(folder),
            f"has no passed anchor with all rows of the headline in half {half or 'any'!r}; "
            "let the run go on, or choose another --half",
        )
    others = {run.model: Table(run) for run in (read_run(one, half) for one in beside)}
    found = replace(summarise(table, half, others), asked=bool(compare))
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(_plain(asdict(found)), indent=1, sort_keys=True, allow_nan=False)
    (out / JSON_FILE).write_text(text + "\n", encoding="utf-8")
    (out / MARKDOWN_FILE).write_text(markdown(found), encoding="utf-8")
    return found


def _comparing(run: Judged, compare: Sequence[tuple[str, str]]) -> Judged:
    headline = [
        {"source": source, "ours": ours, "theirs": theirs}
        for ours, theirs in compare
        for source in run.sources
    ]
    return replace(run, plan={**run.plan, "headline": headline}) if headline else run


def summarise(table: Table, half: str, others: Mapping[str, Table]) -> Summary:
    """Return every figure of the report."""
    run = table.run
    found = tuple(share for target in TARGETS for share in recovered.shares(table, target))
    decided = tuple(recovered.decisions(table))
    margin = run.plan.get("margin")
    return Summary(
        model=run.model,
        half=half or "both",
        margin=float(margin) if isinstance(margin, int | float) else None,
        planned=str(run.plan.get("date", "")),
        verdict=verdict(decided),
        sentences=tuple(_sentences(table, found)),
        passed=tuple(recovered.passed(table)),
        decisions=decided,
        shares=found,
        without_heaviest=tuple(recovered.without_heaviest(table)),
        chosen_by_oracle=recovered.chosen_by_oracle(table),
        steady=tuple(recovered.steady(table)),
        targets_agree=tuple(recovered.targets_agree(table)),
        judges_agree={
            name: tuple(recovered.judges_agree(table, other)) for name, other in others.items()
        },
    )


def verdict(decided: Sequence[Decision]) -> str:
    """Return the headline comparisons, a sentence for each pair of methods."""
    if not decided:
        return "No comparison could be made yet"
    pairs: dict[tuple[str, str], list[Decision]] = {}
    for one in decided:
        pairs.setdefault((one.ours, one.theirs), []).append(one)
    return ". ".join(_said_of(own) for own in pairs.values())


def _said_of(decided: Sequence[Decision]) -> str:
    sides: dict[str, list[str]] = {"more": [], "less": [], "open": []}
    for one in decided:
        clear = one.p_holm < ALPHA
        sides["open" if not clear else "more" if one.ahead.value > 0 else "less"].append(one.source)
    ours, theirs = (method_title(name) for name in (decided[0].ours, decided[0].theirs))
    parts = [
        f"{word} than {theirs} in {listed(sides[word])}" for word in ("more", "less") if sides[word]
    ]
    opening = f"{ours[0].upper()}{ours[1:]}"
    if not parts:
        return f"{opening} and {theirs} cannot be told apart in {listed(sides['open'])}"
    said = f"{opening} recovers {' and '.join(parts)}"
    return f"{said}; in {listed(sides['open'])} it is undecided" if sides["open"] else said


def _sentences(table: Table, found: Sequence[Share]) -> Iterator[str]:
    """Yield, for each kind of agent, what the headline's two methods recover."""
    named = table.run.headline[0]
    for group in (name for name in table.groups() if name.startswith("kind:")):
        sources = _sources_of(table, group)
        own = {
            one.method: one
            for one in found
            if (one.group, one.keep, one.target) == (group, named.keep, "action")
        }
        ours, theirs = own.get(named.ours), own.get(named.theirs)
        if ours is None or theirs is None or ours.ahead is None:
            continue
        ahead = ours.ahead
        word = "ahead" if ahead.value >= 0 else "behind"
        sure = "" if ahead.low > 0 or ahead.high < 0 else ", an interval that includes 0"
        if ahead.n < LEAST_TASKS:
            sure = ", too few tasks to go by"
        yield (
            f"{group_title(group, sources)}: with {100 * named.keep:.0f} % of the tokens outside "
            f"the floor {method_title(named.ours)} recovers {percent(ours.share)} of what the "
            f"floor loses, {method_title(named.theirs)} {percent(theirs.share)}; it is {word} by "
            f"{abs(100 * ahead.value):.0f} points [{100 * ahead.low:.0f}, {100 * ahead.high:.0f}]"
            f"{sure} ({_many(ours.anchors, 'anchor')}, {_many(ours.share.n, 'task')})."
        )


def _sources_of(table: Table, group: str) -> tuple[str, ...]:
    kind = group.removeprefix("kind:")
    return tuple(
        name for name in table.run.sources if table.kind_of(name) == kind and table.compared[name]
    )


def markdown(found: Summary) -> str:
    """Return the report as Markdown."""
    return document(_parts(found))


def _parts(found: Summary) -> Iterator[str]:
    yield heading("Fidelity: what each prompt is worth to a language model", 1)
    yield f"**{found.verdict}.**"
    compared = sum(one.compared for one in found.passed)
    yield (
        f"Judge: {found.model}. At {compared} anchors of recorded trajectories ({found.half} half) "
        "it says how likely the message is that really came next, under each prompt. *Everything* "
        "sends all, the *floor* only instructions, task and the newest steps; the share of the gap "
        "between them that a method recovers is a ratio of sums of nats. 1 is as good as sending "
        "everything, 0 as bad as the floor. Intervals are 95 %, tasks resampled whole."
    )
    yield "\n".join(f"- {sentence}" for sentence in found.sentences)
    yield from _share_tables(found)
    yield from _decided(found)
    yield from _heaviest(found)
    yield from _oracle(found)
    yield from _passed(found)
    yield from _steadiness(found)
    yield f"Plan fixed on {found.planned or 'an unknown day'}, before the run: `plan.json`."


def _share_tables(found: Summary) -> Iterator[str]:
    keeps = sorted({one.keep for one in found.shares if one.keep is not None})
    order = [MAIN_KEEP, *(keep for keep in keeps if keep != MAIN_KEEP)]
    for target in TARGETS:
        yield heading(f"Share recovered: {TARGET_WORDS[target]}")
        for keep in order:
            own = [one for one in found.shares if one.target == target and one.keep == keep]
            if own:
                yield (
                    f"At {keep:.0%} of the tokens outside the floor; in parentheses the share of "
                    "them that was really sent."
                )
                yield _grid(found, own)


def _grid(found: Summary, own: Sequence[Share]) -> str:
    groups = _shown_groups(found, own)
    cells = {(one.method, one.group): one for one in own}
    rows = []
    for method in dict.fromkeys(one.method for one in own):
        entries = [_named(method)]
        for group in groups:
            cell = cells.get((method, group))
            entries.append(_cell(cell) if cell else "")
        rows.append(entries)
    return grid(("method", *(_head(group, own) for group in groups)), rows)


def _cell(one: Share) -> str:
    return f"{_estimate(one.share)} ({one.sent_outside:.0%})"


def _head(group: str, own: Sequence[Share]) -> str:
    most = max(one.anchors for one in own if one.group == group)
    tasks = max(one.share.n for one in own if one.group == group)
    return f"{group_title(group)}, {_many(most, 'anchor')} of {_many(tasks, 'task')}"


def _shown_groups(found: Summary, own: Sequence[Share]) -> list[str]:
    """Return the groups with figures; a kind of agent with one source is that source."""
    several = {
        f"kind:{kind}"
        for kind in {one.kind for one in found.passed}
        if sum(one.kind == kind and one.compared > 0 for one in found.passed) > 1
    }
    names = dict.fromkeys(one.group for one in own)
    return [name for name in names if not name.startswith("kind:") or name in several]


def _decided(found: Summary) -> Iterator[str]:
    fixed = "asked for with this report" if found.asked else "fixed before the run"
    yield heading(f"The comparisons {fixed}")
    yield (
        "On the action; paired by task, p by Wilcoxon's signed-rank test over tasks, corrected by "
        "Holm over these comparisons only."
    )
    head = ("source", "ours", "theirs", "ahead by", "anchors", "p", "p after Holm")
    yield grid(
        head,
        [
            [
                one.source,
                f"{method_title(one.ours)} {_estimate(one.our_share)}",
                f"{method_title(one.theirs)} {_estimate(one.their_share)}",
                _estimate(one.ahead),
                f"{one.anchors} ({one.ahead.n} tasks)",
                f"{one.p:.2g}",
                bold(f"{one.p_holm:.2g}") if one.p_holm < ALPHA else f"{one.p_holm:.2g}",
            ]
            for one in found.decisions
        ],
    )


def _heaviest(found: Summary) -> Iterator[str]:
    yield heading("How much hangs on one anchor")
    yield (
        f"At {MAIN_KEEP:.0%}, on the action, without the anchor that has the largest gap; *median* "
        "is that of the shares at single anchors, all of them."
    )
    groups = _shown_groups(found, found.shares)
    own = {(one.method, one.group): one for one in found.without_heaviest}
    weights = {one.group: one for one in found.without_heaviest}
    rows = [
        [
            _named(name),
            *(_without(own[name, group]) if (name, group) in own else "" for group in groups),
        ]
        for name in dict.fromkeys(one.method for one in found.without_heaviest)
    ]
    heads = (
        f"{group_title(group)}, without {weights[group].weight:.0%} of all gaps"
        if group in weights
        else group_title(group)
        for group in groups
    )
    yield grid(("method", *heads), rows)


def _named(method: str) -> str:
    return bold(method_title(method)) if method == FORMS else method_title(method)


def _without(one: recovered.WithoutHeaviest) -> str:
    return f"{_estimate(one.share)}, median {one.median:.2f}"


def _oracle(found: Summary) -> Iterator[str]:
    yield heading("Which method is the best at an anchor")
    yield (
        f"At {MAIN_KEEP:.0%}, on the action. If one method were the best everywhere, it would have "
        "all anchors and the row of the best at each anchor would be its own."
    )
    groups = _shown_groups(found, found.shares)
    names = dict.fromkeys(name for own in found.chosen_by_oracle.values() for name in own)
    yield grid(
        ("method", *(group_title(group) for group in groups)),
        [
            [
                method_title(name),
                *(str(found.chosen_by_oracle[group].get(name, "")) for group in groups),
            ]
            for name in names
        ],
    )


def _passed(found: Summary) -> Iterator[str]:
    yield heading("Anchors that can tell")
    margin = f"{found.margin:g} nats" if found.margin is not None else "the margin"
    yield (
        "An anchor passes where hindsight says that something old is needed and sending everything "
        f"beats the floor by {margin} on the action. Compared are those that passed and have every "
        "row of the headline."
    )
    yield grid(
        ("source", "drawn", "scored", "passed", "share", "compared", "tasks"),
        [
            [
                one.source,
                str(one.drawn),
                str(one.scored),
                str(one.passed),
                f"{one.passed / one.scored:.0%}" if one.scored else "",
                str(one.compared),
                str(one.tasks),
            ]
            for one in found.passed
        ],
    )


def _steadiness(found: Summary) -> Iterator[str]:
    yield heading("How steady the judge is")
    yield (
        f"Methods at {MAIN_KEEP:.0%} that were scored at the same anchors. *Halves*: rank "
        "correlation of the methods' shares in two disjoint halves of the tasks, and its mean over "
        f"{recovered.SPLITS} random halvings. *Targets*: rank correlation of the shares on the "
        "action and on the whole message, and how often both prefer the same of two methods at one "
        "anchor."
    )
    groups = _shown_groups(found, found.shares)
    halves = {one.group: one for one in found.steady}
    targets = {one.group: one for one in found.targets_agree}
    yield grid(
        ("", "methods", "halves", "random halvings", "targets", "pairs alike"),
        [
            [
                group_title(group),
                str(len(halves[group].shares)) if group in halves else "",
                _number(halves[group].rank_correlation) if group in halves else "",
                _number(halves[group].rank_correlation_mean) if group in halves else "",
                _number(targets[group].rank_correlation) if group in targets else "",
                _of_pairs(targets[group]) if group in targets else "",
            ]
            for group in groups
        ],
    )
    yield from (_halves(one) for one in found.steady if one.group in groups)
    for judge, agreements in found.judges_agree.items():
        yield (
            f"{judge} on the same anchors ranks the methods alike by "
            + listed(
                [
                    f"{_number(one.rank_correlation)} in {group_title(one.group)} "
                    f"({one.pairs} anchors, {one.methods} methods)"
                    for one in agreements
                ]
                or ["nothing: no anchor is in both"]
            )
            + " (Spearman's)."
        )


def _halves(one: recovered.Steady) -> str:
    first, second = one.tasks
    return (
        f"{group_title(one.group)}, halves of {first} and {second} tasks: "
        + "; ".join(f"{method_title(name)} {a:.2f} / {b:.2f}" for name, a, b in one.shares)
        + "."
    )


def _of_pairs(one: recovered.Agreement) -> str:
    return "" if one.pairs_alike is None else f"{one.pairs_alike:.0%} of {one.pairs}"


def _estimate(one: Estimate) -> str:
    return f"{one.value:.2f} [{one.low:.2f}, {one.high:.2f}]"


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: lists for tuples, null for what is not a number."""
    if isinstance(value, Mapping):
        return {str(key): _plain(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(own) for own in value]
    return None if isinstance(value, float) and value != value else value


__all__ = ["Summary", "make", "markdown", "summarise", "verdict"]

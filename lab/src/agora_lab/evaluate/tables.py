"""The paper's tables with our figures, and the paper's own numbers beside them."""

from collections.abc import Sequence
from dataclasses import dataclass

from agora_lab.evaluate.figures import (
    AGORA,
    NONE,
    CellFigures,
    Figures,
    base_name,
    grammar,
    jaccard,
    paper,
)
from agora_lab.evaluate.statistics import Estimate

ALPHA = 0.05
THRESHOLDS = (75, 80, 90)
PAPER_NAMES = {
    "none": "none",
    "agora_paper": "agora",
    "truncate": "truncate",
    "floor": "floor",
    "observation_mask": "observation_mask",
    "long_llmlingua": "long_llmlingua",
    "selective_context": "selective_context",
    "hiagent": "hiagent",
    "agentdiet": "agentdiet",
    "acon": "acon",
}
"""Our methods under the names they have in the paper's tables 1 and 2."""
ABLATIONS = {
    "none": ("No-Comp", "none"),
    "agora_paper": ("AGORA", "agora"),
    "agora_no_floor": ("-Floor (K_recent = 0)", "agora_no_floor"),
    "agora_hard_labels": ("Hard-CF", "agora_hard_labels"),
    "floor": ("-Scorer (Floor-K2)", "agora_no_scorer"),
    "random_step": ("Rand-Step", "random_step"),
    "truncate": ("Trunc-2048", "truncate"),
}
TOKEN_LEVEL = ("selective_context", "llmlingua2", "llmlingua2_retrained", "long_llmlingua")

NOTES = {
    "table1": (
        "Retention is the mean reward divided by that of `none` on the same tasks.",
        "Intervals are 95 %, of 10,000 bootstrap resamples by task.",
        "The paper's columns are printed as theirs, for qwen3.5-flash, gpt-4o-mini and gpt-5-mini.",
        "44 of its 81 retentions are more than a point off its own rewards.",
    ),
    "table2": (
        "Ratio is the mean over tasks of the prompt tokens of `none` divided by the method's.",
        "By call the same episode is on both sides, so an episode that ends early adds nothing.",
        "Agents without a provider are billed as gpt-4o-mini.",
        "The cache starts empty at every episode.",
    ),
    "table3": (
        "Scripted agents answer a prompt the same way every time: soft and hard labels are equal.",
        "Hard-CF is therefore not distinguishable with them.",
    ),
    "token_level": (
        "Measured on the prompts of the uncompressed episodes.",
        "A token of the next action is lost if only the whole prompt held it.",
        "A past command is whole if it stands in the shortened prompt word for word.",
        "Valid actions are those that the environment understood in the method's own episodes.",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of text."""

    name: str
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    page_only: bool = False
    """True if it is too wide or too long for a terminal."""
    narrow: tuple[int, ...] = ()
    """The columns that a terminal shows; all if empty."""


def tables(figures: Figures) -> tuple[Table, ...]:
    """Return every table of a report that has rows."""
    made = (
        _retention(figures),
        _passes(figures),
        _cost(figures),
        _ablations(figures),
        _token_level(figures),
        _token_level_paper(),
        _audits(figures),
        _overlap(figures),
        _tests(figures),
    )
    return tuple(table for table in made if table.rows)


def _retention(figures: Figures) -> Table:
    """Return table 1."""
    head = ["method"]
    for environment, backbone in figures.columns:
        head.append(f"{environment}\n{backbone}")
    environments = list(dict.fromkeys(environment for environment, _ in figures.columns))
    shown = [one for one in environments if one in paper()["environments"]]
    head += [f"{environment}\npaper" for environment in shown]
    rows = []
    for method in figures.methods:
        cells = [_reward(figures, *column, method) for column in figures.columns]
        printed = paper()["table1"].get(PAPER_NAMES.get(base_name(method), ""), {})
        cells += [_printed_rewards(printed, environment) for environment in shown]
        rows.append((method, *cells))
    return Table(
        name="table1",
        title="Table 1: mean reward, (retention) and 95 % interval",
        head=tuple(head),
        rows=tuple(rows),
        notes=NOTES["table1"],
    )


def _passes(figures: Figures) -> Table:
    """Return the summary rows of table 1."""
    rows = []
    for method in figures.methods:
        cells = [c for column in figures.columns if (c := figures.cell(*column, method))]
        kept = [c.retention for c in cells if c.retention]
        ratios = [c.ratio.value for c in cells if c.ratio]
        printed = paper()["table1"].get(PAPER_NAMES.get(base_name(method), ""), {})
        if not kept or method == NONE:
            continue
        counts = []
        for threshold in THRESHOLDS:
            point = sum(100 * one.value >= threshold for one in kept)
            lower = sum(100 * one.low >= threshold for one in kept)
            counts.append(f"{point} / {lower} of {len(kept)}")
        rows.append(
            (
                method,
                *counts,
                f"{printed['pass75']}/9" if "pass75" in printed else "",
                f"{min(ratios):.1f}-{max(ratios):.1f}" if ratios else "",
                printed.get("ratio", ""),
            )
        )
    return Table(
        name="passes",
        title="Table 1, summary: cells that retain a threshold, by point / by lower bound",
        head=("method", *(f"{t} %" for t in THRESHOLDS), "paper 75 %", "ratio", "paper ratio"),
        rows=tuple(rows),
    )


def _cost(figures: Figures) -> Table:
    """Return table 2."""
    rows = []
    for environment, backbone in figures.columns:
        for method in figures.methods:
            cell = figures.cell(environment, backbone, method)
            if cell is None:
                continue
            printed = paper()["table2"].get(PAPER_NAMES.get(cell.base, ""), {})
            rows.append(
                (
                    environment,
                    backbone,
                    method,
                    _interval(cell.ratio, digits=2),
                    _list(printed.get("ratio", {}).get(environment), "{:.1f}"),
                    f"{cell.by_call.value:.2f}",
                    _interval(cell.steps_ratio, digits=2),
                    f"{cell.method_tokens:,.0f}",
                    f"{cell.method_ms:,.1f}",
                    f"{cell.dollars_paper:.5f}",
                    _list(printed.get("dollars", {}).get(environment), "{:.4f}"),
                    f"{cell.dollars.value:.5f}",
                    _interval(cell.dollars_ratio, digits=2),
                )
            )
    return Table(
        name="table2",
        title="Table 2: realised compression and dollars a task, with the compressor's own tokens",
        head=(
            "environment",
            "backbone",
            "method",
            "ratio",
            "paper ratio",
            "ratio by call",
            "steps / none's",
            "own tokens",
            "own ms a call",
            "$ paper rates, no cache",
            "paper $",
            "$ today, cache",
            "$ / none's",
        ),
        rows=tuple(rows),
        notes=NOTES["table2"],
        narrow=(0, 2, 3, 4, 5, 6, 9, 10, 12),
    )


def _ablations(figures: Figures) -> Table:
    """Return table 3."""
    present = {base_name(method): method for method in figures.methods}
    if AGORA not in present:
        return Table(name="table3", title="", head=(), rows=())
    ours = {
        base: [figures.cell(*column, present[base]) for column in figures.columns]
        for base in ABLATIONS
        if base in present
    }
    rows = []
    for base, (title, printed_name) in ABLATIONS.items():
        printed = paper()["table3"][printed_name]
        method = present.get(base, "")
        options = method.partition(",")[2]
        values = [_ablation(figures, column, base, method) for column in figures.columns]
        cells = [c for c in ours.get(base, ()) if c]
        agora = [c for c in ours[AGORA] if c]
        mean = f"{sum(c.reward.value for c in cells) / len(cells):.3f}" if cells else ""
        differences = [c.differences[AGORA] for c in cells if AGORA in c.differences]
        delta = sum(d.value for d in differences) / len(differences) if differences else None
        rows.append(
            (
                f"{title}, {options}" if options else title,
                *values,
                mean,
                f"{delta:+.3f}" if delta is not None and agora else "",
                f"{sum(d.p < ALPHA for d in differences)} of {len(differences)}"
                if differences
                else "",
                f"{printed['mean']:.3f}" if "mean" in printed else "",
                f"{printed['difference']:+.3f}" if "difference" in printed else "",
                f"{printed['significant']} of 9" if "significant" in printed else "",
            )
        )
    columns = [f"{environment}\n{backbone}" for environment, backbone in figures.columns]
    return Table(
        name="table3",
        title="Table 3: ablations, mean reward; * is p < 0.05 against AGORA",
        head=(
            "variant",
            *columns,
            "mean",
            "minus AGORA",
            "p < 0.05",
            "paper mean",
            "paper minus AGORA",
            "paper p < 0.05",
        ),
        rows=tuple(rows),
        notes=NOTES["table3"],
    )


def _ablation(figures: Figures, column: tuple[str, str], base: str, method: str) -> str:
    if base == "agora_hard_labels" and column[1] == "scripted":
        return "not distinguishable"
    if not method:
        return "not played"
    return _reward(figures, *column, method, retention=False, against=AGORA)


def _token_level(figures: Figures) -> Table:
    """Return the audit of token-level methods, with every other method beside it."""
    rows = []
    for environment, backbone in figures.columns:
        for method in figures.methods:
            cell = figures.cells.get((environment, backbone, method))
            level = "token" if base_name(method) in TOKEN_LEVEL else "step"
            if cell is None:
                if level == "token":
                    reason = figures.why_missing(environment, backbone, method)
                    rows.append((environment, backbone, method, level, reason, "", "", "", "", ""))
                continue
            totals = grammar(figures, cell.key)
            rows.append(
                (
                    environment,
                    backbone,
                    method,
                    level,
                    f"{cell.reward.value:.3f}",
                    _interval(cell.ratio, digits=2),
                    _percent(totals, "next_lost", "next"),
                    _percent(totals, "commands_whole", "commands"),
                    _percent(totals, "tokens_left", "tokens"),
                    _valid(cell),
                )
            )
    return Table(
        name="token_level",
        title="Section 4.5 and appendix C: what happens to the action grammar",
        head=(
            "environment",
            "backbone",
            "method",
            "level",
            "reward",
            "ratio",
            "next action's tokens lost",
            "past commands whole",
            "tokens left",
            "valid actions",
        ),
        rows=tuple(rows),
        notes=NOTES["token_level"],
        narrow=(0, 2, 4, 5, 6, 7, 8, 9),
    )


def _token_level_paper() -> Table:
    """Return the paper's 17 cells."""
    names = ("environment", "backbone", "method", "ratio", "reward")
    return Table(
        name="token_level_paper",
        title="Appendix C as the paper prints it: 17 cells of token-level methods",
        head=names,
        rows=tuple(tuple(str(one[name]) for name in names) for one in paper()["token_level"]),
        page_only=True,
    )


def _audits(figures: Figures) -> Table:
    """Return the four audits of appendix A."""
    rows = []
    for cell in figures.cells.values():
        findings = {one.check: one for one in cell.audit.findings}
        state = "admitted" if cell.audit.admitted else "not admitted"
        rows.append(
            (
                cell.environment,
                cell.backbone,
                cell.method,
                state,
                *(
                    ("ok: " if one.passed else "" if one.passed is None else "flag: ") + one.detail
                    for one in findings.values()
                ),
            )
        )
    checks = next((c.audit.findings for c in figures.cells.values()), ())
    return Table(
        name="audits",
        page_only=True,
        title="Appendix A: the audits of every cell",
        head=("environment", "backbone", "method", "cell", *(one.check for one in checks)),
        rows=tuple(sorted(rows)),
    )


def _overlap(figures: Figures) -> Table:
    """Return the Jaccard table of appendix F."""
    printed = paper()["jaccard"]
    bases = {AGORA: "agora"}
    present = set(map(base_name, figures.methods))
    rows = []
    for environment, backbone in figures.columns:
        for (first, second), overlap in jaccard(figures, environment, backbone).items():
            names = [bases.get(base_name(one), one) for one in (first, second)]
            theirs = printed.get("|".join(names)) or printed.get("|".join(reversed(names))) or {}
            if not theirs and AGORA in present and AGORA not in map(base_name, (first, second)):
                continue
            rows.append(
                (
                    environment,
                    backbone,
                    first,
                    second,
                    _interval(overlap, digits=3),
                    _list(theirs.get(environment), "{:.3f}"),
                )
            )
    return Table(
        name="jaccard",
        page_only=True,
        title="Appendix F: Jaccard overlap of the steps that two methods keep",
        head=("environment", "backbone", "method", "and", "overlap", "paper"),
        rows=tuple(rows),
        notes=("On the same prompts: those of the uncompressed episodes.",),
    )


def _tests(figures: Figures) -> Table:
    """Return the paired tests against AGORA and against `none`."""
    rows = [
        (
            cell.environment,
            cell.backbone,
            cell.method,
            against,
            f"{one.value:+.3f}",
            f"{one.p:.2g}",
            f"{one.p_holm:.2g}{'*' if one.p_holm < ALPHA else ''}",
        )
        for cell in figures.cells.values()
        for against, one in cell.differences.items()
    ]
    return Table(
        name="tests",
        page_only=True,
        title="Paired Wilcoxon signed-rank tests per task, Holm-Bonferroni over the grid",
        head=("environment", "backbone", "method", "against", "difference", "p", "p (Holm)"),
        rows=tuple(rows),
    )


def _reward(
    figures: Figures,
    environment: str,
    backbone: str,
    method: str,
    *,
    retention: bool = True,
    against: str = "",
) -> str:
    cell = figures.cell(environment, backbone, method)
    if cell is None:
        return figures.why_missing(environment, backbone, method)
    share = f" ({100 * cell.retention.value:.0f})" if retention and cell.retention else ""
    difference = cell.differences.get(against)
    star = "*" if difference and difference.p < ALPHA else ""
    one = cell.reward
    return f"{one.value:.3f}{star}{share}\n[{one.low:.2f}, {one.high:.2f}]"


def _printed_rewards(printed: dict[str, dict[str, list[float]]], environment: str) -> str:
    """Return the paper's rewards and retentions of its three backbones."""
    if "reward" not in printed:
        return ""
    rewards = " ".join(f"{value:.3f}" for value in printed["reward"][environment])
    kept = " ".join(f"{value:.0f}" for value in printed["retention"][environment])
    return f"{rewards}\n({kept})"


def _interval(one: Estimate | None, *, digits: int) -> str:
    if one is None:
        return ""
    return f"{one.value:.{digits}f} [{one.low:.{digits}f}, {one.high:.{digits}f}]"


def _list(values: Sequence[float] | None, form: str) -> str:
    return " ".join(form.format(value) for value in values or ())


def _percent(totals: dict[str, float], part: str, whole: str) -> str:
    return f"{100 * totals[part] / totals[whole]:.0f} %" if totals.get(whole) else ""


def _valid(cell: CellFigures) -> str:
    steps = sum(row.steps for row in cell.rows)
    return f"{100 * sum(row.valid for row in cell.rows) / max(1, steps):.0f} %"

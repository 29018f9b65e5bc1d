"""The report of a run: tables next to the paper's, plots, the audit, and provenance.

It is a function of the rows alone: made twice, from a copy, or from the rows of
an earlier report, it is the same bytes.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agora.core.prices import PriceSheet, sheet_for
from agora_lab.evaluation import paper, plots
from agora_lab.evaluation.blocks import Block, Entry, Figure, Heading, Table, Text
from agora_lab.evaluation.findings import findings
from agora_lab.evaluation.goals import DEFAULT, Goal, goals
from agora_lab.evaluation.grid import PRICES
from agora_lab.evaluation.page import page
from agora_lab.evaluation.results import (
    ALPHA,
    FLOOR,
    FLOOR_MATCHED,
    NONE,
    CellResult,
    Overlap,
    Results,
    results,
)
from agora_lab.evaluation.rows import gather, write
from agora_lab.evaluation.statistics import Estimate, Resampled, mean, paired, wilcoxon
from agora_lab.evaluation.verdict import verdict

NO_CACHE = "no cache"
TOKEN_LEVEL = ("selective_context", "llmlingua2", "longllmlingua")
ABLATED = (
    (
        "agora_paper",
        ("_no_floor", "_no_scorer", "_random_scores", "_hard_labels", "_soft_labels"),
    ),
    ("agora", ("_no_floor", "_no_scorer", "_random_scores", "_no_skeletons", "_every_call")),
    (
        "agora_every_call",
        (
            "_no_floor",
            "_no_scorer",
            "_random_scores",
            "_no_skeletons",
            "_features",
            "_exact_labels",
        ),
    ),
)
_KINDS = ("agora", "second", "third", "peer")


def make(folders: Sequence[Path], out: Path, *, prices: Sequence[str] = ()) -> Results:
    """Write the report on runs into a folder, and return the results.

    Raises:
        RunError: a folder holds no run.
    """
    material = gather(folders, sheets_of(prices or PRICES))
    found = results(material)
    out.mkdir(parents=True, exist_ok=True)
    for name, text in texts(found).items():
        (out / name).write_text(text, encoding="utf-8")
    write(material, out)
    return found


def sheets_of(names: Sequence[str]) -> dict[str, PriceSheet]:
    """Return price sheets by name, plus the first one without a cache, as in the paper."""
    found = {name: sheet_for(name) for name in names}
    if found:
        found[NO_CACHE] = next(iter(found.values())).no_cache()
    return found


def texts(found: Results) -> dict[str, str]:
    """Return the files of a report by name."""
    title = "Report on " + ", ".join(dict.fromkeys(_names(found)))
    blocks = list(_blocks(found, title))
    files = {
        "report.md": "\n\n".join(block.markdown() for block in blocks) + "\n",
        "report.html": page(title, blocks),
        "report.json": json.dumps(value(found), indent=1, sort_keys=True) + "\n",
    }
    for block in blocks:
        if isinstance(block, Figure):
            files[f"{block.name}.svg"] = block.file()
    return files


def value(found: Results) -> dict[str, Any]:
    """Return everything as JSON."""
    return {
        "schema": 1,
        "runs": [
            {
                "settings": _brief(run["settings"]),
                "origins": run["origins"],
            }
            for run in found.material.runs
        ],
        "sheets": found.material.sheets,
        "verdict": verdict(found, _chosen_sheet(found)).headline,
        "goals": [asdict(goal) for goal in goals(found)],
        "findings": [asdict(one) for one in findings(found)],
        "cells": [cell.value() for cell in found.cells],
        "overlaps": [asdict(one) for one in found.overlaps()],
        "skipped": found.skipped(),
        "failures": found.failures(),
        "paper": paper.numbers(),
    }


def _blocks(found: Results, title: str) -> Iterator[Block]:
    yield Heading(title, 1)
    yield verdict(found, _chosen_sheet(found))
    yield from _goal_blocks(found)
    yield from _reading(found)
    yield from _table_1(found)
    yield from _pareto(found)
    yield from _table_2(found)
    yield from _behaviour(found)
    yield from _table_3(found)
    yield from _token_level(found)
    yield from _overlap_blocks(found)
    yield from _sensitivity(found)
    yield from _finding_blocks(found)
    yield from _audit_blocks(found)
    yield from _origin_blocks(found)


def _reading(found: Results) -> Iterator[Block]:
    cells, rows = found.cells, found.material.rows
    yield Heading("How to read it")
    yield Text(
        f"{len(rows):,} episodes in {len(cells)} cells; {len(found.methods)} methods; "
        f"{sum(cell.audit.admitted for cell in cells)} cells admitted by the audit, "
        f"{len(found.skipped())} skipped with a reason. Intervals are 95 %, by bootstrap over "
        "tasks (10,000 resamples). Numbers in italics, or in another colour, are the paper's."
    )
    if any(cell.reader for cell in cells):
        yield Text(
            "`reader` is a program that acts only on what the prompt says. It is a test "
            "instrument: it shows whether the needed facts were still there, and says nothing "
            "about how a language model would act."
        )


def _goal_blocks(found: Results) -> Iterator[Block]:
    if not any(cell.method == DEFAULT and cell.reader for cell in found.cells):
        return
    yield Heading("Goals")
    yield Text(f"Set before the run, for `{DEFAULT}`, over the cells played by readers.")
    own = goals(found)
    if any(one.met and not one.edited for one in own):
        yield Text(
            "A goal that is met where no call was edited says nothing for or against editing: "
            "sending everything meets it too."
        )
    rows = [[Entry(one.goal), Entry(one.word, _look(one)), Entry(one.says)] for one in own]
    yield Table(("goal", "", "by"), rows, words=True)


def _look(goal: Goal) -> str:
    if goal.met is None:
        return ""
    return "bad" if not goal.met else "good" if goal.edited else "idle"


def _table_1(found: Results) -> Iterator[Block]:
    yield Heading("Reward and retention (the paper's table 1)")
    yield Text(
        "Mean reward, percent of the reward of `none` retained on the same tasks, interval of "
        "the reward, and number of tasks; `no edit` where the method changed no call. Marks: "
        "different from `none` (n), from the floor (f) or from the floor grown to the same budget "
        f"(g) with p < {ALPHA} by paired Wilcoxon after Holm. The paper: its three language models "
        f"({', '.join(paper.BACKBONES)}), n = 30."
    )
    wrong = paper.inconsistent_retentions()
    yield Text(
        f"Of the paper's 81 retentions, {len(wrong)} do not follow from the rewards in its own "
        "table: those of ObsMask, LongLingua, SelCtx, HiAgent, AgentDiet and ACON were computed "
        "against a different No-Comp run than the one printed. They appear here as printed, "
        "followed in brackets by what its rewards give."
    )
    for backbone, environments in _by_backbone(found):
        yield Heading(backbone, 3)
        head = ["method"]
        for environment in environments:
            head += [environment, "paper"]
        rows = []
        for method in _plain(found):
            own = [found.cell(environment, backbone, method) for environment in environments]
            if any(own):
                row = [Entry(method, "head" if method.startswith("agora") else "")]
                for environment, cell in zip(environments, own, strict=True):
                    row += [_reward(cell), Entry(_paper_reward(environment, method), "paper")]
                rows.append(row)
        yield Table(head, rows)


def _reward(cell: CellResult | None) -> Entry:
    if cell is None:
        return Entry("")
    if not cell.audit.admitted:
        return Entry("not admitted", "bad")
    reward = cell.reward.estimate
    marks = "".join(
        letter
        for letter, against in (("n", NONE), ("f", FLOOR), ("g", FLOOR_MATCHED))
        if (test := cell.test(against)) and test.p_holm < ALPHA
    )
    kept = f" ({100 * cell.retention.estimate.value:.0f})" if cell.retention else ""
    text = f"{_short(reward.value)}{kept}{f' {marks}' if marks else ''}\n{_interval(reward)}"
    idle = "" if cell.edited or cell.method == NONE else "\nno edit"
    return Entry(f"{text} n={reward.n}{idle}")


def _paper_reward(environment: str, method: str) -> str:
    said = []
    for theirs, ours in paper.OURS.items():
        if method != ours[0]:
            continue
        wrong = {
            (row["environment"], row["backbone"], row["method"]): row["by_its_rewards"]
            for row in paper.inconsistent_retentions()
        }
        table = "table_1" if paper.of("table_1", method=theirs) else "table_3"
        for row in paper.of(table, environment=environment, method=theirs):
            text = _short(row["reward"])
            if row.get("retention") is not None:
                text += f" ({row['retention']})"
                given = wrong.get((row["environment"], row["backbone"], row["method"]))
                text += f" [{given}]" if given is not None else ""
            said.append(text)
    return "\n".join(said)


def _pareto(found: Results) -> Iterator[Block]:
    chosen = _chosen_sheet(found)
    if not chosen:
        return
    for backbone, environments in _by_backbone(found):
        panels = []
        for environment in environments:
            points = []
            for method in _plain(found):
                cell = found.cell(environment, backbone, method)
                if cell and cell.audit.admitted:
                    dollars, reward = cell.bills[chosen].dollars.estimate, cell.reward.estimate
                    points.append(
                        plots.Point(
                            label=method,
                            x=1_000 * dollars.value,
                            y=reward.value,
                            kind=_kind(method),
                            x_low=1_000 * dollars.low,
                            x_high=1_000 * dollars.high,
                            y_low=reward.low,
                            y_high=reward.high,
                        )
                    )
            panels.append((environment, points))
        yield Figure(
            f"pareto-{_slug(backbone)}",
            plots.scatter(panels, x_title="dollars per 1,000 tasks", y_title="mean reward"),
            f"Cost and quality, {backbone}: mean reward against the bill with the prefix cache "
            f"({chosen}). Up and to the left is better; the dashed line joins what nothing beats.",
        )


def _chosen_sheet(found: Results) -> str:
    """Return the sheet of what is told by one: the middle of the field.

    A cached read at a tenth of the price, a write at a quarter more.
    """
    sheets = list(found.material.sheets)
    return next((name for name in sheets if name.startswith("claude")), next(iter(sheets), ""))


def _table_2(found: Results) -> Iterator[Block]:
    yield Heading("Compression and the bill (the paper's table 2)")
    yield Text(
        "Effective compression is the mean over tasks of the input tokens of `none` divided by the "
        "method's own, so longer episodes count against it. Call by call: the tokens the same "
        "calls would have sent uncompressed, divided by those they sent. Bills are ratios to "
        "`none` on the same tasks, with the prefix cache simulated and output and the method's own "
        "calls included; below 1 is a saving. Each episode begins with an empty cache, few-shot "
        f"examples are not in the prompt, and `{NO_CACHE}` is how the paper counts. AGORA by price "
        "was played with the one sheet named in the grid (or the one for unknown models), and is "
        "billed by all. In brackets after a bill: dollars per 1,000 tasks."
    )
    sheets = list(found.material.sheets)
    for backbone, environments in _by_backbone(found):
        for environment in environments:
            yield Heading(f"{environment}, {backbone}", 3)
            rows = []
            for method in _plain(found):
                cell = found.cell(environment, backbone, method)
                if cell is None:
                    continue
                row = [
                    Entry(method, "head" if method.startswith("agora") else ""),
                    Entry(_told(cell.compression, 2)),
                    Entry(_paper_compression(environment, method), "paper"),
                    Entry(_told(cell.by_call, 2)),
                ]
                row += [_bill(cell, sheet) for sheet in sheets]
                rows.append(row)
            head = ["method", "compression", "paper", "call by call", *sheets]
            # The paper is silent on peers: no column for it then.
            if not any(row[2].text for row in rows):
                del head[2]
                rows = [[*row[:2], *row[3:]] for row in rows]
            yield Table(head, rows)
    yield from _compression_figure(found)
    yield from _bill_figures(found)


def _bill(cell: CellResult, sheet: str) -> Entry:
    bill = cell.bills[sheet]
    dollars = f"({1_000 * bill.dollars.estimate.value:.3g})"
    if bill.ratio is None:
        return Entry(dollars)
    ratio = bill.ratio.estimate
    kind = "good" if ratio.high < 1 else "bad" if ratio.low > 1 else ""
    return Entry(f"{ratio.value:.2f} {dollars}\n{_interval(ratio)}", kind)


def _paper_compression(environment: str, method: str) -> str:
    for theirs, ours in paper.OURS.items():
        if method == ours[0]:
            rows = paper.of("table_2", environment=environment, method=theirs)
            if rows:
                return " · ".join(f"{row['compression']:.1f}" for row in rows)
            if theirs in paper.numbers()["ranges"]:
                low, high = paper.numbers()["ranges"][theirs]
                return f"{low}–{high} over all" if low != high else f"~{low} over all"
    return ""


def _compression_figure(found: Results) -> Iterator[Block]:
    for backbone, environments in _by_backbone(found):
        panels = []
        for environment in environments:
            own: list[plots.Bar] = []
            for method in _plain(found):
                cell = found.cell(environment, backbone, method)
                if cell and cell.compression and method != NONE:
                    own.append(_bar(method, cell.compression.estimate))
            panels.append((environment, own))
        if any(own for _, own in panels):
            yield Figure(
                f"compression-{_slug(backbone)}",
                plots.bars(panels, x_title="effective compression, times"),
                f"Effective compression per cell, {backbone}. To the right of the dashed line, an "
                "episode sends less than uncompressed.",
            )


def _bill_figures(found: Results) -> Iterator[Block]:
    for backbone, environments in _by_backbone(found):
        for environment in environments:
            panels = []
            for sheet in found.material.sheets:
                own = []
                for method in _plain(found):
                    cell = found.cell(environment, backbone, method)
                    if cell and method != NONE and (ratio := cell.bills[sheet].ratio):
                        own.append(_bar(method, ratio.estimate))
                panels.append((sheet, own))
            if any(own for _, own in panels):
                yield Figure(
                    f"bill-{environment.replace(':', '-')}-{_slug(backbone)}",
                    plots.bars(panels, x_title="bill as a ratio to sending everything"),
                    f"Bills by price sheet, {environment}, {backbone}. To the left of the dashed "
                    "line, it is cheaper than sending everything.",
                )


def _behaviour(found: Results) -> Iterator[Block]:
    yield Heading("Steps, repeated actions, grammar, time")
    yield Text(
        "Forgetting shows here before it shows in reward. Duplicates are actions that the agent "
        "had already taken in the episode; wasted ones also led to the same observation. In "
        "brackets: the difference from `none` on the same tasks. Times are per call of the method "
        "on the machine of the run; CPU time excludes a peer's own process."
    )
    for backbone, environments in _by_backbone(found):
        for environment in environments:
            yield Heading(f"{environment}, {backbone}", 3)
            rows = []
            for method in _plain(found):
                cell = found.cell(environment, backbone, method)
                if cell is None:
                    continue
                late = cell.latency()
                rows.append(
                    [
                        Entry(method, "head" if method.startswith("agora") else ""),
                        Entry(_with_more(cell.steps, cell.steps_more)),
                        Entry(_with_more(cell.duplicates, cell.duplicates_more)),
                        Entry(f"{cell.wasted.estimate.value:.2f}"),
                        Entry(f"{100 * cell.valid:.1f} %"),
                        Entry(f"{100 * cell.changed:.0f} %"),
                        Entry(_milliseconds(late)),
                        Entry(_tokens_asked(cell)),
                        Entry(f"{cell.episodes_a_minute:.0f}" if cell.episodes_a_minute else ""),
                    ]
                )
            head = ("method", "steps", "duplicates", "wasted", "valid actions", "calls edited")
            yield Table(
                (*head, "ms per call: p50 / p99 / CPU", "own LLM tokens per task", "episodes/min"),
                rows,
            )


def _with_more(one: Resampled, more: Resampled | None) -> str:
    if more is None:
        return f"{one.estimate.value:.2f}"
    return (
        f"{one.estimate.value:.2f} ({more.estimate.value:+.2f})\n"
        f"[{more.estimate.low:+.2f}, {more.estimate.high:+.2f}]"
    )


def _milliseconds(late: Mapping[str, float | None]) -> str:
    if not late["calls"]:
        return "not recorded"
    return f"{late['p50_ms']:.2f} / {late['p99_ms']:.1f} / {late['cpu_ms']:.2f}"


def _tokens_asked(cell: CellResult) -> str:
    asked = sum(row.method_input_tokens + row.method_output_tokens for row in cell.rows)
    return f"{asked / len(cell.rows):,.0f}"


def _table_3(found: Results) -> Iterator[Block]:
    there = set(found.methods)
    tables = []
    for base, endings in ABLATED:
        variants = [base + ending for ending in endings if base + ending in there]
        if base == "agora_paper":
            variants += [name for name in ("floor", "random_step", "truncate") if name in there]
        if base in there and any(name.startswith("agora") for name in variants):
            tables.append((base, variants))
    if not tables:
        return
    yield Heading("Ablations (the paper's table 3)")
    yield Text(
        "Mean reward, and the difference from the full method on the same tasks with its interval; "
        "then the paper's mean over its nine cells and its difference from AGORA."
    )
    for base, variants in tables:
        for backbone, environments in _by_backbone(found):
            rows = []
            for method in (base, *variants):
                against = [_against(found, e, backbone, method, base) for e in environments]
                name = Entry(method, "head" if method == base else "")
                rows.append([name, *against, Entry(_paper_ablation(method, base), "paper")])
            yield Heading(f"{base}, {backbone}", 3)
            yield Table(["method", *environments, "paper, mean of nine"], rows)


def _against(found: Results, environment: str, backbone: str, method: str, base: str) -> Entry:
    cell = found.cell(environment, backbone, method)
    whole = found.cell(environment, backbone, base)
    if cell is None:
        return Entry("")
    text = _short(cell.reward.estimate.value)
    if whole is None or method == base:
        return Entry(f"{text}\n{_interval(cell.reward.estimate)} n={cell.reward.estimate.n}")
    ours, theirs = paired(
        {row.task: row.reward for row in cell.rows}, {row.task: row.reward for row in whole.rows}
    )
    if not ours:
        return Entry(text)
    difference = mean([a - b for a, b in zip(ours, theirs, strict=True)]).estimate
    p = wilcoxon(ours, theirs)
    kind = "bad" if p < ALPHA and difference.value < 0 else ""
    said = f"{difference.value:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}] p={p:.2g}"
    return Entry(f"{text} n={difference.n}\n{said}", kind)


def _paper_ablation(method: str, base: str) -> str:
    means = paper.numbers()["table_3"]["means"]
    for theirs, ours in paper.OURS.items():
        if base == "agora_paper" and method in ours and theirs in means:
            return f"{_short(means[theirs])} ({means[theirs] - means['agora']:+.3f})"
    return ""


def _token_level(found: Results) -> Iterator[Block]:
    own = [cell for cell in found.cells if cell.method.startswith(TOKEN_LEVEL)]
    reasons = {k: v for k, v in found.skipped().items() if k.split("|")[2].startswith(TOKEN_LEVEL)}
    if not own and not reasons:
        return
    yield Heading("Methods that cut inside steps (the paper's appendix C)")
    rows = [
        [
            Entry(cell.environment),
            Entry(cell.backbone),
            Entry(cell.method),
            Entry(_told(cell.compression, 2)),
            Entry(_told(cell.reward, 3)),
            Entry(f"{100 * cell.valid:.1f} %"),
        ]
        for cell in own
    ]
    rows += [
        [
            Entry(row["environment"], "paper"),
            Entry(row["backbone"], "paper"),
            Entry(row["variant"], "paper"),
            Entry(f"{row['compression']:.1f}", "paper"),
            Entry(f"{row['reward']:.3f}", "paper"),
            Entry(""),
        ]
        for row in paper.numbers()["appendix_c"]["rows"]
    ]
    yield Table(
        ("environment", "backbone", "method", "compression", "reward", "valid actions"), rows
    )


def _overlap_blocks(found: Results) -> Iterator[Block]:
    overlaps = found.overlaps()
    wanted = ("random_step", "observation_mask", "observation_mask_matched", FLOOR)

    def shown(one: Overlap) -> bool:
        pair = (one.one, one.other)
        named = [name for name in pair if name in wanted]
        ours = [name for name in pair if name in ("agora", "agora_paper", "agora_every_call")]
        return len(named) + len(ours) == 2 and bool(named)

    rows = [
        [
            Entry(one.environment),
            Entry(one.backbone),
            Entry(f"{one.one}, {one.other}"),
            Entry(f"{one.calls:,}"),
            Entry(f"{one.jaccard:.3f}"),
        ]
        for one in overlaps
        if shown(one)
    ]
    if not rows:
        return
    yield Heading("Overlap of kept steps (the paper's appendix F)")
    yield Text(
        "Jaccard index of the sets of past steps that two methods kept whole, mean over calls of "
        "the same task and step from the fourth call on. Episodes diverge once their actions do. "
        "All pairs are in report.json."
    )
    theirs = paper.numbers()["appendix_f"]["mean"]
    pairs = (
        ("AGORA, Rand-Step", "agora_random"),
        ("AGORA, ObsMask", "agora_mask"),
        ("Rand-Step, ObsMask", "random_mask"),
    )
    for label, field in pairs:
        texts = ("mean of nine cells", "", label, f"{theirs['calls']:,}", f"{theirs[field]:.3f}")
        rows.append([Entry(text, "paper") for text in texts])
    yield Table(("environment", "backbone", "methods", "calls", "Jaccard"), rows)


def _sensitivity(found: Results) -> Iterator[Block]:
    swept = [cell for cell in found.cells if cell.planned.varies]
    if not swept:
        return
    yield Heading("Sensitivity")
    yield Text("One setting changed, the others fixed; intervals by task.")
    measures: tuple[tuple[str, str, Callable[[CellResult], Resampled | None]], ...] = (
        ("reward", "mean reward", lambda cell: cell.reward),
        ("compression", "effective compression", lambda cell: cell.compression),
        ("steps", "steps", lambda cell: cell.steps),
    )
    for backbone, environments in _by_backbone(found):
        own = [cell for cell in swept if cell.backbone == backbone]
        for name, title, measure in measures:
            panels = _panels(own, environments, measure)
            if panels:
                yield Figure(
                    f"sensitivity-{name}-{_slug(backbone)}",
                    plots.curves(panels, y_title=title),
                    f"{title[0].upper()}{title[1:]} under each setting, {backbone}.",
                )


def _panels(
    cells: Sequence[CellResult],
    environments: Sequence[str],
    measure: Callable[[CellResult], Resampled | None],
) -> list[tuple[str, list[str], list[plots.Curve]]]:
    sweeps: dict[tuple[str, str], list[Any]] = {}
    for cell in cells:
        label = cell.method.rpartition(f" {cell.planned.varies}=")[0]
        values = sweeps.setdefault((label, cell.planned.varies), [])
        if cell.planned.value not in values:
            values.append(cell.planned.value)
    panels = []
    for (label, parameter), values in sweeps.items():
        values.sort(key=lambda one: (isinstance(one, str), one))
        own = []
        for kind, environment in zip(_KINDS, environments, strict=False):
            points: list[tuple[float, float, float] | None] = []
            for setting in values:
                name = f"{label} {parameter}={setting}"
                own_cells = (c for c in cells if (c.environment, c.method) == (environment, name))
                played = next(own_cells, None)
                one = measure(played) if played else None
                points.append(
                    (one.estimate.low, one.estimate.value, one.estimate.high) if one else None
                )
            own.append(plots.Curve(environment, kind, tuple(points)))
        panels.append((f"{label}: {parameter}", [str(one) for one in values], own))
    return panels


def _finding_blocks(found: Results) -> Iterator[Block]:
    rows = [
        [
            Entry(one.claim),
            Entry(one.paper, "paper"),
            Entry(one.ours),
            Entry(one.seen, {"yes": "good", "no": "bad"}.get(one.seen, "")),
        ]
        for one in findings(found)
    ]
    if rows:
        yield Heading("The paper's findings compared with ours")
        yield Table(("finding", "paper", "here", "replicated"), rows, words=True)


def _audit_blocks(found: Results) -> Iterator[Block]:
    yield Heading("Audit (the paper's appendix A)")
    yield Text(
        "Gates: no evaluation task was used for training labels; no two tasks in a chunk of five "
        "went exactly the same way. Reported but not gating: compression outside 0.5 to 2 times "
        "its target, loops of five or more, truncated answers, missing tasks."
    )
    rows = []
    for cell in found.cells:
        admitted = cell.audit.admitted
        rows.append(
            [
                Entry(f"{cell.environment}, {cell.backbone}, {cell.method}"),
                Entry("admitted", "good") if admitted else Entry("excluded", "bad"),
                *(
                    Entry(one.says, "bad" if one.passed is False else "soft")
                    for one in cell.audit.findings
                ),
            ]
        )
    head = ("cell", "", "tasks", "trajectories", "compression", "loops and truncation", "complete")
    yield Table(head, rows, words=True)
    if found.skipped():
        yield Heading("Skipped", 3)
        left_out = [[Entry(k), Entry(v)] for k, v in found.skipped().items()]
        yield Table(("cell", "reason"), left_out, words=True)
    failures = found.failures()
    if failures:
        yield Heading("Failed episodes", 3)
        shown = list(failures.items())[:50]
        yield Text(f"{len(failures)} in all; resuming the run retries them.")
        yield Table(("episode", "error"), [[Entry(k), Entry(v)] for k, v in shown], words=True)


def _origin_blocks(found: Results) -> Iterator[Block]:
    yield Heading("Provenance")
    rows = []
    for name, run in zip(_names(found), found.material.runs, strict=True):
        origins = run["origins"]
        codes = sorted({str(one["code"]) for one in origins})
        rows.append(
            [
                Entry(name, "head"),
                Entry(json.dumps(_brief(run["settings"]), sort_keys=True)[:1_500]),
                Entry(", ".join(sorted({str(one["commit"]) for one in origins}))),
                Entry(", ".join(codes), "bad" if len(codes) > 1 else ""),
                Entry(json.dumps(origins[-1]["packages"]) if origins else "not recorded"),
            ]
        )
    yield Table(("run", "settings", "commit", "code hash", "packages"), rows, words=True)


def _names(found: Results) -> list[str]:
    return [str(run["settings"]["grid"]["name"]) for run in found.material.runs]


def _brief(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without their task lists, which are in the rows."""
    grid = settings["grid"]
    return {
        **settings,
        "tasks": {e: {b: len(t) for b, t in by.items()} for e, by in settings["tasks"].items()},
        "training": {e: len(own) for e, own in settings["training"].items()},
        "grid": {
            **grid,
            "methods": [one["name"] for one in grid["methods"]],
            "backbones": [one["name"] for one in grid["backbones"]],
        },
    }


def _by_backbone(found: Results) -> list[tuple[str, list[str]]]:
    backbones: dict[str, list[str]] = {}
    for environment, backbone in found.places:
        backbones.setdefault(backbone, []).append(environment)
    return list(backbones.items())


def _plain(found: Results) -> list[str]:
    """Return the methods that are not part of a sweep."""
    swept = {cell.method for cell in found.cells if cell.planned.varies}
    return [name for name in found.methods if name not in swept]


def _bar(method: str, estimate: Estimate) -> plots.Bar:
    return plots.Bar(
        label=method,
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        kind=_kind(method),
    )


def _kind(method: str) -> str:
    if method.startswith("agora"):
        return "agora"
    if method in (FLOOR, FLOOR_MATCHED):
        return FLOOR
    return method if method == NONE else "peer"


def _short(number: float) -> str:
    return f"{number:.3f}".removeprefix("0") if 0 <= number < 1 else f"{number:.3f}"


def _interval(estimate: Estimate) -> str:
    return f"[{estimate.low:.2f}, {estimate.high:.2f}]"


def _told(one: Resampled | None, digits: int) -> str:
    if one is None:
        return ""
    return f"{one.estimate.value:.{digits}f}\n{_interval(one.estimate)}"


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name.lower())

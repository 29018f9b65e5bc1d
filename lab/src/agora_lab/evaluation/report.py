"""The report of a run: tables, plots, the audit, and provenance.

It is a function of the rows alone: made twice, from a copy, or from the rows of
an earlier report, it is the same bytes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agora.core.prices import PriceSheet, sheet_for
from agora_lab.evaluation import plots
from agora_lab.evaluation.blocks import Block, Entry, Figure, Heading, Table, Text
from agora_lab.evaluation.grid import PRICES
from agora_lab.evaluation.page import page
from agora_lab.evaluation.results import (
    ALPHA,
    FLOOR,
    FLOOR_MATCHED,
    NONE,
    CellResult,
    Results,
    results,
)
from agora_lab.evaluation.rows import gather, write
from agora_lab.evaluation.statistics import Estimate, Resampled
from agora_lab.evaluation.verdict import verdict

NO_CACHE = "no cache"


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
            files[f"{block.name}.svg"] = block.svg
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
        "cells": [cell.value() for cell in found.cells],
        "skipped": found.skipped(),
        "failures": found.failures(),
    }


def _blocks(found: Results, title: str) -> Iterator[Block]:
    yield Heading(title, 1)
    yield verdict(found, _chosen_sheet(found))
    yield from _reading(found)
    yield from _rewards(found)
    yield from _pareto(found)
    yield from _bills(found)
    yield from _behaviour(found)
    yield from _audit_blocks(found)
    yield from _origin_blocks(found)


def _reading(found: Results) -> Iterator[Block]:
    cells, rows = found.cells, found.material.rows
    yield Heading("How to read it")
    yield Text(
        f"{len(rows):,} episodes in {len(cells)} cells; {len(found.methods)} methods; "
        f"{sum(cell.audit.admitted for cell in cells)} cells admitted by the audit, "
        f"{len(found.skipped())} skipped with a reason. Intervals are 95 %, by bootstrap over "
        "tasks (10,000 resamples)."
    )
    if any(cell.reader for cell in cells):
        yield Text(
            "`reader` is a program that acts only on what the prompt says. It is a test "
            "instrument: it shows whether the needed facts were still there, and says nothing "
            "about how a language model would act."
        )


def _rewards(found: Results) -> Iterator[Block]:
    yield Heading("Reward and retention")
    yield Text(
        "Mean reward, percent of the reward of `none` retained on the same tasks, interval of "
        "the reward, and number of tasks; `no edit` where the method changed no call. Marks: "
        "different from `none` (n), from the floor (f) or from the floor grown to the same budget "
        f"(g) with p < {ALPHA} by paired Wilcoxon after Holm."
    )
    for backbone, environments in _by_backbone(found):
        yield Heading(backbone, 3)
        rows = []
        for method in found.methods:
            own = [found.cell(environment, backbone, method) for environment in environments]
            if any(own):
                rows.append([_named(method), *(_reward(cell) for cell in own)])
        yield Table(["method", *environments], rows)


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


def _pareto(found: Results) -> Iterator[Block]:
    chosen = _chosen_sheet(found)
    if not chosen:
        return
    for backbone, environments in _by_backbone(found):
        panels = []
        for environment in environments:
            points = []
            for method in found.methods:
                cell = found.cell(environment, backbone, method)
                if cell and cell.audit.admitted:
                    dollars, reward = cell.bills[chosen].dollars.estimate, cell.reward.estimate
                    cost, gain = _mark(dollars, 1_000), _mark(reward)
                    points.append(plots.Point(method, _kind(method), cost, gain))
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


def _bills(found: Results) -> Iterator[Block]:
    yield Heading("Compression and the bill")
    yield Text(
        "Effective compression is the mean over tasks of the input tokens of `none` divided by the "
        "method's own, so longer episodes count against it. Call by call: the tokens the same "
        "calls would have sent uncompressed, divided by those they sent. Bills are ratios to "
        "`none` on the same tasks, with the prefix cache simulated and output and the method's own "
        "calls included; below 1 is a saving. Each episode begins with an empty cache, few-shot "
        f"examples are not in the prompt; `{NO_CACHE}` bills every token in full. AGORA by price "
        "was played with the one sheet named in the grid (or the one for unknown models), and is "
        "billed by all. In brackets after a bill: dollars per 1,000 tasks."
    )
    sheets = list(found.material.sheets)
    for backbone, environments in _by_backbone(found):
        for environment in environments:
            yield Heading(f"{environment}, {backbone}", 3)
            rows = []
            for method in found.methods:
                cell = found.cell(environment, backbone, method)
                if cell is None:
                    continue
                row = [_named(method), Entry(_told(cell.compression, 2))]
                row += [Entry(_told(cell.by_call, 2)), *(_bill(cell, sheet) for sheet in sheets)]
                rows.append(row)
            yield Table(["method", "compression", "call by call", *sheets], rows)
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


def _compression_figure(found: Results) -> Iterator[Block]:
    for backbone, environments in _by_backbone(found):
        panels = []
        for environment in environments:
            own: list[plots.Bar] = []
            for method in found.methods:
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
                for method in found.methods:
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
            for method in found.methods:
                cell = found.cell(environment, backbone, method)
                if cell is None:
                    continue
                late = cell.latency()
                rows.append(
                    [
                        _named(method),
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


def _audit_blocks(found: Results) -> Iterator[Block]:
    yield Heading("Audit")
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


def _named(method: str) -> Entry:
    return Entry(method, "head" if method.startswith("agora") else "")


def _bar(method: str, estimate: Estimate) -> plots.Bar:
    return plots.Bar(method, _kind(method), _mark(estimate))


def _mark(estimate: Estimate, times: float = 1) -> plots.Mark:
    return plots.Mark(times * estimate.value, times * estimate.low, times * estimate.high)


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

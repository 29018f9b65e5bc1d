"""The report of a run: tables, the audit, and provenance, as Markdown and JSON.

It is a function of the rows alone: made twice, from a copy, or from the rows of
an earlier report, it is the same bytes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agora.core.prices import PriceSheet, sheet_for
from agora_lab.agents import scripted as readers
from agora_lab.envs.data import read_splits
from agora_lab.evaluate.grid import PRICES
from agora_lab.evaluate.markdown import bold, document, heading, table
from agora_lab.evaluate.results import (
    ALPHA,
    FLOOR,
    FLOOR_MATCHED,
    NONE,
    CellResult,
    Results,
    results,
)
from agora_lab.evaluate.rows import gather, write
from agora_lab.evaluate.statistics import Estimate, Resampled

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
    return {
        "report.md": document(_parts(found, title)),
        "report.json": json.dumps(value(found), indent=1, sort_keys=True) + "\n",
    }


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
        "cells": [cell.value() for cell in found.cells],
        "skipped": found.skipped(),
        "failures": found.failures(),
    }


def _parts(found: Results, title: str) -> Iterator[str]:
    yield heading(title, 1)
    yield from _reading(found)
    yield from _rewards(found)
    yield from _bills(found)
    yield from _behaviour(found)
    yield from _audits(found)
    yield from _origins(found)


def _reading(found: Results) -> Iterator[str]:
    cells, rows = found.cells, found.material.rows
    yield heading("How to read it")
    yield (
        f"{len(rows):,} episodes in {len(cells)} cells; {len(found.methods)} methods; "
        f"{sum(cell.audit.admitted for cell in cells)} cells admitted by the audit, "
        f"{len(found.skipped())} skipped with a reason. Intervals are 95 %, by bootstrap over "
        "tasks (10,000 resamples)."
    )
    if any(cell.reader for cell in cells):
        yield (
            "`reader` is a program that acts only on what the prompt says. It is a test "
            "instrument: it shows whether the needed facts were still there, and says nothing "
            "about how a language model would act."
        )
        for environment in dict.fromkeys(cell.environment for cell in cells if cell.reader):
            known = _kinds_played(environment)
            if known is not None:
                yield (
                    f"In {environment} the reader plays {known[0]} of the {known[1]} kinds of "
                    "task, those that it can do: its figures are of these only."
                )


def _kinds_played(environment: str) -> tuple[int, int] | None:
    """Return how many kinds of task a reader plays and how many there are; None if it plays all.

    >>> _kinds_played("scienceworld"), _kinds_played("desk")
    ((14, 30), None)
    """
    if environment not in readers.NAMES:
        return None
    kinds = {task.partition("/")[0] for own in read_splits(environment).values() for task in own}
    played = sum(readers.claims(environment, kind) for kind in kinds)
    return None if played == len(kinds) else (played, len(kinds))


def _rewards(found: Results) -> Iterator[str]:
    yield heading("Reward and retention")
    yield (
        "Mean reward, percent of the reward of `none` retained on the same tasks, interval of "
        "the reward, and number of tasks; `no edit` where the method changed no call. Marks: "
        "different from `none` (n), from the floor (f) or from the floor grown to the same budget "
        f"(g) with p < {ALPHA} by paired Wilcoxon after Holm."
    )
    for backbone, environments in _by_backbone(found):
        yield heading(backbone, 3)
        rows = []
        for method in found.methods:
            own = [found.cell(environment, backbone, method) for environment in environments]
            if any(own):
                rows.append([_named(method), *(_reward(cell) for cell in own)])
        yield table(["method", *environments], rows)


def _reward(cell: CellResult | None) -> str:
    if cell is None:
        return ""
    if not cell.audit.admitted:
        return "not admitted"
    reward = cell.reward.estimate
    marks = "".join(
        letter
        for letter, against in (("n", NONE), ("f", FLOOR), ("g", FLOOR_MATCHED))
        if (test := cell.test(against)) and test.p_holm < ALPHA
    )
    kept = f" ({100 * cell.retention.estimate.value:.0f})" if cell.retention else ""
    text = f"{_short(reward.value)}{kept}{f' {marks}' if marks else ''}\n{_interval(reward)}"
    idle = "" if cell.edited or cell.method == NONE else "\nno edit"
    return f"{text} n={reward.n}{idle}"


def _bills(found: Results) -> Iterator[str]:
    yield heading("Compression and the bill")
    yield (
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
            yield heading(f"{environment}, {backbone}", 3)
            rows = []
            for method in found.methods:
                cell = found.cell(environment, backbone, method)
                if cell is None:
                    continue
                row = [_named(method), _told(cell.compression, 2)]
                row += [_told(cell.by_call, 2), *(_bill(cell, sheet) for sheet in sheets)]
                rows.append(row)
            yield table(["method", "compression", "call by call", *sheets], rows)


def _bill(cell: CellResult, sheet: str) -> str:
    bill = cell.bills[sheet]
    dollars = f"({1_000 * bill.dollars.estimate.value:.3g})"
    if bill.ratio is None:
        return dollars
    ratio = bill.ratio.estimate
    return f"{ratio.value:.2f} {dollars}\n{_interval(ratio)}"


def _behaviour(found: Results) -> Iterator[str]:
    yield heading("Steps, repeated actions, grammar, time")
    yield (
        "Forgetting shows here before it shows in reward. Duplicates are actions that the agent "
        "had already taken in the episode; wasted ones also led to the same observation. In "
        "brackets: the difference from `none` on the same tasks. Times are per call of the method "
        "on the machine of the run; CPU time excludes a peer's own process."
    )
    for backbone, environments in _by_backbone(found):
        for environment in environments:
            yield heading(f"{environment}, {backbone}", 3)
            rows = []
            for method in found.methods:
                cell = found.cell(environment, backbone, method)
                if cell is None:
                    continue
                late = cell.latency()
                rows.append(
                    [
                        _named(method),
                        _with_more(cell.steps, cell.steps_more),
                        _with_more(cell.duplicates, cell.duplicates_more),
                        f"{cell.wasted.estimate.value:.2f}",
                        f"{100 * cell.valid:.1f} %",
                        f"{100 * cell.changed:.0f} %",
                        _milliseconds(late),
                        _tokens_asked(cell),
                        f"{cell.episodes_a_minute:.0f}" if cell.episodes_a_minute else "",
                    ]
                )
            head = ("method", "steps", "duplicates", "wasted", "valid actions", "calls edited")
            yield table(
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


def _audits(found: Results) -> Iterator[str]:
    yield heading("Audit")
    yield (
        "Gates: no evaluation task was used for training labels; no two tasks in a chunk of five "
        "went exactly the same way. Reported but not gating: compression outside 0.5 to 2 times "
        "its target, loops of five or more, truncated answers, missing tasks."
    )
    rows = []
    for cell in found.cells:
        admitted = cell.audit.admitted
        rows.append(
            [
                f"{cell.environment}, {cell.backbone}, {cell.method}",
                "admitted" if admitted else "excluded",
                *(one.says for one in cell.audit.findings),
            ]
        )
    head = ("cell", "", "tasks", "trajectories", "compression", "loops and truncation", "complete")
    yield table(head, rows)
    if found.skipped():
        yield heading("Skipped", 3)
        left_out = [[k, v] for k, v in found.skipped().items()]
        yield table(("cell", "reason"), left_out)
    failures = found.failures()
    if failures:
        yield heading("Failed episodes", 3)
        shown = list(failures.items())[:50]
        yield f"{len(failures)} in all; resuming the run retries them."
        yield table(("episode", "error"), [[k, v] for k, v in shown])


def _origins(found: Results) -> Iterator[str]:
    yield heading("Provenance")
    rows = []
    for name, run in zip(_names(found), found.material.runs, strict=True):
        origins = run["origins"]
        codes = sorted({str(one["code"]) for one in origins})
        rows.append(
            [
                name,
                json.dumps(_brief(run["settings"]), sort_keys=True)[:1_500],
                ", ".join(sorted({str(one["commit"]) for one in origins})),
                ", ".join(codes),
                json.dumps(origins[-1]["packages"]) if origins else "not recorded",
            ]
        )
    yield table(("run", "settings", "commit", "code hash", "packages"), rows)


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


def _named(method: str) -> str:
    return bold(method) if method.startswith("agora") else method


def _short(number: float) -> str:
    return f"{number:.3f}".removeprefix("0") if 0 <= number < 1 else f"{number:.3f}"


def _interval(estimate: Estimate) -> str:
    return f"[{estimate.low:.2f}, {estimate.high:.2f}]"


def _told(one: Resampled | None, digits: int) -> str:
    if one is None:
        return ""
    return f"{one.estimate.value:.{digits}f}\n{_interval(one.estimate)}"

"""The figures of each cell, computed from rows: the values a report is written from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from agora_lab.evaluate.audit import Audit, audit
from agora_lab.evaluate.rows import Material, Row
from agora_lab.evaluate.statistics import (
    Estimate,
    Resampled,
    holm,
    mean,
    paired,
    percentile,
    ratio_of_means,
    wilcoxon,
)

NONE, FLOOR, FLOOR_MATCHED = "none", "floor", "floor_matched"
ALPHA = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What a run's settings say about a cell."""

    tasks: tuple[str, ...] = ()
    training: tuple[str, ...] | None = None
    target: float | None = None
    method: str = ""
    """The method's own name; the cell's may differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """One paired comparison of rewards."""

    against: str
    difference: Estimate
    p: float
    p_holm: float = 1.0


@dataclass(slots=True, kw_only=True)
class CellResult:
    """One cell, all seeds together."""

    environment: str
    backbone: str
    method: str
    planned: Planned
    rows: tuple[Row, ...]
    audit: Audit
    reward: Resampled
    retention: Resampled | None
    """Mean reward / that of `none`, on the tasks of both."""
    compression: Resampled | None
    """Mean over tasks of input tokens of `none` / its own."""
    by_call: Resampled
    """Mean over tasks of the tokens the calls would have shown uncompressed / those they showed:
    the same steps on both sides, so an episode that ends early does not count as compression."""
    steps: Resampled
    steps_more: Resampled | None
    """Steps minus those of `none` on the same task."""
    duplicates: Resampled
    duplicates_more: Resampled | None
    wasted: Resampled
    bills: Mapping[str, "Bill"]
    tests: list[Test] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str, str]:
        """The key of the cell."""
        return self.environment, self.backbone, self.method

    @property
    def reader(self) -> bool:
        """Whether a reader played; readers and language models never share a table."""
        return self.backbone == "reader"

    @property
    def valid(self) -> float:
        """The share of actions that the environment understood."""
        return round(sum(r.valid for r in self.rows) / max(1, sum(r.steps for r in self.rows)), 6)

    @property
    def changed(self) -> float:
        """The share of calls at which the prompt was changed."""
        changed = sum(r.changed for r in self.rows)
        return round(changed / max(1, sum(r.steps for r in self.rows)), 6)

    @property
    def edited(self) -> bool:
        """Whether the prompt was changed at any call: the share of them is rounded."""
        return any(row.changed for row in self.rows)

    @property
    def episodes_a_minute(self) -> float | None:
        """Episodes per minute in one process, if times were recorded."""
        seconds = sum(row.seconds for row in self.rows)
        return round(60 * len(self.rows) / seconds, 1) if seconds else None

    def latency(self) -> Mapping[str, float | None]:
        """Return the time per call of the method, in milliseconds."""
        calls = [ms for row in self.rows for ms in row.method_ms]
        cpu = sum(row.method_cpu_s for row in self.rows)
        return {
            "calls": len(calls),
            "p50_ms": percentile(calls, 50),
            "p99_ms": percentile(calls, 99),
            "cpu_ms": round(1_000 * cpu / len(calls), 3) if calls else None,
        }

    def test(self, against: str) -> Test | None:
        """Return the comparison with a method, if there is one."""
        return next((test for test in self.tests if test.against == against), None)

    def value(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "environment": self.environment,
            "backbone": self.backbone,
            "method": self.method,
            "runs_as": self.planned.method,
            "episodes": len(self.rows),
            "admitted": self.audit.admitted,
            "audit": [asdict(one) for one in self.audit.findings],
            "reward": _value(self.reward),
            "retention": _value(self.retention),
            "compression": _value(self.compression),
            "compression_by_call": _value(self.by_call),
            "target": self.planned.target,
            "steps": _value(self.steps),
            "steps_more_than_none": _value(self.steps_more),
            "duplicate_actions": _value(self.duplicates),
            "duplicate_actions_more_than_none": _value(self.duplicates_more),
            "wasted_actions": _value(self.wasted),
            "valid_actions": self.valid,
            "changed_calls": self.changed,
            "finished": sum(row.ended == "done" for row in self.rows),
            "method_tokens": {
                "input": sum(row.method_input_tokens for row in self.rows),
                "output": sum(row.method_output_tokens for row in self.rows),
            },
            "latency": self.latency(),
            "episodes_a_minute": self.episodes_a_minute,
            "bills": {name: bill.value() for name, bill in self.bills.items()},
            "tests": [asdict(test) for test in self.tests],
        }


@dataclass(frozen=True, slots=True)
class Bill:
    """The cost of an episode by one sheet, and its ratio to `none` on the same tasks."""

    dollars: Resampled
    ratio: Resampled | None

    def value(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"dollars_a_task": _value(self.dollars), "ratio_to_none": _value(self.ratio)}


@dataclass
class Results:
    """All cells of a report."""

    material: Material
    cells: list[CellResult]

    @cached_property
    def methods(self) -> list[str]:
        """Their methods, in the order of the grids."""
        order: dict[str, None] = {}
        for run in self.material.runs:
            for name in _methods(run["settings"]):
                order.setdefault(name)
        for cell in self.cells:
            order.setdefault(cell.method)
        there = {cell.method for cell in self.cells}
        return [name for name in order if name in there]

    @cached_property
    def places(self) -> list[tuple[str, str]]:
        """The pairs of environment and backbone, readers first."""
        found = {(cell.environment, cell.backbone) for cell in self.cells}
        return sorted(found, key=lambda one: (one[1] != "reader", one[1], one[0]))

    def cell(self, environment: str, backbone: str, method: str) -> CellResult | None:
        """Return a cell, if it was played."""
        wanted = (environment, backbone, method)
        return next((cell for cell in self.cells if cell.key == wanted), None)

    def skipped(self) -> dict[str, str]:
        """Return the cells that could not be played, with the reason."""
        return {k: v for run in self.material.runs for k, v in run["skipped"].items()}

    def failures(self) -> dict[str, str]:
        """Return the episodes that failed and are still missing, with the reason."""
        there = {row.key for row in self.material.rows}
        found = {k: v for run in self.material.runs for k, v in run["failures"].items()}
        return {key: why for key, why in sorted(found.items()) if key not in there}


def results(material: Material) -> Results:
    """Return the results for the rows, with tests corrected for their number in the report."""
    plans = _plans(material)
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in material.rows:
        groups.setdefault((row.environment, row.backbone, row.method), []).append(row)
    cells = [
        _cell(key, rows, groups.get((key[0], key[1], NONE)), plans.get(key, Planned()), material)
        for key, rows in groups.items()
    ]
    _tests(cells)
    found = Results(material, cells)
    place = {one: at for at, one in enumerate(found.places)}
    order = {name: at for at, name in enumerate(found.methods)}
    cells.sort(key=lambda cell: (place[cell.environment, cell.backbone], order[cell.method]))
    return found


def _cell(
    key: tuple[str, str, str],
    rows: Sequence[Row],
    reference: Sequence[Row] | None,
    planned: Planned,
    material: Material,
) -> CellResult:
    def against(value: Callable[[Row], float]) -> tuple[list[float], list[float]]:
        return paired(_by_task(rows, value), _by_task(reference or (), value))

    def more(value: Callable[[Row], float]) -> Resampled | None:
        ours, theirs = against(value)
        return mean([a - b for a, b in zip(ours, theirs, strict=True)]) if ours else None

    def alone(value: Callable[[Row], float]) -> Resampled:
        return mean([one for _, one in sorted(_by_task(rows, value).items())])

    ours, theirs = against(lambda row: row.reward)
    sent, whole = against(lambda row: float(row.sent))
    ratios = [b / a for a, b in zip(sent, whole, strict=True) if a]
    compression = mean(ratios) if ratios else None
    bills = {}
    for name in material.sheets:
        dollars = _Dollars(name)
        mine, its = against(dollars)
        bills[name] = Bill(alone(dollars), ratio_of_means(mine, its) if mine else None)
    return CellResult(
        environment=key[0],
        backbone=key[1],
        method=key[2],
        planned=planned,
        rows=tuple(rows),
        audit=audit(
            rows,
            planned=planned.tasks,
            training=planned.training,
            compression=compression.estimate.value if compression else None,
            target=planned.target,
        ),
        reward=alone(lambda row: row.reward),
        retention=ratio_of_means(ours, theirs) if ours else None,
        compression=compression,
        by_call=alone(lambda row: row.tokens_whole / max(1, row.tokens_sent)),
        steps=alone(lambda row: row.steps),
        steps_more=more(lambda row: row.steps),
        duplicates=alone(lambda row: row.duplicates),
        duplicates_more=more(lambda row: row.duplicates),
        wasted=alone(lambda row: row.wasted),
        bills=bills,
    )


@dataclass(frozen=True, slots=True)
class _Dollars:
    sheet: str

    def __call__(self, row: Row) -> float:
        return row.bills[self.sheet]


def _tests(cells: Sequence[CellResult]) -> None:
    """Compare every cell with `none` and the floors, corrected over all comparisons."""
    by_key = {cell.key: cell for cell in cells}
    found: list[tuple[CellResult, Test]] = []
    for cell in cells:
        for against in (NONE, FLOOR, FLOOR_MATCHED):
            other = by_key.get((cell.environment, cell.backbone, against))
            if other is None or cell.method in (NONE, against):
                continue
            ours, theirs = paired(_by_task(cell.rows, _reward), _by_task(other.rows, _reward))
            if ours:
                difference = mean([a - b for a, b in zip(ours, theirs, strict=True)]).estimate
                p = wilcoxon(ours, theirs)
                found.append((cell, Test(against=against, difference=difference, p=p)))
    corrected = holm([test.p for _, test in found])
    for (cell, test), p in zip(found, corrected, strict=True):
        cell.tests.append(
            Test(against=test.against, difference=test.difference, p=test.p, p_holm=p)
        )


def _reward(row: Row) -> float:
    return row.reward


def _by_task(rows: Sequence[Row], value: Callable[[Row], float]) -> dict[str, float]:
    """Return the mean over seeds for each task."""
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(row.task, []).append(float(value(row)))
    return {task: sum(values) / len(values) for task, values in found.items()}


def _methods(settings: Mapping[str, Any]) -> list[str]:
    return [str(method["name"]) for method in settings["grid"]["methods"]]


def _plans(material: Material) -> dict[tuple[str, str, str], Planned]:
    """Return what the runs' settings say about their cells."""
    found: dict[tuple[str, str, str], Planned] = {}
    for run in material.runs:
        settings = run["settings"]
        for environment, by_backbone in settings["tasks"].items():
            for backbone, tasks in by_backbone.items():
                for method in settings["grid"]["methods"]:
                    found[(environment, backbone, method["name"])] = Planned(
                        tasks=tuple(tasks),
                        training=tuple(settings["training"].get(environment, ())),
                        target=method.get("target"),
                        method=method["method"] if method["method"] != method["name"] else "",
                    )
    return found


def _value(one: Resampled | None) -> dict[str, Any] | None:
    return None if one is None else asdict(one.estimate)

"""The figures of each cell for tables and plots, computed from rows."""

import itertools
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from agora_lab.evaluate.audit import Audit, audit
from agora_lab.evaluate.rows import Material, Row
from agora_lab.evaluate.statistics import (
    Estimate,
    holm,
    mean,
    paired,
    ratio_of_means,
    wilcoxon,
)

NONE, AGORA = "none", "agora_paper"
SHEET = "gpt-4o-mini"
"""The price sheet of agents that no provider bills, such as scripted ones."""

Key = tuple[str, str, str]
"""Environment, backbone and method."""


@dataclass(slots=True, kw_only=True)
class CellFigures:
    """The figures of one cell."""

    environment: str
    backbone: str
    method: str
    target: float | None
    rows: tuple[Row, ...]
    audit: Audit
    reward: Estimate
    retention: Estimate | None
    """Mean reward divided by that of `none`, on the tasks of both."""
    ratio: Estimate | None
    """Effective ratio: the mean over tasks of prompt tokens of `none` / its own."""
    by_call: Estimate
    """The same over the prompts of its own calls, so that a short episode saves nothing."""
    steps: Estimate
    steps_ratio: Estimate | None
    method_tokens: float
    """Tokens a task of the method's own calls."""
    method_ms: float
    """Milliseconds of the method a call, on the machine of the run."""
    dollars_paper: float
    """Dollars a task at the paper's rates, without a cache."""
    dollars: Estimate
    """Dollars a task at today's prices, with the prefix cache."""
    dollars_ratio: Estimate | None
    differences: dict[str, "Difference"] = field(default_factory=dict)
    """By the method it is compared with."""

    @property
    def key(self) -> Key:
        """The key of the cell."""
        return self.environment, self.backbone, self.method

    @property
    def base(self) -> str:
        """The method without its options."""
        return base_name(self.method)

    def to_json(self) -> dict[str, Any]:
        """Return the figures without the rows."""
        values = {name: getattr(self, name) for name in self.__slots__ if name != "rows"}
        values["audit"] = [asdict(finding) for finding in self.audit.findings]
        return {
            name: asdict(value) if isinstance(value, Estimate) else value
            for name, value in values.items()
        } | {"differences": {name: asdict(one) for name, one in self.differences.items()}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A paired comparison of rewards with those of another method."""

    value: float
    p: float
    p_holm: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Everything a report shows."""

    material: Material
    cells: Mapping[Key, CellFigures]
    methods: tuple[str, ...]
    """In the order of the runs' settings."""
    columns: tuple[tuple[str, str], ...]
    """Environment and backbone of each group of cells."""

    def cell(self, environment: str, backbone: str, method: str) -> CellFigures | None:
        """Return an admitted cell that was played."""
        found = self.cells.get((environment, backbone, method))
        return found if found and found.audit.admitted else None

    def why_missing(self, environment: str, backbone: str, method: str) -> str:
        """Return why a cell has no figures: the first words of the reason."""
        found = self.cells.get((environment, backbone, method))
        if found:
            return "not admitted"
        for run in self.material.runs:
            for key, reason in run["skipped"].items():
                if key.startswith(f"{environment}|{backbone}|{method}|"):
                    return str(reason).partition(":")[0]
        return "not played"

    @property
    def coverage(self) -> tuple[str, ...]:
        """Sentences about the backbones, the tasks they can play, and the scorers."""
        sentences: dict[str, None] = {}
        for run in self.material.runs:
            for environment, by_backbone in run["settings"]["coverage"].items():
                for backbone, share in by_backbone.items():
                    sentences[backbone_kind(backbone)] = None
                    if share:
                        sentences[f"In {environment} `{backbone}` plays {share}."] = None
            experiment = run["settings"]["experiment"]
            if experiment["scorer"]:
                scorer = experiment["scorer"]
                sentences[f"Unless a method names its own, AGORA's scorer is `{scorer}`."] = None
            for method in experiment["methods"]:
                name = method.partition("scorer=")[2].partition(",")[0]
                if name and "/" not in name:
                    sentences[f"`{method}` has the scorer `{name}`, not the paper's."] = None
        return tuple(sentences)


def base_name(method: str) -> str:
    """Return the name of a method without its options."""
    return method.partition(",")[0]


def backbone_kind(name: str) -> str:
    """Return a sentence about the kind of agent."""
    if name == "scripted":
        return (
            "`scripted` agents are programs that act on what the prompt says; they show whether "
            "the facts are still there, and nothing about a language model."
        )
    kind = "a local llama.cpp server" if name.startswith("llama:") else "an endpoint"
    return f"`{name}` is a language model behind {kind}."


@cache
def paper() -> dict[str, Any]:
    """Return the paper's own numbers."""
    text = resources.files(__package__).joinpath("paper.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def compute(material: Material) -> Figures:
    """Return the figures of all cells."""
    by_cell: dict[Key, list[Row]] = {}
    for row in material.rows:
        by_cell.setdefault((row.environment, row.backbone, row.method), []).append(row)
    settings = [run["settings"] for run in material.runs]
    methods = tuple(
        dict.fromkeys(name for one in settings for name in one["experiment"]["methods"])
    )
    columns = dict.fromkeys(
        (environment, backbone)
        for one in settings
        for environment, by_backbone in one["tasks"].items()
        for backbone in by_backbone
    )
    cells = {
        key: _cell(key, rows, by_cell.get((*key[:2], NONE), []), settings)
        for key, rows in by_cell.items()
    }
    for reference in (NONE, AGORA):
        _compare(cells, reference)
    return Figures(material=material, cells=cells, methods=methods, columns=tuple(columns))


def price_sheet(backbone: str, sheets: Sequence[str]) -> str:
    """Return the price sheet that a backbone is billed by."""
    model = backbone.partition(":")[2]
    return next((name for name in sheets if name == model), SHEET if SHEET in sheets else sheets[0])


def jaccard(figures: Figures, environment: str, backbone: str) -> dict[tuple[str, str], Estimate]:
    """Return the overlap of kept steps for each pair of methods, resampled by task."""
    kept: dict[str, dict[tuple[str, int], frozenset[int]]] = {}
    for key, calls in figures.material.prompts.items():
        env, own, method, _, task = key.split("|", 4)
        if (env, own) == (environment, backbone):
            kept.setdefault(method, {}).update(
                {(task, call["call"]): frozenset(call["kept"]) for call in calls}
            )
    overlaps: dict[tuple[str, str], Estimate] = {}
    for first, second in itertools.combinations(kept, 2):
        tasks: dict[str, list[float]] = {}
        for place in kept[first].keys() & kept[second].keys():
            a, b = kept[first][place], kept[second][place]
            tasks.setdefault(place[0], []).append(len(a & b) / len(a | b) if a | b else 1.0)
        if tasks:
            values = [sum(one) / len(one) for _, one in sorted(tasks.items())]
            overlaps[first, second] = mean(values).estimate
    return overlaps


def grammar(figures: Figures, key: Key) -> dict[str, float]:
    """Return the counts of `prompts.grammar` for a method, summed over all prompts."""
    totals: dict[str, float] = {}
    for name, calls in figures.material.prompts.items():
        if tuple(name.split("|")[:3]) == key:
            for call in calls:
                for field_name, value in call.items():
                    if field_name not in ("call", "kept"):
                        totals[field_name] = totals.get(field_name, 0) + value
    return totals


def _cell(
    key: Key, rows: Sequence[Row], whole: Sequence[Row], settings: Sequence[Mapping[str, Any]]
) -> CellFigures:
    environment, backbone, method = key
    mine = [one for one in settings if backbone in one["tasks"].get(environment, ())]
    target = next((one["targets"][method] for one in mine if method in one["targets"]), None)
    ratio = _over(whole, rows, lambda row: row.tokens_sent)
    sheet = price_sheet(backbone, list(rows[0].dollars))
    rates = paper()["rates_yuan"]
    rate = rates.get(backbone.partition(":")[2], rates[SHEET])
    return CellFigures(
        environment=environment,
        backbone=backbone,
        method=method,
        target=target,
        rows=tuple(rows),
        audit=audit(
            rows,
            planned=[task for one in mine for task in one["tasks"][environment][backbone]],
            training=[t for one in mine for t in one["training"][environment]] if mine else None,
            compression=ratio.value if ratio else None,
            target=target,
        ),
        reward=mean([row.reward for row in rows]).estimate,
        retention=_share(rows, whole, lambda row: row.reward),
        ratio=ratio,
        by_call=mean([row.tokens_whole / max(1, row.tokens_shown) for row in rows]).estimate,
        steps=mean([row.steps for row in rows]).estimate,
        steps_ratio=_share(rows, whole, lambda row: row.steps),
        method_tokens=_average([r.method_input_tokens + r.method_output_tokens for r in rows]),
        method_ms=1_000
        * sum(row.method_s for row in rows)
        / max(1, sum(row.steps for row in rows)),
        dollars_paper=_average([_paper_dollars(row, rate) for row in rows]),
        dollars=mean([row.dollars[sheet] for row in rows]).estimate,
        dollars_ratio=_share(rows, whole, lambda row: row.dollars[sheet]),
    )


def _paper_dollars(row: Row, rate: Sequence[float]) -> float:
    """Return dollars by the formula of appendix B: all tokens at the list price."""
    entering = (row.tokens_sent + row.method_input_tokens) * rate[0]
    leaving = (row.output_tokens + row.method_output_tokens) * rate[1]
    return float((entering + leaving) / 1e6 / paper()["yuan_per_dollar"])


def _by_task(rows: Sequence[Row], value: Callable[[Row], float]) -> dict[str, float]:
    return {row.task: float(value(row)) for row in rows}


def _share(
    rows: Sequence[Row], whole: Sequence[Row], value: Callable[[Row], float]
) -> Estimate | None:
    ours, theirs = paired(_by_task(rows, value), _by_task(whole, value))
    found = ratio_of_means(ours, theirs) if ours else None
    return found.estimate if found else None


def _over(
    whole: Sequence[Row], rows: Sequence[Row], value: Callable[[Row], float]
) -> Estimate | None:
    theirs, ours = paired(_by_task(whole, value), _by_task(rows, value))
    if not ours:
        return None
    return mean([a / max(1.0, b) for a, b in zip(theirs, ours, strict=True)]).estimate


def _average(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _compare(cells: Mapping[Key, CellFigures], reference: str) -> None:
    """Test every cell against a method, and correct for the number of tests in the grid."""
    pairs: list[tuple[CellFigures, Difference]] = []
    references = {key[:2]: cell for key, cell in cells.items() if cell.base == reference}
    for cell in cells.values():
        other = references.get((cell.environment, cell.backbone))
        if other is None or other is cell or not (cell.audit.admitted and other.audit.admitted):
            continue
        ours, theirs = paired(
            _by_task(cell.rows, lambda row: row.reward),
            _by_task(other.rows, lambda row: row.reward),
        )
        if ours:
            value = _average(ours) - _average(theirs)
            pairs.append((cell, Difference(value=value, p=wilcoxon(ours, theirs))))
    corrected = holm([difference.p for _, difference in pairs])
    for (cell, difference), p_holm in zip(pairs, corrected, strict=True):
        cell.differences[reference] = Difference(
            value=difference.value, p=difference.p, p_holm=p_holm
        )

"""The plots of a report as inline SVG: retention against cost, and the effective ratio."""

import math
from collections.abc import Sequence
from html import escape

from agora_lab.evaluate.figures import AGORA, NONE, CellFigures, Figures, base_name, paper
from agora_lab.evaluate.method_choice import MethodChoice
from agora_lab.evaluate.tables import PAPER_NAMES, TOKEN_LEVEL

_WIDTH, _HEIGHT = 360, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 12, 12, 34


def retention_against_cost(figures: Figures, environment: str, backbone: str) -> str:
    """Return a scatter plot of one environment: up and to the left is better."""
    cells = [
        cell
        for method in figures.methods
        if (cell := figures.cell(environment, backbone, method)) and cell.retention
    ]
    if not cells:
        return ""
    most_cost = max(cell.dollars.value for cell in cells) * 1.08 or 1.0
    most_kept = max(1.0, *(cell.retention.value for cell in cells if cell.retention)) * 1.08

    def place(cell: CellFigures) -> tuple[float, float]:
        kept = cell.retention.value if cell.retention else 0.0
        x = _LEFT + cell.dollars.value / most_cost * (_WIDTH - _LEFT - _RIGHT)
        return x, _HEIGHT - _BOTTOM - kept / most_kept * (_HEIGHT - _TOP - _BOTTOM)

    marks = []
    for percent in (0, 25, 50, 75, 100):
        y = _HEIGHT - _BOTTOM - percent / 100 / most_kept * (_HEIGHT - _TOP - _BOTTOM)
        marks.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        marks.append(f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{percent}</text>')
    for step in range(4):
        value = most_cost * step / 3
        x = _LEFT + step / 3 * (_WIDTH - _LEFT - _RIGHT)
        anchor = "end" if step == 3 else "middle"
        marks.append(
            f'<text x="{x:.1f}" y="{_HEIGHT - 18}" text-anchor="{anchor}">{value:.3g}</text>'
        )
    marks.append(
        f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 4}" text-anchor="end">dollars a task</text>'
    )
    marks.append(f'<text x="{_LEFT}" y="9">retention, %</text>')
    taken: list[tuple[float, float]] = []
    for cell in cells:
        x, y = place(cell)
        near, (left, top) = 0, (x, y)
        while any(math.hypot(left - a, top - b) < 15 for a, b in taken) and near < 40:
            near += 1
            angle = near * 2.4
            left, top = (
                x + 3.2 * math.sqrt(near) * 3 * math.cos(angle),
                y + 9.6 * math.sqrt(near) * math.sin(angle),
            )
        left = min(max(left, _LEFT + 7), _WIDTH - _RIGHT - 7)
        top = min(max(top, _TOP + 7), _HEIGHT - _BOTTOM - 7)
        taken.append((left, top))
        number = figures.methods.index(cell.method) + 1
        kept = 100 * cell.retention.value if cell.retention else 0
        label = escape(f"{cell.method}: {kept:.0f} % kept, ${cell.dollars.value:.5f} a task")
        marks.append(
            f'<line class="lead" x1="{x:.1f}" y1="{y:.1f}" x2="{left:.1f}" y2="{top:.1f}"/>'
            f'<g class="{group(cell.method)}"><title>{label}</title>'
            f'<circle cx="{left:.1f}" cy="{top:.1f}" r="7.5"/>'
            f'<text class="dot" x="{left:.1f}" y="{top + 3.5:.1f}" text-anchor="middle">'
            f"{number}</text></g>"
        )
    return _svg(_WIDTH, _HEIGHT, marks, f"Retention against cost, {environment}")


def effective_ratio(figures: Figures) -> str:
    """Return the effective ratio of each method on a log scale, with the paper's range."""
    rows = []
    for method in figures.methods:
        cells = [c for column in figures.columns if (c := figures.cell(*column, method))]
        ratios = [c.ratio.value for c in cells if c.ratio]
        if ratios and method != NONE:
            rows.append((method, ratios, _printed_ratios(method)))
    if not rows:
        return ""
    values = [v for _, ours, theirs in rows for v in (*ours, *theirs)]
    low, high = min(0.8, *values), max(4.5, *values) * 1.05
    left, line = 138, 19
    height = 26 + line * len(rows) + 26

    def x(value: float) -> float:
        return left + (math.log(value / low) / math.log(high / low)) * (_WIDTH - left - _RIGHT)

    marks: list[str] = []
    for tick in (1, 2, 4, 8, 16):
        if low <= tick <= high:
            marks += [
                _line("grid", x(tick), 16, x(tick), height - 20),
                _text(x(tick), height - 6, f"{tick}x", "middle"),
            ]
    for at, (method, ours, theirs) in enumerate(rows):
        y = 28 + line * at
        marks.append(
            f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{escape(_short(method))}</text>'
        )
        if theirs:
            marks.append(
                f'<line class="paper" x1="{x(min(theirs)):.1f}" x2="{x(max(theirs)) + 0.1:.1f}" '
                f'y1="{y}" y2="{y}"><title>the paper: {min(theirs)} to {max(theirs)}</title></line>'
            )
        marks.append(f'<g class="{group(method)}">')
        marks += [
            f'<circle cx="{x(value):.1f}" cy="{y}" r="4.5">'
            f"<title>{escape(method)}: {value:.2f}x</title></circle>"
            for value in ours
        ]
        marks.append("</g>")
    return _svg(_WIDTH, height, marks, "Effective ratio of each method")


def group(method: str) -> str:
    """Return the class of a method: ours, asking a model, token level, or inference-free."""
    base = base_name(method)
    if base in (AGORA, "agora"):
        return "ours"
    if base in TOKEN_LEVEL:
        return "token"
    return "asks" if MethodChoice(base).asks else "free"


def _printed_ratios(method: str) -> Sequence[float]:
    printed = paper()["table2"].get(PAPER_NAMES.get(base_name(method), ""), {})
    return [value for values in printed.get("ratio", {}).values() for value in values]


def _short(method: str) -> str:
    return method if len(method) <= 20 else f"{method[:18]}.."


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(width: int, height: int, marks: Sequence[str], title: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img"><title>{escape(title)}</title>'
        f"{''.join(marks)}</svg>"
    )

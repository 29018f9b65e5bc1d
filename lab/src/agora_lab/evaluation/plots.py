"""The pictures of a report, by matplotlib: the same figures give the same bytes."""

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

_COLOURS = {"none": "#1b1f27", "agora": "#1a5fb4", "floor": "#a86400", "peer": "#7d8590"}
_STYLE: Any = {
    "svg.hashsalt": "agora",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dfe3e8",
    "axes.axisbelow": True,
}
_COLUMNS = 3


@dataclass(frozen=True, slots=True)
class Mark:
    """A value with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Point:
    """A method's quality and cost; its kind says its colour."""

    label: str
    kind: str
    x: Mark
    y: Mark


@dataclass(frozen=True, slots=True)
class Bar:
    """A method's value, on a line of its own."""

    label: str
    kind: str
    value: Mark


def scatter(panels: Sequence[tuple[str, Sequence[Point]]], *, x_title: str, y_title: str) -> str:
    """Return quality upwards against cost to the right, a panel for each world.

    A dashed line joins the Pareto front: no other point is both cheaper and better.
    """
    most = max((len(points) for _, points in panels), default=0)
    figure, axes = _panels(len(panels), 3.2 + 0.06 * most, sharey=True)
    for (title, points), own in zip(panels, axes, strict=False):
        own.set(title=title, xlabel=x_title, ylabel=y_title)
        _scale(own)
        best = list(front(points))
        own.plot([p.x.value for p in best], [p.y.value for p in best], "--", color="#9db8dc")
        for number, point in enumerate(sorted(points, key=lambda p: (-p.y.value, p.label)), 1):
            label = f"{number} {point.label}"
            _cross(own, point.x, point.y, point.kind, label)
            own.annotate(
                str(number),
                (point.x.value, point.y.value),
                xytext=(4, 3),
                textcoords="offset points",
                color=_COLOURS[point.kind],
            )
        own.legend(loc="upper left", bbox_to_anchor=(0, -0.22), frameon=False, fontsize=8)
    return _written(figure)


def bars(panels: Sequence[tuple[str, Sequence[Bar]]], *, x_title: str) -> str:
    """Return values with their intervals on lines, names at the left, a dashed line at 1."""
    kinds = {bar.label: bar.kind for _, own in panels for bar in own}
    labels = list(kinds)
    figure, axes = _panels(len(panels), 1.2 + 0.22 * len(labels), sharex=True, sharey=True)
    for (title, bars_of), own in zip(panels, axes, strict=False):
        own.set(title=title, xlabel=x_title)
        _scale(own)
        own.axvline(1, linestyle="--", color="#565e6c", linewidth=1)
        for bar in bars_of:
            at = labels.index(bar.label)
            _cross(own, bar.value, Mark(at, at, at), bar.kind)
        own.set_yticks(range(len(labels)), labels)
        own.set_ylim(len(labels) - 0.5, -0.5)
    return _written(figure)


def _panels(count: int, height: float, **shared: Any) -> tuple[Figure, list[Any]]:
    with mpl.rc_context(_STYLE):
        across = min(_COLUMNS, max(1, count))
        down = -(-max(1, count) // across)
        figure = Figure(figsize=(3.6 * across, height * down), layout="constrained")
        axes = list(figure.subplots(down, across, squeeze=False, **shared).flat)
        for empty in axes[count:]:
            empty.set_visible(False)
        return figure, axes


def _scale(axes: Any) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:g}")


def _cross(axes: Any, x: Mark, y: Mark, kind: str, label: str = "") -> None:
    axes.errorbar(
        x.value,
        y.value,
        xerr=[[max(0.0, x.value - x.low)], [max(0.0, x.high - x.value)]],
        yerr=[[max(0.0, y.value - y.low)], [max(0.0, y.high - y.value)]],
        fmt="o",
        markersize=4,
        linewidth=1.2,
        color=_COLOURS[kind],
        label=label or None,
    )


def front(points: Sequence[Point]) -> Iterator[Point]:
    """Yield the points that no other beats in both, the cheapest first."""
    best = float("-inf")
    for point in sorted(points, key=lambda p: (p.x.value, -p.y.value)):
        if point.y.value > best:
            best = point.y.value
            yield point


def _written(figure: Figure) -> str:
    file = io.StringIO()
    with mpl.rc_context(_STYLE):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    # Nothing refers to the names of groups, and several pictures stand on one page.
    text = re.sub(r' id="[A-Za-z0-9]+_\d+"', "", text)
    return " ".join(text[text.index("<svg") :].split()) + "\n"

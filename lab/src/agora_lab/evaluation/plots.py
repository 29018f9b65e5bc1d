"""Plots as SVG text: no library, no script, colours by class for light and dark pages.

A plot is one panel. A page lays panels out as wide as the screen allows; a file
holds them all. Nobody knows the reader's font, so room for labels is reckoned
with the widest common one.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

_COLOURS = {
    ".ink": ("fill", "#1b1f27", "#e8ebf0"),
    ".soft, text.peer": ("fill", "#565e6c", "#a4adbb"),
    ".axis": ("stroke", "#dfe3e8", "#313843"),
    ".mark": ("stroke", "#565e6c", "#a4adbb"),
    ".none": ("fill stroke", "#1b1f27", "#e8ebf0"),
    ".agora": ("fill stroke", "#1a5fb4", "#7db4f5"),
    ".floor, .third": ("fill stroke", "#a86400", "#f0a63a"),
    ".second": ("fill stroke", "#17693a", "#7fd69c"),
    "circle.peer, line.peer, polyline.peer": ("fill stroke", "#7d8590", "#9aa3af"),
}
_SHAPES = """
.plot text { font: 11px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
.plot text[class] { stroke: none; }
.plot .strong { font-size: 12px; font-weight: 600; }
.plot .mark { stroke-dasharray: 4 3; }
.plot polyline[class] { fill: none; stroke-width: 1.8; }
.plot .lead[class] { stroke-width: 0.7; opacity: 0.55; }
.plot .front { stroke-dasharray: 5 4; opacity: 0.7; }
"""
_SIZE, _STRONG = 11, 13.5
"""The height of a label, and of a title: bold letters are wider."""
_WIDTHS = {"ijl.,:;'|! ": 0.32, "frt-()[]/": 0.42, "_": 0.5, "mwMW=%": 0.98}
_APART = 13.0
"""From one label to the next below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A named point with intervals in both directions."""

    label: str
    x: float
    y: float
    kind: str
    x_low: float
    x_high: float
    y_low: float
    y_high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A value with its interval, on its own line."""

    label: str
    value: float
    low: float
    high: float
    kind: str


@dataclass(frozen=True, slots=True)
class Curve:
    """Values under several settings: low, value and high, or None."""

    label: str
    kind: str
    values: tuple[tuple[float, float, float] | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One panel: what is drawn, its size, and what is read aloud in its place."""

    title: str
    width: float
    height: float
    parts: tuple[str, ...]

    def svg(self, place: str = "") -> str:
        """Return it as an SVG element; `place` says where it stands in another."""
        inside = "\n".join(self.parts)
        return (
            f'<svg class="plot" xmlns="http://www.w3.org/2000/svg"{place} '
            f'viewBox="0 0 {self.width:.0f} {self.height:.0f}" width="{self.width:.0f}" '
            f'height="{self.height:.0f}" role="img" aria-label="{escape(self.title)}">'
            f"\n{inside}\n</svg>"
        )


def page_colours() -> str:
    """Return the style of plots on a page whose colour scheme can be switched."""
    rules = (
        _rule(names, kinds, f"light-dark({light}, {dark})")
        for names, (kinds, light, dark) in _COLOURS.items()
    )
    # Shapes last: a line has no inside, whatever its colour.
    return "".join(rules) + _SHAPES


def together(plots: Sequence[Plot], *, columns: int = 2) -> str:
    """Return a self-contained file of all panels, with their colours."""
    width = max(plot.width for plot in plots)
    height = max(plot.height for plot in plots)
    light = "".join(_rule(names, kinds, one) for names, (kinds, one, _) in _COLOURS.items())
    dark = "".join(_rule(names, kinds, one) for names, (kinds, _, one) in _COLOURS.items())
    media = f"@media (prefers-color-scheme: dark) {{\n{dark}}}\n"
    parts = [f"<style>{light}{media}{_SHAPES}</style>"]
    for at, plot in enumerate(plots):
        x, y = at % columns * (width + 16), at // columns * (height + 14)
        parts.append(plot.svg(f' x="{x:.0f}" y="{y:.0f}"'))
    across, down = min(columns, len(plots)), -(-len(plots) // columns)
    whole = Plot(
        title="; ".join(plot.title for plot in plots),
        width=across * (width + 16) - 16,
        height=down * (height + 14) - 14,
        parts=tuple(parts),
    )
    return whole.svg() + "\n"


def width_of(text: str, size: float = _SIZE) -> float:
    """Return the room that a text needs, at most."""
    widths = {letter: width for letters, width in _WIDTHS.items() for letter in letters}
    return size * sum(widths.get(one, 0.76 if one.isupper() else 0.64) for one in text)


def scatter(
    panels: Sequence[tuple[str, Sequence[Point]]], *, x_title: str, y_title: str
) -> list[Plot]:
    """Return one plot per panel: quality upwards, cost to the right, names at the right edge.

    A dashed line joins the Pareto front: no other point is both cheaper and better.
    """
    everywhere = [point for _, points in panels for point in points]
    names = max((width_of(point.label) for point in everywhere), default=0.0)
    most = max((len(points) for _, points in panels), default=0)
    # Long names take room from the plot: all of it is to be legible on a phone.
    left, top, across = 32.0, 44.0, 172.0 if names < 160 else 140.0
    bottom = top + max(210.0, _APART * most)
    right = left + across
    plots = []
    for title, points in panels:
        x_of = _log_scale([v for p in points for v in (p.x, p.x_low, p.x_high)], left, right)
        # One scale of quality for all, so that panels can be compared.
        y_of = _scale([v for p in everywhere for v in (p.y, p.y_low, p.y_high)], bottom, top)
        parts = [
            _text(2, 14, title, "ink strong"),
            _text(2, 32, y_title, "soft"),
            *_frame(x_of, y_of),
            _text(left, bottom + 34, x_title, "soft"),
            *_front(points, x_of, y_of),
            *_points(points, x_of, y_of),
        ]
        width = max(right + 16 + names, left + width_of(x_title), width_of(title, _STRONG)) + 4
        said = f"{title}: {y_title} against {x_title}"
        plots.append(Plot(title=said, width=width, height=bottom + 42, parts=tuple(parts)))
    return plots


def bars(panels: Sequence[tuple[str, Sequence[Bar]]], *, x_title: str) -> list[Plot]:
    """Return values with intervals on lines, names at the left, a dashed line at 1."""
    kinds = {bar.label: bar.kind for _, own in panels for bar in own}
    labels = list(kinds)
    ends = [v for _, own in panels for bar in own for v in (bar.low, bar.high, 1.0)]
    line, top = 18.0, 34.0
    left = max((width_of(label) for label in labels), default=0.0) + 14
    right, bottom = left + (160 if left < 170 else 140), top + line * len(labels)
    # One scale for all, so that panels can be compared.
    x_of = _log_scale(ends, left, right)
    titles = [width_of(title, _STRONG) for title, _ in panels]
    width = max(right + 10, width_of(x_title), *titles) + 4
    plots = []
    for title, own in panels:
        parts = [_text(2, 14, title, "ink strong")]
        parts += [
            _text(left - 10, top + line * n + 13, label, kinds[label], "end")
            for n, label in enumerate(labels)
        ]
        for tick in x_of.ticks:
            parts.append(_line(x_of(tick), top - 8, x_of(tick), bottom, "axis"))
            parts.append(_text(x_of(tick), bottom + 15, _number(tick), "soft", "middle"))
        if own:
            parts.append(_line(x_of(1.0), top - 8, x_of(1.0), bottom, "mark"))
        for bar in own:
            y = top + line * labels.index(bar.label) + 9
            parts.append(_line(x_of(bar.low), y, x_of(bar.high), y, bar.kind))
            parts.append(_dot(x_of(bar.value), y, bar.kind))
        parts.append(_text(width - 4, bottom + 34, x_title, "soft", "end"))
        said = f"{title}: {x_title}"
        plots.append(Plot(title=said, width=width, height=bottom + 42, parts=tuple(parts)))
    return plots


def curves(
    panels: Sequence[tuple[str, Sequence[str], Sequence[Curve]]], *, y_title: str
) -> list[Plot]:
    """Return values against equally spaced settings, one plot per panel."""
    return [_curves(*panel, y_title) for panel in panels]


def _curves(title: str, settings: Sequence[str], own: Sequence[Curve], y_title: str) -> Plot:
    widest = max((width_of(setting) for setting in settings), default=0.0) + 6
    # Where they would touch, every other setting stands one line lower.
    step = max(294 / max(1, len(settings)), widest / 2)
    crowded = widest > step
    left, height = max(36.0, (widest - step) / 2), 190.0
    right = left + step * len(settings)
    width = max(right + max(10.0, (widest - step) / 2), width_of(title, _STRONG) + 4)
    x, top = 2.0, 48.0
    parts = [_text(2, 14, title, "ink strong"), _text(2, 32, y_title, "soft")]
    for curve in own:
        if x > 2 and x + width_of(curve.label) > width:
            x, top = 2.0, top + 15
        parts.append(_text(x, top, curve.label, curve.kind))
        x += width_of(curve.label) + 14
    top, bottom = top + 16, top + height - 20
    ends = [v for curve in own for three in curve.values if three for v in three]
    y_of = _scale(ends, bottom, top)
    xs = [left + step * (n + 0.5) for n in range(len(settings))]
    for tick in y_of.ticks:
        parts.append(_line(left, y_of(tick), right, y_of(tick), "axis"))
        parts.append(_text(left - 5, y_of(tick) + 4, _number(tick), "soft", "end"))
    for n, setting in enumerate(settings):
        lower = _APART * (n % 2) if crowded else 0
        parts.append(_text(xs[n], bottom + 16 + lower, setting, "soft", "middle"))
    for curve in own:
        there = [(x, three) for x, three in zip(xs, curve.values, strict=True) if three]
        joined = " ".join(f"{x:.1f},{y_of(three[1]):.1f}" for x, three in there)
        parts.append(f'<polyline class="{curve.kind}" points="{joined}"/>')
        for x, (low, value, high) in there:
            parts.append(_line(x, y_of(low), x, y_of(high), curve.kind))
            parts.append(_dot(x, y_of(value), curve.kind))
    bottom += 22 + (_APART if crowded else 0)
    return Plot(title=f"{title}: {y_title}", width=width, height=bottom, parts=tuple(parts))


@dataclass(frozen=True, slots=True)
class _Axis:
    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]
    log: bool

    def __call__(self, value: float) -> float:
        low, high = (math.log(v) if self.log else v for v in (self.low, self.high))
        value = min(max(value, self.low), self.high)
        share = ((math.log(value) if self.log else value) - low) / (high - low)
        return self.start + share * (self.end - self.start)


def _scale(values: Iterable[float], start: float, end: float) -> _Axis:
    there = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
    low, high = min(there), max(there)
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    step = _step((high - low) / 4)
    low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    count = round((high - low) / step)
    return _Axis(low, high, start, end, tuple(low + step * n for n in range(count + 1)), False)


def _log_scale(values: Iterable[float], start: float, end: float) -> _Axis:
    there = [v for v in values if math.isfinite(v) and v > 0] or [0.5, 2.0]
    low, high = min(there) / 1.08, max(there) * 1.08
    if high / low < 1.5:
        low, high = low / 1.3, high * 1.3
    ticks: list[float] = []
    for steps in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), (1, 1.2, 1.4, 1.6, 2, 2.5, 3, 4, 6, 8)):
        every = (step * 10.0**power for power in range(-7, 8) for step in steps)
        ticks = [tick for tick in every if low <= tick <= high]
        # Fewer than three do not show how the scale grows.
        if len(ticks) > 2:
            break
    return _Axis(low, high, start, end, tuple(ticks), True)


def _step(rough: float) -> float:
    unit = 10.0 ** math.floor(math.log10(rough))
    return next(m * unit for m in (1, 2, 2.5, 5, 10) if m * unit >= rough * 0.999)


def _frame(x_of: _Axis, y_of: _Axis) -> list[str]:
    parts = []
    for tick in x_of.ticks:
        parts.append(_line(x_of(tick), y_of.end, x_of(tick), y_of.start, "axis"))
        parts.append(_text(x_of(tick), y_of.start + 15, _number(tick), "soft", "middle"))
    for tick in y_of.ticks:
        parts.append(_line(x_of.start, y_of(tick), x_of.end, y_of(tick), "axis"))
        parts.append(_text(x_of.start - 5, y_of(tick) + 4, _number(tick), "soft", "end"))
    return parts


def _front(points: Sequence[Point], x_of: _Axis, y_of: _Axis) -> list[str]:
    best = -math.inf
    ends = []
    for point in sorted(points, key=lambda p: (p.x, -p.y)):
        if point.y > best:
            best = point.y
            ends.append(f"{x_of(point.x):.1f},{y_of(point.y):.1f}")
    return [f'<polyline class="agora front" points="{" ".join(ends)}"/>'] if len(ends) > 1 else []


def _points(points: Sequence[Point], x_of: _Axis, y_of: _Axis) -> list[str]:
    parts = []
    order = sorted(points, key=lambda p: (-p.y, -p.x, p.label))
    places = spread([y_of(point.y) for point in order], y_of.end, y_of.start)
    edge = x_of.end + 16
    for point, place in zip(order, places, strict=True):
        x, y = x_of(point.x), y_of(point.y)
        parts.append(
            f'<polyline class="{point.kind} lead" points="{x:.1f},{y:.1f} '
            f'{edge - 8:.1f},{place:.1f} {edge - 3:.1f},{place:.1f}"/>'
        )
        parts.append(_line(x, y_of(point.y_low), x, y_of(point.y_high), point.kind))
        parts.append(_line(x_of(point.x_low), y, x_of(point.x_high), y, point.kind))
        parts.append(_dot(x, y, point.kind))
        parts.append(_text(edge, place + 4, point.label, point.kind))
    return parts


def spread(wanted: Sequence[float], top: float, bottom: float) -> list[float]:
    """Return places for labels, in order, a line apart and as near as can be to those wanted.

    >>> spread([10.0, 10.0, 60.0], 0.0, 100.0)
    [3.5, 16.5, 60.0]
    """
    # Neighbours that would touch move as one block to the middle of what they want.
    blocks: list[tuple[float, int]] = []
    for at, place in enumerate(wanted):
        middle, count = place - _APART * at, 1
        while blocks and blocks[-1][0] > middle:
            other, own = blocks.pop()
            middle, count = (middle * count + other * own) / (count + own), count + own
        blocks.append((middle, count))
    most = bottom - _APART * (len(wanted) - 1)
    shifted = [min(max(middle, top), most) for middle, count in blocks for _ in range(count)]
    return [place + _APART * at for at, place in enumerate(shifted)]


def _number(value: float) -> str:
    return f"{value:.2g}" if abs(value) < 10 else f"{value:.0f}"


def _line(x: float, y: float, to_x: float, to_y: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"/>'


def _dot(x: float, y: float, kind: str) -> str:
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
    )


def _rule(names: str, kinds: str, colour: str) -> str:
    where = ", ".join(f".plot {name}" for name in names.split(", "))
    return f"{where} {{ {' '.join(f'{kind}: {colour};' for kind in kinds.split())} }}\n"

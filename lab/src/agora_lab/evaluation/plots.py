"""Plots as SVG text: no library, no script, colours by class for light and dark pages."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

COLOURS = """
svg text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
.ink { fill: #1b1f27; } .soft { fill: #565e6c; } .strong { font-weight: 600; }
.axis { stroke: #dfe3e8; } .mark { stroke: #565e6c; stroke-dasharray: 4 3; }
.agora { fill: #1a5fb4; stroke: #1a5fb4; } .floor { fill: #a86400; stroke: #a86400; }
.none { fill: #1b1f27; stroke: #1b1f27; } .peer { fill: #7d8590; stroke: #7d8590; }
.paper { fill: none; stroke: #a3268a; } text.paper { fill: #a3268a; stroke: none; }
text.agora, text.floor, text.none, text.peer { stroke: none; }
.lead { stroke-width: 0.7; opacity: 0.5; fill: none; } .hollow { fill: none; stroke-width: 1.6; }
.front { fill: none; stroke-dasharray: 5 4; opacity: 0.7; }
.second { fill: #17693a; stroke: #17693a; } .third { fill: #a86400; stroke: #a86400; }
text.second, text.third { stroke: none; } polyline[class] { fill: none; stroke-width: 1.8; }
polyline.lead { stroke-width: 0.7; } circle.hollow { fill: none; }
@media (prefers-color-scheme: dark) {
.ink { fill: #e8ebf0; } .soft { fill: #a4adbb; } .axis { stroke: #313843; }
.mark { stroke: #a4adbb; }
.agora { fill: #7db4f5; stroke: #7db4f5; } .floor { fill: #f0a63a; stroke: #f0a63a; }
.none { fill: #e8ebf0; stroke: #e8ebf0; } .peer { fill: #9aa3af; stroke: #9aa3af; }
.paper { stroke: #f08bd8; } text.paper { fill: #f08bd8; }
.second { fill: #7fd69c; stroke: #7fd69c; } .third { fill: #f0a63a; stroke: #f0a63a; }
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A named point with intervals in both directions."""

    label: str
    x: float
    y: float
    kind: str
    x_low: float | None = None
    x_high: float | None = None
    y_low: float | None = None
    y_high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A value with its interval, on its own line."""

    label: str
    value: float
    low: float
    high: float
    kind: str
    hollow: bool = False


@dataclass(frozen=True, slots=True)
class Curve:
    """Values under several settings: low, value and high, or None."""

    label: str
    kind: str
    values: tuple[tuple[float, float, float] | None, ...]


def standalone(svg: str) -> str:
    """Return a self-contained plot, with its colours, for a separate file."""
    head, _, rest = svg.partition(">")
    return f"{head}><style>{COLOURS}</style>{rest}\n"


def scatter(panels: Sequence[tuple[str, Sequence[Point]]], *, x_title: str, y_title: str) -> str:
    """Return one plot per panel: quality upwards, cost to the right, names at the right edge.

    A dashed line joins the Pareto front: no other point is both cheaper and better.
    """
    width, height, left, right, top, bottom = 430, 340, 46, 150, 30, 42
    parts = []
    for place, (title, points) in enumerate(panels):
        x_of = _log_scale(
            [v for p in points for v in (p.x, p.x_low, p.x_high)], left, width - right
        )
        y_of = _scale([v for p in points for v in (p.y, p.y_low, p.y_high)], height - bottom, top)
        at = place * width
        parts.append(f'<g transform="translate({at} 0)">')
        parts.append(_text(left, 16, title, "ink strong"))
        parts += _frame(x_of, y_of, left, width - right, top, height - bottom)
        parts.append(_text((left + width - right) / 2, height - 6, x_title, "soft", "middle"))
        parts.append(
            f'<text class="soft" text-anchor="middle" transform="rotate(-90 12 {height / 2:.0f})" '
            f'x="12" y="{height / 2:.0f}">{escape(y_title)}</text>'
        )
        parts += _front(points, x_of, y_of)
        parts += _points(points, x_of, y_of, width - right + 12, top, height - bottom)
        parts.append("</g>")
    return _svg(width * len(panels), height, parts, f"{y_title} against {x_title}")


def bars(panels: Sequence[tuple[str, Sequence[Bar]]], *, x_title: str, log: bool = True) -> str:
    """Return values with intervals on lines, one column of them per panel, names at the left."""
    labels = list(dict.fromkeys(bar.label for _, own in panels for bar in own))
    ends = [v for _, own in panels for bar in own for v in (bar.low, bar.high, 1.0)]
    name, wide, line, top = 190, 200, 19, 34
    height = top + line * len(labels) + 40
    parts = [
        _text(name - 8, top + line * n + 13, label, _kind_of(panels, label), "end")
        for n, label in enumerate(labels)
    ]
    for place, (title, own) in enumerate(panels):
        left, right = name + place * wide + 8, name + (place + 1) * wide - 14
        # One scale for all, so that panels can be compared.
        x_of = (_log_scale if log else _scale)(ends, left, right)
        parts.append(_text(left, 16, title, "ink strong"))
        bottom = top + line * len(labels)
        for tick in x_of.ticks:
            at = x_of(tick)
            parts.append(_line(at, top - 8, at, bottom, "axis"))
            parts.append(_text(at, bottom + 15, _number(tick), "soft", "middle"))
        if own:
            parts.append(_line(x_of(1.0), top - 8, x_of(1.0), bottom, "mark"))
        for bar in own:
            y = top + line * labels.index(bar.label) + 9
            parts.append(_line(x_of(bar.low), y, x_of(bar.high), y, bar.kind))
            shape = f"{bar.kind} hollow" if bar.hollow else bar.kind
            parts.append(f'<circle class="{shape}" cx="{x_of(bar.value):.1f}" cy="{y}" r="4"/>')
    parts.append(_text(name + wide * len(panels) / 2, height - 6, x_title, "soft", "middle"))
    return _svg(name + wide * len(panels), height, parts, x_title)


def curves(
    panels: Sequence[tuple[str, Sequence[str], Sequence[Curve]]], *, y_title: str, columns: int = 3
) -> str:
    """Return values against equally spaced settings, one plot per panel."""
    width, height, left, right, top, bottom = 330, 230, 46, 14, 44, 40
    parts = []
    for place, (title, settings, own) in enumerate(panels):
        dx, dy = place % columns * width, place // columns * height
        parts.append(f'<g transform="translate({dx} {dy})">')
        ends = [v for curve in own for three in curve.values if three for v in three]
        y_of = _scale(ends, height - bottom, top)
        step = (width - left - right) / max(1, len(settings))
        xs = [left + step * (n + 0.5) for n in range(len(settings))]
        parts.append(_text(left, 16, title, "ink strong"))
        for tick in y_of.ticks:
            parts.append(_line(left, y_of(tick), width - right, y_of(tick), "axis"))
            parts.append(_text(left - 6, y_of(tick) + 4, _number(tick), "soft", "end"))
        for x, setting in zip(xs, settings, strict=True):
            parts.append(_text(x, height - bottom + 16, setting, "soft", "middle"))
        for n, curve in enumerate(own):
            parts.append(_text(left + 95 * n, 33, curve.label, curve.kind))
            there = [(x, three) for x, three in zip(xs, curve.values, strict=True) if three]
            joined = " ".join(f"{x:.1f},{y_of(three[1]):.1f}" for x, three in there)
            parts.append(f'<polyline class="{curve.kind}" points="{joined}"/>')
            for x, (low, value, high) in there:
                parts.append(_line(x, y_of(low), x, y_of(high), curve.kind))
                parts.append(
                    f'<circle class="{curve.kind}" cx="{x:.1f}" cy="{y_of(value):.1f}" r="3.5"/>'
                )
        parts.append("</g>")
    rows = -(-len(panels) // columns)
    return _svg(width * min(columns, len(panels)), height * rows, parts, y_title)


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


def _scale(values: Iterable[float | None], start: float, end: float) -> _Axis:
    there = [v for v in values if v is not None and math.isfinite(v)] or [0.0, 1.0]
    low, high = min(there), max(there)
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    step = _step((high - low) / 4)
    low, high = math.floor(low / step) * step, math.ceil(high / step) * step
    count = round((high - low) / step)
    return _Axis(low, high, start, end, tuple(low + step * n for n in range(count + 1)), False)


def _log_scale(values: Iterable[float | None], start: float, end: float) -> _Axis:
    there = [v for v in values if v is not None and math.isfinite(v) and v > 0] or [0.5, 2.0]
    low, high = min(there) / 1.08, max(there) * 1.08
    if high / low < 1.5:
        low, high = low / 1.3, high * 1.3
    steps = [m * 10.0**e for e in range(-7, 8) for m in (1, 2, 5)]
    ticks = [step for step in steps if low <= step <= high]
    if len(ticks) < 2:
        ticks = [low * (high / low) ** (n / 2) for n in range(3)]
    return _Axis(low, high, start, end, tuple(ticks), True)


def _step(rough: float) -> float:
    unit = 10.0 ** math.floor(math.log10(rough))
    return next(m * unit for m in (1, 2, 2.5, 5, 10) if m * unit >= rough * 0.999)


def _frame(
    x_of: _Axis, y_of: _Axis, left: float, right: float, top: float, bottom: float
) -> list[str]:
    parts = []
    for tick in x_of.ticks:
        parts.append(_line(x_of(tick), top, x_of(tick), bottom, "axis"))
        parts.append(_text(x_of(tick), bottom + 15, _number(tick), "soft", "middle"))
    for tick in y_of.ticks:
        parts.append(_line(left, y_of(tick), right, y_of(tick), "axis"))
        parts.append(_text(left - 5, y_of(tick) + 4, _number(tick), "soft", "end"))
    return parts


def _front(points: Sequence[Point], x_of: _Axis, y_of: _Axis) -> list[str]:
    best = -math.inf
    ends = []
    for point in sorted((p for p in points if p.kind != "paper"), key=lambda p: (p.x, -p.y)):
        if point.y > best:
            best = point.y
            ends.append(f"{x_of(point.x):.1f},{y_of(point.y):.1f}")
    return [f'<polyline class="agora front" points="{" ".join(ends)}"/>'] if len(ends) > 1 else []


def _points(
    points: Sequence[Point], x_of: _Axis, y_of: _Axis, edge: float, top: float, bottom: float
) -> list[str]:
    parts = []
    order = sorted(points, key=lambda p: (-p.y, p.label))
    gap = min(14.0, (bottom - top) / max(1, len(order)))
    wanted = [y_of(point.y) for point in order]
    places: list[float] = []
    for y in wanted:
        places.append(max(y, places[-1] + gap) if places else max(y, top))
    over = max(0.0, (places[-1] if places else 0) - bottom)
    for n in range(len(places) - 1, -1, -1):
        limit = places[n + 1] - gap if n + 1 < len(places) else bottom
        places[n] = min(places[n], limit) if over else places[n]
    for point, place in zip(order, places, strict=True):
        x, y = x_of(point.x), y_of(point.y)
        if point.y_low is not None and point.y_high is not None:
            parts.append(_line(x, y_of(point.y_low), x, y_of(point.y_high), point.kind))
        if point.x_low is not None and point.x_high is not None:
            parts.append(_line(x_of(point.x_low), y, x_of(point.x_high), y, point.kind))
        parts.append(
            f'<polyline class="{point.kind} lead" points="{x:.1f},{y:.1f} '
            f'{edge - 6:.1f},{place:.1f} {edge - 2:.1f},{place:.1f}"/>'
        )
        shape = "paper hollow" if point.kind == "paper" else point.kind
        parts.append(f'<circle class="{shape}" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>')
        parts.append(_text(edge, place + 4, point.label, point.kind))
    return parts


def _kind_of(panels: Sequence[tuple[str, Sequence[Bar]]], label: str) -> str:
    return next(bar.kind for _, own in panels for bar in own if bar.label == label)


def _number(value: float) -> str:
    return f"{value:.2g}" if abs(value) < 10 else f"{value:.0f}"


def _line(x: float, y: float, to_x: float, to_y: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"/>'


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
    )


def _svg(width: float, height: float, parts: Sequence[str], title: str) -> str:
    inside = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label="{escape(title)}">'
        f"\n{inside}\n</svg>"
    )

"""The pictures of a scorer report: ranking with its intervals, and the calibration curves."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from agora_lab.training.report import Report

_INK = "#1f2328"
_COLOURS = ("#8b949e", "#bf8700", "#1a7f5a", "#0969da", "#8250df", "#cf222e")


def draw(report: Report, path: Path) -> None:
    """Write both plots into one picture; the ending of the name says of what kind."""
    sources = list(dict.fromkeys(row.source for row in report.rows if row.metrics))
    scorers = list(dict.fromkeys(row.scorer for row in report.rows))
    colours = {name: _COLOURS[at % len(_COLOURS)] for at, name in enumerate(scorers)}
    # The same report gives the same bytes.
    with mpl.rc_context({"svg.hashsalt": "agora", "font.size": 9, "text.color": _INK}):
        figure = Figure(figsize=(10, 3.2 + 0.25 * len(sources)), layout="constrained")
        ranking, calibration = figure.subplots(1, 2, width_ratios=(3, 2))
        _draw_ranking(ranking, report, sources, colours)
        _draw_calibration(calibration, report, sources, colours)
        figure.savefig(path, dpi=160, metadata={"Date": None} if path.suffix == ".svg" else None)


def _draw_ranking(axes: Any, report: Report, sources: list[str], colours: dict[str, str]) -> None:
    width = 0.7 / max(len(colours), 1)
    for row in report.rows:
        if row.metrics is None:
            continue
        shift = (list(colours).index(row.scorer) + 0.5) * width - 0.35
        auc, at = row.metrics.auc, sources.index(row.source) + shift
        axes.plot([auc.low, auc.high], [at, at], color=colours[row.scorer], linewidth=2)
        axes.plot([auc.value], [at], "o", color=colours[row.scorer], markersize=5)
    axes.axvline(0.5, color="#d0d7de", linewidth=1, zorder=0)
    axes.set_yticks(range(len(sources)), sources)
    axes.set_ylim(len(sources) - 0.5, -0.5)
    axes.set_xlim(0, 1)
    axes.set_xlabel("AUC with its 95 % interval by task; 0.5 is a coin")
    axes.spines[["top", "right"]].set_visible(False)


def _draw_calibration(
    axes: Any, report: Report, sources: list[str], colours: dict[str, str]
) -> None:
    last = sources[-1] if sources else ""
    highest = 0.05
    for row in report.rows:
        if row.source != last or not row.curve:
            continue
        means, shares = [point[0] for point in row.curve], [point[1] for point in row.curve]
        highest = max(highest, *shares)
        axes.plot(
            means, shares, "o-", color=colours[row.scorer], label=row.scorer, markersize=3, lw=1.2
        )
    axes.plot([0, 1], [0, 1], color="#d0d7de", linewidth=1, zorder=0)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, min(1, 1.1 * highest))
    axes.set_xlabel(f"mean score of a bin ({last})")
    axes.set_ylabel("share of steps that were needed")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)

"""Writes a report on runs: a page, the figures as JSON, and the rows they are made of."""

import json
from collections.abc import Sequence
from pathlib import Path

from agora_lab.evaluate.figures import Figures, compute
from agora_lab.evaluate.page import page
from agora_lab.evaluate.rows import PRICES, gather, write
from agora_lab.evaluate.tables import Table, tables

PAGE, FIGURES = "report.html", "figures.json"


def make(
    folders: Sequence[Path], out: Path, *, prices: Sequence[str] = PRICES
) -> tuple[Figures, tuple[Table, ...]]:
    """Write the report on runs, or on the rows of earlier reports, into a folder.

    The same runs give the same bytes.

    Raises:
        RunError: A folder holds no run, or two runs disagree on an episode.
    """
    figures = compute(gather(folders, prices=prices))
    made = tables(figures)
    out.mkdir(parents=True, exist_ok=True)
    (out / PAGE).write_text(page(figures, made), encoding="utf-8")
    cells = [cell.to_json() for cell in figures.cells.values()]
    (out / FIGURES).write_text(json.dumps(cells, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    write(figures.material, out)
    return figures, made

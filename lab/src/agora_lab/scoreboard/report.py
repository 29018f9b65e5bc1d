"""Shows the rows: a table for a terminal, one HTML page, and the tables of the evidence page."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from agora import AgoraError
from agora.pages import write_page
from agora_lab.bootstrap import interval, task_counts
from agora_lab.jsonl import read_lines
from agora_lab.scoreboard.run import BASE, RUN, contenders
from agora_lab.scoreboard.sessions import DATA
from agora_lab.scoreboard.simulate import OTHERS, OWN, Row

PAGE = "scoreboard.html"
STORED = "rows.parquet"
OURS = ("agora_default", "default")
TITLES = {
    "claude-code": "Claude Code sessions",
    "coding": "SWE-bench runs (mini-swe-agent, gemini-3-pro)",
    "tools": "Tool-calling conversations (tau-bench airline, gpt-4o)",
}
_RESAMPLES = 4_000
_PUBLISHED = Path(__file__).parent / "published.toml"
_SAME = 0.001
_WORTH = 0.01
"""A smaller saving does not count."""
_SHOWN = (
    "saved",
    "found",
    "after an edit",
    "of the newest",
    "refused calls",
    "calls that broke the cache",
    "worst session",
    "CPU ms/call",
    "n",
)
"""The columns that a terminal has room for."""
_BEGIN, _END = "<!-- made by agora lab scoreboard: begin -->", "<!-- end -->"
Json = dict[str, Any]
Estimate = tuple[float, float, float]
"""A value and the bounds of its interval by session."""
_NONE: Estimate = (0.0, float("nan"), float("nan"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A contender at a setting on a data set: a line of the table and a point of the plot."""

    contender: str
    setting: str
    name: str
    version: str
    ours: bool
    saved: Estimate = _NONE
    """Share of the input bill."""
    found: Estimate = _NONE
    """Share of actions that find every name they need."""
    needs: int = 0
    untouched: float = 0.0
    """Share of sessions whose prompts were all sent as they were."""
    calls: int = 0
    ratios: tuple[float, ...] = ()
    """The bill of each session as a ratio to sending everything."""
    cells: Mapping[str, str]
    """The texts of the table's columns; empty if the contender failed on every session."""
    problem: str = ""

    @property
    def idle(self) -> bool:
        """True if the contender changed no prompt at all."""
        return bool(self.cells) and self.untouched == 1 and self.contender != BASE


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """The contenders on a data set, the largest saving first."""

    title: str
    lines: list[Line]
    accuracy: float | None
    """The simulated bill of sending everything, as a ratio to the real bill."""
    recordings: str = ""
    """How many recordings were left out by which rule."""

    @property
    def shown(self) -> list[Line]:
        """The contenders that changed something, and sending everything."""
        return [line for line in self.lines if not line.idle]

    @property
    def idle(self) -> str:
        """The names of the others."""
        return "; ".join(line.name for line in self.lines if line.idle)

    @property
    def ours(self) -> Line | None:
        """AGORA's default."""
        lines = (line for line in self.lines if (line.contender, line.setting) == OURS)
        return next(lines, None)


def publish(rows: Path, *, store: Path | None, page: Path | None, evidence: Path | None) -> None:
    """Print the table of a file of rows, and write the requested files.

    Raises:
        AgoraError: There are no rows.
    """
    from rich.console import Console

    stored = rows.suffix == ".parquet"
    source = complete(pq.read_table(rows).to_pylist() if stored else list(read_lines(rows)))
    if not source:
        raise AgoraError(f"there are no rows in {rows}")
    made = json.loads((rows.parent / RUN).read_text(encoding="utf-8"))
    boards = [
        board(part, made["sample"].get(data, {}).get("rules", {}))
        for data in DATA
        if (part := [row for row in source if row["data"] == data])
    ]
    console = Console()
    for one in boards:
        console.print(_table(one))
        if one.idle:
            console.print(f"Changed nothing: {one.idle}.", highlight=False)
    for sentence in verdicts(boards):
        console.print(f"- {sentence}", highlight=False)
    place = page or rows.parent / PAGE
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(write_page(__package__ or "", "page.html", _json(boards, made)))
    console.print(f"Page: {place}", highlight=False)
    if store:
        _store(source, made, store)
    if evidence:
        _write_evidence(evidence, boards)


def complete(rows: Sequence[Json]) -> list[Json]:
    """Return the rows of the sessions that every contender of their data set was played on."""
    played: dict[str, dict[tuple[str, str], set[str]]] = {}
    for row in rows:
        cells = played.setdefault(row["data"], {})
        cells.setdefault((row["contender"], row["setting"]), set()).add(row["session"])
    common = {data: set.intersection(*cells.values()) for data, cells in played.items()}
    return [row for row in rows if row["session"] in common[row["data"]]]


def board(rows: Sequence[Json], rules: Mapping[str, int]) -> Board:
    """Return the board of the rows of a data set."""
    cells: dict[tuple[str, str], dict[str, Json]] = {}
    for row in rows:
        cells.setdefault((row["contender"], row["setting"]), {})[row["session"]] = row
    base = cells.get((BASE, "default"), {})
    lines = [_line(cell, base, cells.get(OURS, base)) for cell in cells.values()]
    billed = sum(row["billed"] for row in base.values())
    dollars = sum(row["dollars"][OWN] for row in base.values())
    return Board(
        title=TITLES[rows[0]["data"]],
        lines=sorted(lines, key=lambda line: -line.saved[0]),
        accuracy=dollars / billed if billed else None,
        recordings="; ".join(f"{rule}: {count}" for rule, count in rules.items()),
    )


def _line(cell: Mapping[str, Json], base: Mapping[str, Json], default: Mapping[str, Json]) -> Line:
    first = next(iter(cell.values()))
    own = {one.name: one for one in contenders()}.get(first["contender"])
    problems = [row["problem"] for row in cell.values() if row["problem"]]
    common: Json = {
        "contender": first["contender"],
        "setting": first["setting"],
        "name": f"{own.title if own else first['contender']}, {first['setting']}",
        "version": first["version"],
        "ours": bool(own and own.ours),
        "problem": f"{len(problems)} sessions failed: {problems[0]}" if problems else "",
    }
    ids = [key for key in sorted(cell) if key in base and not cell[key]["problem"]]
    if not ids:
        return Line(**common, cells={})
    rows = [cell[key] for key in ids]
    spent, full, usual = (
        np.array([one[key]["dollars"][OWN] for key in ids]) for one in (cell, base, default)
    )
    needs, met, needs_after, met_after = np.array([row["names"] for row in rows]).T
    lines, lines_met, *_ = np.array([row["lines"] for row in rows]).T
    newest, newest_met, *_ = np.array([row["newest"] for row in rows]).T
    saved, found = _estimate(full - spent, full), _estimate(met, needs)
    ratios = [a / b if b else 1.0 for a, b in zip(spent, full, strict=True)]
    calls = sum(row["calls"] for row in rows)
    untouched = float(np.mean([not row["edited"] for row in rows]))
    others = {
        name: 1
        - sum(row["dollars"][name] for row in rows) / sum(base[key]["dollars"][name] for key in ids)
        for name in OTHERS
    }
    refused, stale, lost_text, broke, cpu_ms = (
        sum(row[key] for row in rows) / calls
        for key in ("refused", "stale", "lost_text", "broke", "cpu_ms")
    )
    codes = sorted({code for row in rows for code in row["rules"]})
    return Line(
        **common,
        saved=saved,
        found=found,
        needs=int(needs.sum()),
        untouched=untouched,
        calls=calls,
        ratios=tuple(round(float(ratio), 3) for ratio in ratios),
        cells={
            "saved": _with_bounds(saved, "{:.1f}% [{:.0f}, {:.0f}]"),
            "minus AGORA's default": _with_bounds(
                _estimate(usual - spent, full), "{:+.1f} [{:.0f}, {:.0f}]"
            ),
            "found": _with_bounds(found, "{:.1f}% [{:.0f}, {:.0f}]"),
            "after an edit": _percent(_share(met_after.sum(), needs_after.sum())),
            "of the newest": _percent(_share(newest_met.sum(), newest.sum())),
            "quoted lines": _percent(_share(lines_met.sum(), lines.sum())),
            **{f"at {name}": _percent(share) for name, share in others.items()},
            "refused calls": " ".join((_percent(refused), *codes)),
            "calls with stale thinking": _percent(stale),
            "calls without a user's text": _percent(lost_text),
            "calls that broke the cache": _percent(broke),
            "untouched": _percent(untouched),
            "worst session": f"{max(ratios):.2f}",
            "worst moment": f"{max(row['highest'] for row in rows):.2f}",
            "CPU ms/call": f"{cpu_ms:.1f}",
            "break-even, extra calls": f"{100 * (full.sum() / spent.sum() - 1):+.0f}%",
            "n": str(len(rows)),
        },
    )


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else 1.0


def _estimate(parts: Any, wholes: Any) -> Estimate:
    """Return a ratio of sums with its interval; whole sessions are drawn again."""
    value = _share(parts.sum(), wholes.sum())
    if len(parts) < 2:
        return (value, *_NONE[1:])
    drawn: list[float] = []
    for counts in task_counts(len(parts), _RESAMPLES, seed=57):
        sums = counts @ wholes
        drawn += (np.divide(counts @ parts, sums, where=sums > 0, out=np.ones(len(sums)))).tolist()
    return (value, *interval(drawn))


def _with_bounds(estimate: Estimate, text: str) -> str:
    return text.format(*(100 * share for share in estimate))


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def above(one: Board) -> list[Line]:
    """Return the lines that beat our default: no worse in bill and names, and better in one."""
    ours = one.ours
    return [
        line
        for line in one.lines
        if ours and line.cells and not line.ours
        if line.saved[0] >= ours.saved[0] - _SAME and line.found[0] >= ours.found[0] - _SAME
        if line.saved[0] + line.found[0] > ours.saved[0] + ours.found[0] + _SAME
    ]


def verdicts(boards: Sequence[Board]) -> list[str]:
    """Return in sentences, for each data set, who beats AGORA's default in which column."""
    sentences: list[str] = []
    for one in boards:
        ours, both = one.ours, above(one)
        if ours is None:
            continue
        others = [line for line in one.lines if line.cells and not line.ours and line not in both]
        cheaper = [line for line in others if line.saved[0] > ours.saved[0] + _SAME]
        kinder = [
            line
            for line in others
            if _WORTH < line.saved[0] <= ours.saved[0] + _SAME
            and line.found[0] > ours.found[0] + _SAME
        ]
        text = (
            f"{one.title}: AGORA's default saves {_percent(ours.saved[0])} of the input bill "
            f"and leaves {_percent(ours.found[0])} of {ours.needs} actions their old names "
            f"(n = {ours.cells['n']} sessions)."
        )
        for words, lines in (
            ("Beaten in both by", both),
            ("Cheaper with fewer names:", cheaper),
            ("More names at a smaller saving:", kinder),
        ):
            if lines:
                text += f" {words} {'; '.join(map(_figures, lines))}."
        if not cheaper + both:
            text += " No contender that is not ours saves more."
        sentences.append(text)
    return sentences


def _figures(line: Line) -> str:
    return f"{line.name} (saves {_percent(line.saved[0])}, {_percent(line.found[0])} found)"


def _table(one: Board) -> Any:
    from rich.table import Table

    ratio = one.accuracy
    simulated = f"; everything simulated at {ratio:.3f} of what was billed" if ratio else ""
    table = Table(title=f"{one.title}{simulated}", title_justify="left")
    table.add_column("contender", overflow="fold", min_width=24)
    for name in _SHOWN:
        table.add_column(name, justify="right", overflow="fold")
    for line in one.shown:
        cells = [line.cells[name] for name in _SHOWN] if line.cells else [line.problem[:60]]
        table.add_row(line.name, *cells, style="bold" if line.ours else None)
    return table


def _json(boards: Sequence[Board], made: Json) -> Json:
    return {
        "boards": [
            {
                "title": one.title,
                "accuracy": one.accuracy,
                "recordings": one.recordings,
                "lines": [asdict(line) for line in one.shown],
                "idle": one.idle,
            }
            for one in boards
        ],
        "verdicts": verdicts(boards),
        "absent": made["absent"],
        "published": tomllib.loads(_PUBLISHED.read_text(encoding="utf-8"))["tool"],
    }


def _store(rows: Sequence[Json], made: Json, folder: Path) -> None:
    """Store rows in a compressed table, and the run's omissions beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    rounded = [
        {
            **{field.name: row[field.name] for field in fields(Row)},
            "dollars": {key: round(value, 6) for key, value in row["dollars"].items()},
            "billed": round(row["billed"], 6),
            "highest": round(row["highest"], 4),
            "cpu_ms": round(row["cpu_ms"], 1),
        }
        for row in rows
    ]
    pq.write_table(pa.Table.from_pylist(rounded), folder / STORED, compression="zstd")
    sample = {data: {"rules": one["rules"]} for data, one in made["sample"].items()}
    text = json.dumps({"sample": sample, "absent": made["absent"]}, indent=1)
    (folder / RUN).write_text(text + "\n", encoding="utf-8")


def _write_evidence(path: Path, boards: Sequence[Board]) -> None:
    """Put the tables between the marks of the evidence page; its sentences stay."""
    parts = ["", *(f"- {sentence}" for sentence in verdicts(boards)), ""]
    for one in boards:
        parts += [f"### {one.title}", ""]
        if one.accuracy:
            parts += [f"Sending everything, simulated: {one.accuracy:.3f} of what was billed.", ""]
        columns = list(one.shown[0].cells)
        parts += ["| contender | " + " | ".join(columns) + " |", "|---|" + "---:|" * len(columns)]
        for line in one.shown:
            name = f"**{line.name}**" if line.ours else line.name
            version = f" ({line.version})" if line.version else ""
            parts.append(f"| {name}{version} | {' | '.join(line.cells.values())} |")
        if one.idle:
            parts += ["", f"Changed nothing here: {one.idle}."]
        parts += ["", f"Recordings: {one.recordings}.", ""]
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    path.write_text(f"{before}{_BEGIN}\n{chr(10).join(parts)}\n{_END}{after}", encoding="utf-8")

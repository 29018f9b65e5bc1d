"""What the rows say: a table for a terminal, one HTML page, and the tables of the evidence page."""

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from itertools import filterfalse
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
    "tools": "tool-calling conversations (tau-bench airline, gpt-4o)",
}
_RESAMPLES = 4_000
_PUBLISHED = Path(__file__).parent / "published.toml"
_SAME = 0.001
_WORTH = 0.01
"""A smaller saving is none to speak of."""
_BEGIN, _END = "<!-- made by agora lab scoreboard: begin -->", "<!-- end -->"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A contender at a setting on a data set: a line of the table and a point of the plot."""

    name: str
    title: str
    setting: str
    version: str
    ours: bool
    sessions: int
    calls: int
    saved: tuple[float, float, float]
    """Share of the input bill that is saved, with its interval by session."""
    lead: tuple[float, float, float]
    """The saving minus that of our default on the same sessions, with its interval."""
    saved_at: dict[str, float] = field(default_factory=dict)
    """The saving by other price sheets."""
    found: tuple[float, float, float]
    """Share of actions that find every name they need."""
    found_after: float
    newest: float
    """Share of actions that find the names they need of the newest results."""
    lines: float
    needs: int
    refused: float
    """Share of calls; so are the next two."""
    lost_text: float
    broke: float
    untouched: float
    """Share of sessions."""
    worst: float
    """The highest bill of a session, as a ratio to sending everything."""
    moment: float
    """The same at any moment of a session."""
    cpu_ms: float
    """Per call."""
    break_even: float
    """How many per cent more calls would use up the saving."""
    rules: tuple[str, ...] = ()
    ratios: tuple[float, ...] = ()
    """The bill of each session as a ratio to sending everything."""
    problem: str = ""


def publish(rows: Path, *, store: Path | None, page: Path | None, evidence: Path | None) -> None:
    """Print the table of a file of rows, and write what is asked for.

    Raises:
        AgoraError: There are no rows.
    """
    from rich.console import Console

    stored = rows.suffix == ".parquet"
    source = complete(pq.read_table(rows).to_pylist() if stored else list(read_lines(rows)))
    boards = {data: board(source, data) for data in DATA}
    boards = {data: lines for data, lines in boards.items() if lines}
    if not boards:
        raise AgoraError(f"there are no rows in {rows}")
    made = json.loads((rows.parent / RUN).read_text(encoding="utf-8"))
    console = Console()
    for data, lines in boards.items():
        console.print(_table(data, lines, accuracy(source, data)))
        if idle(lines):
            console.print(f"Changed nothing: {idle(lines)}.", highlight=False)
    for sentence in verdicts(boards):
        console.print(f"- {sentence}", highlight=False)
    place = page or rows.parent / PAGE
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(write_page(__package__ or "", "page.html", _json(source, boards, made)))
    console.print(f"Page: {place}", highlight=False)
    if store:
        _store(source, made, store)
    if evidence:
        _write_evidence(evidence, source, boards, made)


def complete(rows: Sequence[Json]) -> list[Json]:
    """Return the rows of the sessions that every contender of their data set was played on."""
    played: dict[str, dict[tuple[str, str], set[str]]] = {}
    for row in rows:
        cells = played.setdefault(row["data"], {})
        cells.setdefault((row["contender"], row["setting"]), set()).add(row["session"])
    common = {data: set.intersection(*cells.values()) for data, cells in played.items()}
    return [row for row in rows if row["session"] in common[row["data"]]]


def board(rows: Sequence[Json], data: str) -> list[Line]:
    """Return the lines of a data set, the largest saving first.

    A contender is compared with sending everything on the sessions that both were played on.
    """
    cells: dict[tuple[str, str], dict[str, Json]] = {}
    for row in rows:
        if row["data"] == data:
            cells.setdefault((row["contender"], row["setting"]), {})[row["session"]] = row
    base = cells.get((BASE, "default"), {})
    default = cells.get(OURS, base)
    titles = {one.name: (one.title, one.ours) for one in contenders()}
    lines: list[Line] = []
    for (name, _), cell in cells.items():
        title, ours = titles.get(name, (name, False))
        lines.append(_line(title, ours=ours, rows=cell, base=base, default=default))
    return sorted(lines, key=lambda line: -line.saved[0])


def _line(
    title: str,
    *,
    ours: bool,
    rows: Mapping[str, Json],
    base: Mapping[str, Json],
    default: Mapping[str, Json],
) -> Line:
    played = [
        rows[key]
        for key in sorted(rows)
        if key in base and key in default and not rows[key]["problem"]
    ]
    first = next(iter(rows.values()))
    problems = [row["problem"] for row in rows.values() if row["problem"]]
    calls = sum(row["calls"] for row in played) or 1
    whole = [base[row["session"]] for row in played]
    spent = np.array([row["dollars"][OWN] for row in played])
    full = np.array([row["dollars"][OWN] for row in whole])
    gained = np.array([default[row["session"]]["dollars"][OWN] for row in played]) - spent
    needs, met, after, after_met = (np.array([r["names"][at] for r in played]) for at in range(4))
    line_needs, line_met = (sum(row["lines"][at] for row in played) for at in range(2))
    new_needs, new_met = (sum(row["newest"][at] for row in played) for at in range(2))
    ratio = float(spent.sum() / full.sum()) if len(played) else 1.0
    ratios = [float(a / b) if b else 1.0 for a, b in zip(spent, full, strict=True)]
    return Line(
        name=first["contender"],
        title=title,
        setting=first["setting"],
        version=first["version"],
        ours=ours,
        sessions=len(played),
        calls=calls if played else 0,
        saved=(1 - ratio, *_bounds(full - spent, full)),
        lead=(_share(gained.sum(), full.sum()), *_bounds(gained, full)),
        saved_at={
            name: 1
            - sum(r["dollars"][name] for r in played)
            / (sum(r["dollars"][name] for r in whole) or 1)
            for name in OTHERS
        },
        found=(_share(met.sum(), needs.sum()), *_bounds(met, needs)),
        found_after=_share(after_met.sum(), after.sum()),
        newest=_share(new_met, new_needs),
        lines=_share(line_met, line_needs),
        needs=int(needs.sum()) if played else 0,
        refused=sum(row["refused"] for row in played) / calls,
        lost_text=sum(row["lost_text"] for row in played) / calls,
        broke=sum(row["broke"] for row in played) / calls,
        untouched=_share(sum(not row["edited"] for row in played), len(played)),
        worst=max(ratios, default=1.0),
        moment=max((row["highest"] for row in played), default=1.0),
        cpu_ms=sum(row["cpu_ms"] for row in played) / calls,
        break_even=100 * (1 / ratio - 1),
        rules=tuple(sorted({rule for row in played for rule in row["rules"]})),
        ratios=tuple(round(one, 3) for one in ratios),
        problem=f"{len(problems)} sessions failed: {problems[0]}" if problems else "",
    )


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else 1.0


def _bounds(parts: Any, wholes: Any) -> tuple[float, float]:
    """Return the interval of a ratio of sums; whole sessions are drawn again."""
    if len(parts) < 2:
        return float("nan"), float("nan")
    drawn: list[float] = []
    for counts in task_counts(len(parts), _RESAMPLES, seed=57):
        sums = counts @ wholes
        drawn += (np.divide(counts @ parts, sums, where=sums > 0, out=np.ones(len(sums)))).tolist()
    return interval(drawn)


def accuracy(rows: Iterable[Json], data: str) -> float | None:
    """Return the simulated bill of sending everything as a ratio to what was billed."""
    base = [r for r in rows if r["contender"] == BASE and r["data"] == data]
    billed = sum(row["billed"] for row in base)
    return sum(row["dollars"][OWN] for row in base) / billed if billed else None


def above(lines: Sequence[Line]) -> list[Line]:
    """Return the lines that beat our default: no worse in bill and names, and better in one."""
    ours = next((one for one in lines if (one.name, one.setting) == OURS), None)
    if ours is None:
        return []
    return [
        one
        for one in lines
        if not one.ours
        and one.sessions
        and one.saved[0] >= ours.saved[0] - _SAME
        and one.found[0] >= ours.found[0] - _SAME
        and one.saved[0] + one.found[0] > ours.saved[0] + ours.found[0] + _SAME
    ]


def verdicts(boards: Mapping[str, Sequence[Line]]) -> list[str]:
    """Return in sentences, for each data set, who beats AGORA's default in which column."""
    sentences: list[str] = []
    for data, lines in boards.items():
        ours = next((one for one in lines if (one.name, one.setting) == OURS), None)
        if ours is None:
            continue
        better = [one for one in lines if not one.ours and one.sessions]
        cheaper = [one for one in better if one.saved[0] > ours.saved[0] + _SAME]
        both = above(lines)
        text = (
            f"{TITLES[data]}: AGORA's default saves {_percent(ours.saved[0])} of the input bill "
            f"and leaves {_percent(ours.found[0])} of {ours.needs} actions their old names "
            f"(n = {ours.sessions} sessions)."
        )
        rest = [one for one in cheaper if one not in both]
        kinder = [
            one
            for one in better
            if _WORTH < one.saved[0] <= ours.saved[0] + _SAME
            and one.found[0] > ours.found[0] + _SAME
            and one not in both
        ]
        for words, found in (
            ("Beaten in both by", both),
            ("Cheaper with fewer names:", rest),
            ("More names at a smaller saving:", kinder),
        ):
            if found:
                text += f" {words} {'; '.join(map(_figures, found))}."
        if not cheaper:
            text += " No contender that is not ours saves more."
        sentences.append(text)
    return sentences


def _figures(line: Line) -> str:
    return f"{_name(line)} (saves {_percent(line.saved[0])}, {_percent(line.found[0])} found)"


def _name(line: Line) -> str:
    return f"{line.title}, {line.setting}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _points(shares: tuple[float, ...]) -> list[float]:
    return [100 * share for share in shares]


def _saved_at(sheet: str, line: Line) -> str:
    return _percent(line.saved_at[sheet])


_COLUMNS: tuple[tuple[str, Callable[[Line], str]], ...] = (
    ("saved", lambda x: "{:.1f}% [{:.0f}, {:.0f}]".format(*_points(x.saved))),
    ("minus AGORA's default", lambda x: "{:+.1f} [{:.0f}, {:.0f}]".format(*_points(x.lead))),
    ("found", lambda x: "{:.1f}% [{:.0f}, {:.0f}]".format(*_points(x.found))),
    ("after an edit", lambda x: _percent(x.found_after)),
    ("of the newest", lambda x: _percent(x.newest)),
    ("quoted lines", lambda x: _percent(x.lines)),
    *((f"at {name}", partial(_saved_at, name)) for name in OTHERS),
    ("refused calls", lambda x: " ".join((_percent(x.refused), *x.rules))),
    ("calls without a user's text", lambda x: _percent(x.lost_text)),
    ("calls that broke the cache", lambda x: _percent(x.broke)),
    ("untouched", lambda x: _percent(x.untouched)),
    ("worst session", lambda x: f"{x.worst:.2f}"),
    ("worst moment", lambda x: f"{x.moment:.2f}"),
    ("CPU ms/call", lambda x: f"{x.cpu_ms:.1f}"),
    ("break-even, extra calls", lambda x: f"{x.break_even:+.0f}%"),
    ("n", lambda x: str(x.sessions)),
)


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


def idle(lines: Sequence[Line]) -> str:
    """Name the contenders that changed no prompt of a data set."""
    return "; ".join(map(_name, filter(_is_idle, lines)))


def _is_idle(line: Line) -> bool:
    return line.sessions > 0 and line.untouched == 1 and line.name != BASE


def _table(data: str, lines: Sequence[Line], ratio: float | None) -> Any:
    from rich.table import Table

    simulated = f"; everything simulated at {ratio:.3f} of what was billed" if ratio else ""
    table = Table(title=f"{TITLES[data]}{simulated}", title_justify="left")
    table.add_column("contender", overflow="fold", min_width=24)
    columns = [(name, show) for name, show in _COLUMNS if name in _SHOWN]
    for name, _ in columns:
        table.add_column(name, justify="right", overflow="fold")
    for line in filterfalse(_is_idle, lines):
        style = "bold" if line.ours else None
        cells = [show(line) for _, show in columns] if line.sessions else [line.problem[:60]]
        table.add_row(_name(line), *cells, style=style)
    return table


def _json(rows: Sequence[Json], boards: Mapping[str, Sequence[Line]], made: Json) -> Json:
    return {
        "boards": [
            {
                "data": data,
                "title": TITLES[data],
                "accuracy": accuracy(rows, data),
                "recordings": _rules(made, data),
                "lines": [
                    asdict(line) | {"cells": [show(line) for _, show in _COLUMNS]}
                    for line in filterfalse(_is_idle, lines)
                ],
                "idle": idle(lines),
            }
            for data, lines in boards.items()
        ],
        "verdicts": verdicts(boards),
        "absent": made["absent"],
        "published": tomllib.loads(_PUBLISHED.read_text(encoding="utf-8"))["tool"],
        "columns": [name for name, _ in _COLUMNS],
    }


def _rules(made: Json, data: str) -> str:
    rules = made["sample"].get(data, {}).get("rules", {})
    return "; ".join(f"{rule}: {count}" for rule, count in rules.items())


def _store(rows: Sequence[Json], made: Json, folder: Path) -> None:
    """Store rows in a compressed table, and what the run left out beside it."""
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


def _write_evidence(
    path: Path, rows: Sequence[Json], boards: Mapping[str, Sequence[Line]], made: Json
) -> None:
    """Put the tables between the marks of the evidence page; its sentences stay."""
    parts = ["", *(f"- {sentence}" for sentence in verdicts(boards)), ""]
    for data, lines in boards.items():
        ratio = accuracy(rows, data)
        parts += [f"### {TITLES[data][0].upper()}{TITLES[data][1:]}", ""]
        if ratio:
            parts += [f"Sending everything, simulated: {ratio:.3f} of what was billed.", ""]
        parts.append("| contender | " + " | ".join(name for name, _ in _COLUMNS) + " |")
        parts.append("|---|" + "---:|" * len(_COLUMNS))
        for line in filterfalse(_is_idle, lines):
            cells = [show(line) for _, show in _COLUMNS]
            name = f"**{_name(line)}**" if line.ours else _name(line)
            version = f" ({line.version})" if line.version else ""
            parts.append(f"| {name}{version} | " + " | ".join(cells) + " |")
        if idle(lines):
            parts += ["", f"Changed nothing here: {idle(lines)}."]
        parts += ["", f"Recordings: {_rules(made, data)}.", ""]
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    path.write_text(f"{before}{_BEGIN}\n{chr(10).join(parts)}\n{_END}{after}", encoding="utf-8")

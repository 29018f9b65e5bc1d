"""A report as one HTML page that needs nothing else, and as tables for a terminal."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from agora_lab.evaluate.figures import Figures
from agora_lab.evaluate.plots import effective_ratio, group, retention_against_cost
from agora_lab.evaluate.tables import Table

if TYPE_CHECKING:
    from rich.console import Console

_STYLE = """
:root { color-scheme: light dark; --text: #1c2430; --soft: #5b6675; --line: #d9dee5; --back: #fff;
  --band: #f5f7f9; --ours: #0b57c4; --free: #5d6b7a; --token: #b3261e; --asks: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e8ed; --soft: #9aa5b1; --line: #39424d;
  --back: #14181d; --band: #1c2229; --ours: #78adff; --free: #a9b4c0; --token: #ff8a80;
  --asks: #e0b050; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1240px; padding: 20px 16px 60px; background: var(--back);
  color: var(--text); font: 15px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.5rem; margin: 0 0 8px; } h2 { font-size: 1.08rem; margin: 36px 0 8px; }
p { margin: 6px 0; max-width: 75ch; } .note { color: var(--soft); font-size: .88rem; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; font-size: .82rem; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 10px; text-align: left; vertical-align: top; white-space: pre-line;
  border-bottom: 1px solid var(--line); min-width: 8.5em; max-width: 26em; }
th { background: var(--band); font-weight: 600; } tr:last-child td { border-bottom: 0; }
th:first-child, td:first-child { position: sticky; left: 0; background: var(--band);
  overflow-wrap: anywhere; max-width: 14em; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(340px, 100%), 1fr));
  gap: 20px; } figure { margin: 0; } figcaption { font-weight: 600; font-size: .9rem; }
svg { width: 100%; max-width: 520px; height: auto; display: block; }
svg text { font: 11px system-ui, sans-serif; fill: var(--soft); }
.grid { stroke: var(--line); } .lead { stroke: var(--soft); stroke-width: .6; }
.paper { stroke: var(--soft); stroke-opacity: .35; stroke-width: 9; }
.ours { fill: var(--ours); } .free { fill: var(--free); } .token { fill: var(--token); }
.asks { fill: var(--asks); } svg circle { stroke: var(--back); }
svg text.dot { fill: var(--back); font-size: 9px; font-weight: 700; }
.key { display: flex; flex-wrap: wrap; gap: 2px 16px; padding: 0; margin: 10px 0; list-style: none;
  font-size: .85rem; } .key b { display: inline-block; min-width: 1.5em; }
.key .ours { color: var(--ours); } .key .free { color: var(--free); }
.key .token { color: var(--token); } .key .asks { color: var(--asks); }
"""
_GROUPS = (
    ("ours", "AGORA"),
    ("free", "inference-free, by step"),
    ("token", "token level"),
    ("asks", "asks a model at each step"),
)


def page(figures: Figures, tables: Sequence[Table]) -> str:
    """Return the report as HTML."""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>The paper's experiment</title><style>{_STYLE}</style></head><body>",
        "<h1>The paper's experiment</h1>",
        *(f"<p>{_code(sentence)}</p>" for sentence in provenance(figures)),
        "<h2>Retention against cost</h2><div class='plots'>",
    ]
    for environment, backbone in figures.columns:
        plot = retention_against_cost(figures, environment, backbone)
        if plot:
            caption = f"{escape(environment)}, {escape(backbone)}"
            parts.append(f"<figure><figcaption>{caption}</figcaption>{plot}</figure>")
    parts.append("</div>")
    parts.append(_key(figures))
    ratio = effective_ratio(figures)
    if ratio:
        parts.append("<h2>Effective ratio</h2><p class='note'>Dots are our cells, grey bars the ")
        parts.append("range that the paper prints over its nine cells.</p>")
        parts.append(f"<div class='plots'><figure>{ratio}</figure></div>")
    parts += [_table(table) for table in tables]
    return "".join((*parts, "</body></html>\n"))


def provenance(figures: Figures) -> list[str]:
    """Return sentences about the tasks, the agents and the protocol."""
    sentences = []
    for run in figures.material.runs:
        one = run["settings"]["experiment"]
        steps = one["steps"] or "the environment's limit of"
        sentences.append(
            f"Up to {one['tasks']} tasks an environment from the split `{one['split']}`, in its "
            f"fixed order; at most {steps} steps; seed {one['seed']}; temperature 0; the same "
            "tasks in every arm."
        )
        trained = {name: len(tasks) for name, tasks in run["settings"]["training"].items()}
        counts = ", ".join(f"{count:,} in {name}" for name, count in trained.items())
        sentences.append(f"No task is among those that labels may come from ({counts}).")
        if run["failed"]:
            sentences.append(f"{len(run['failed'])} episodes failed and are missing.")
    return list(dict.fromkeys((*figures.coverage, *sentences)))


def show(figures: Figures, tables: Sequence[Table], console: "Console") -> None:
    """Print the tables in a terminal."""
    from rich.table import Table as Grid
    from rich.text import Text

    for sentence in provenance(figures):
        console.print(Text(sentence.replace("`", "")))
    for table in tables:
        if table.page_only:
            continue
        columns = table.narrow or range(len(table.head))
        grid = Grid(title=Text(table.title, style="bold"), title_justify="left", pad_edge=False)
        for at in columns:
            grid.add_column(Text(table.head[at]), overflow="fold")
        for row in table.rows:
            grid.add_row(*(Text(row[at]) for at in columns))
        console.print(grid)
        for note in table.notes:
            console.print(Text(note, style="dim"))


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.head)
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table.rows
    )
    notes = "".join(f"<p class='note'>{_code(note)}</p>" for note in table.notes)
    return (
        f"<h2>{escape(table.title)}</h2><div class='scroll'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>{notes}"
    )


def _key(figures: Figures) -> str:
    groups = "".join(f"<li class='{name}'>&#9679; {title}</li>" for name, title in _GROUPS)
    methods = "".join(
        f"<li><b class='{group(name)}'>{number}</b>{escape(name)}</li>"
        for number, name in enumerate(figures.methods, start=1)
    )
    return f"<ul class='key'>{groups}</ul><ul class='key'>{methods}</ul>"


def _code(text: str) -> str:
    """Return text as HTML, with backquoted parts as code."""
    pieces = escape(text).split("`")
    return "".join(f"<code>{one}</code>" if at % 2 else one for at, one in enumerate(pieces))

"""The session table: as JSON for the record, and on the terminal."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from harness.agents.analysis import Row
from harness.agents.drivers import Agent
from harness.agents.session import Plan, SessionOutcome

Results = dict[str, Any]
_SESSIONS = "sessions"
_BEGINS, _ENDS = "<!-- sessions -->", "<!-- /sessions -->"
_COLUMNS = (
    "agent",
    "model",
    "calls",
    "edited",
    "legal",
    "breaks wanted / not",
    "late",
    "$ direct / wrapped",
    "saved",
    "offline",
    "$ claimed / true",
    "missed",
    "left alone",
)


def as_json(
    agent: Agent,
    row: Row,
    outcome: SessionOutcome,
    proofs: Sequence[str] = (),
    account: Mapping[str, Any] | None = None,
) -> Results:
    """Return one agent's results as they are written down."""
    true = row.dollars_direct - row.dollars_through
    off = row.claimed_off_by
    return {
        "title": agent.title,
        "route": agent.route,
        **asdict(outcome),
        **asdict(row),
        "legal": row.legal,
        "saved_percent": round(row.saved, 2),
        "saved_percent_offline": round(row.saved_offline, 2),
        "dollars_saved": round(true, 6),
        "claimed_off_by_percent": None if off is None else round(off, 1),
        "cost_of_direct": round(row.dollars_through / row.dollars_direct, 4)
        if row.dollars_direct
        else None,
        "account": {key: value for key, value in (account or {}).items() if key != "excerpt"},
        "excerpt": (account or {}).get("excerpt", ""),
        "problems": [*_unfinished(row, outcome), *row.problems(), *proofs],
    }


def _unfinished(row: Row, outcome: SessionOutcome) -> list[str]:
    """Return what is wrong with a session that did not get to its end."""
    if row.calls > outcome.plan.steps and outcome.exit_code == 0:
        return []
    return [f"ended after {row.calls} calls with exit code {outcome.exit_code}; see agent.log"]


def key_of(agent: str, plan: Plan) -> str:
    """Return the name under which a session is kept."""
    how = "busy" if plan.busy else "killed" if plan.kill_after else ""
    return f"{agent} ({how})" if how else agent


def read_results(path: Path) -> Results:
    """Return the sessions in a file; none where it is not there."""
    found: Results = _read(path).get(_SESSIONS, {})
    return found


def write_results(path: Path, results: Mapping[str, Any]) -> None:
    """Write all sessions, each under its name; what else the file holds stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({**_read(path), _SESSIONS: dict(results)}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def _read(path: Path) -> Results:
    known: Results = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return known


def write_page(path: Path, results: Mapping[str, Any]) -> None:
    """Write the table of agents and versions between the marks of a page."""
    head = "agent | version | format | model | run on | edited | unwanted breaks | cost of direct"
    lines = [f"| {head} |", "|---" * (head.count("|") + 1) + "|"]
    for found in results.values():
        if found["plan"]["busy"] or found["plan"].get("kill_after"):
            continue
        cost = found["cost_of_direct"]
        lines.append(
            f"| {found['title']} | {found['version']} | {found['route']} | {_model(found)} "
            f"| {found['began'][:10]} "
            f"| {found['edited']} of {found['calls']} | {len(found['breaks']['unwanted'])} "
            f"| {'' if cost is None else f'{cost:.2f}'} |"
        )
    lines += ["", "## What the model sees", ""]
    lines.append(
        "From the last edited request of each session: its size as the agent sent it and as it "
        "reached the provider, and its longest marker or note, cut short."
    )
    newest = max((found["began"][:10] for found in results.values()), default="")
    for name, found in results.items():
        if found["plan"]["busy"] or "(" in name:
            continue
        title = f"**{found['title']}** ({found['route']}, {_model(found)})"
        if found.get("excerpt") and found["began"][:10] != newest:
            # Markers change with the code: what an older run showed is not what is written now.
            lines += ["", f"{title}: not run since {found['began'][:10]}."]
        elif found.get("excerpt"):
            lines += ["", f"{title}:", "", "```text", found["excerpt"], "```"]
        else:
            lines += ["", f"{title}: no request was edited."]
    before, _, rest = path.read_text(encoding="utf-8").partition(_BEGINS)
    _, _, after = rest.partition(_ENDS)
    text = before + _BEGINS + "\n" + "\n".join(lines) + "\n" + _ENDS + after
    path.write_text(text, encoding="utf-8")


def _model(found: Mapping[str, Any]) -> str:
    return str(max(found["models"], key=found["models"].get, default=""))


def show(results: Mapping[str, Any], console: Console) -> None:
    """Print the table, and under it which goals are missed."""
    table = Table(*_COLUMNS, title="Coding agents by agora wrap")
    for name, found in results.items():
        table.add_row(*_cells(name, found))
    console.print(table)
    for name, found in results.items():
        for problem in found["problems"]:
            console.print(f"{name}: {problem}", style="red", highlight=False)


def _cells(name: str, found: Mapping[str, Any]) -> tuple[str, ...]:
    broken = found["breaks"]
    left = ", ".join(f"{reason} {count}" for reason, count in found["left_alone"].items())
    return (
        f"{name} {found['version']}",
        _model(found),
        str(found["calls"]),
        str(found["edited"]),
        "yes" if found["legal"] else "no",
        f"{broken['wanted']} / {len(broken['unwanted'])}",
        str(broken["late"]),
        f"{found['dollars_direct']:.3f} / {found['dollars_through']:.3f}",
        f"{found['saved_percent']:+.1f} %",
        f"{found['saved_percent_offline']:+.1f} %",
        f"{found['dollars_claimed']:.4f} / {found['dollars_saved']:.4f}",
        str(found["missed"]),
        left,
    )

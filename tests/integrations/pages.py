"""What the pages of docs/integrations say of the runs, made from the run files."""

import json
from pathlib import Path
from typing import Any

from tests.integrations.frameworks import FRAMEWORKS, ROOT

FOLDER = ROOT / "docs" / "integrations"
MARK = "**Before a real model.** "
"""How the line of a page begins that is made, and not written."""

_ABOUT = (
    "Written by `python -m tests.integrations.environments --table` from results.json. Each row is "
    "a virtual environment with the newest or the oldest release we claim, in which the suite "
    "(`tests/integrations/conformance.py`) ran: the request on the wire has to be "
    "exactly what `Compressor.compress` makes of the request without us. "
    "The locks (`tests/integrations/locks`) have every release; CI builds the environments of "
    "the clients and the six frameworks after them (of the oldest it runs each way once), and "
    "`just integrations --move` takes newer ones."
)
_REAL = (
    "The programs of `examples/integrations` before a llama.cpp "
    "server, from [a run file](../results/integrations.json): an agent reads files of "
    "docs/decisions one by one and answers, once with everything and once compressed (`keep_ratio` "
    "0.25). The tokens are those that the server says it read. A door "
    "(`tests/integrations/forced.py`) before the server reads the calls that so small a "
    "model writes among its words; where the last column says door, it made the model call, by the "
    "server's own grammar. That the loop finishes is shown by this; what the answers are worth is "
    "not."
)


def write(results: Path, real: Path) -> None:
    """Write the table of what was tested with what, and the line of each page."""
    tested, ran = (json.loads(f.read_text()) if f.exists() else [] for f in (results, real))
    (FOLDER / "compatibility.md").write_text(table(tested) + real_table(ran))
    for name, line in real_lines(ran).items():
        page = FOLDER / f"{name}.md"
        page.write_text(with_line(page.read_text(), line))


def table(results: list[dict[str, Any]]) -> str:
    """Return the page with the table of what was run.

    >>> print(table([]).splitlines()[0])
    # What was tested with what
    """
    lines = [
        "# What was tested with what",
        "",
        _ABOUT,
        "",
        "| framework | releases | paths that passed | tests | Python, day |",
        "|---|---|---|---|---|",
    ]
    for result in results:
        good = _paths([way for way, ok in result["ways"].items() if ok])
        bad = _paths([way for way, ok in result["ways"].items() if not ok])
        passed = f"{result['passed']} passed"
        if result["failed"]:
            passed += f", **{len(result['failed'])} failed**"
        if result["skipped"]:
            passed += f", {result['skipped']} skipped"
        paths = good + (f"; **not** {bad}" if bad else "")
        row = (_title(result), _versions(result), paths, passed)
        lines.append(f"| {' | '.join(row)} | {result['python']}, {result['date']} |")
    return "\n".join(lines) + "\n"


def real_table(results: list[dict[str, Any]]) -> str:
    """Return the table of what a real server read, or nothing."""
    if not results:
        return ""
    lines = [
        "",
        "## Before a real model",
        "",
        _REAL,
        "",
        "| framework | model | files | calls | prompt tokens plain | compressed | largest | by |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        plain, compressed = result["plain"], result["compressed"]
        row = (
            _title(result),
            result["model"],
            str(result["files"]),
            f"{plain['calls']}, {compressed['calls']}",
            _read(plain),
            _read(compressed),
            f"{plain['largest_prompt']:,} -> {compressed['largest_prompt']:,}",
            "door" if result["forced"] else "model",
        )
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def real_lines(results: list[dict[str, Any]]) -> dict[str, str]:
    """Return the line of each framework's page, without a line's end."""
    said: dict[str, list[str]] = {}
    for result in results:
        said.setdefault(result["framework"], []).append(_sentence(result))
    more = "[All of them](compatibility.md#before-a-real-model)."
    return {name: f"{MARK}{' '.join(some)} {more}" for name, some in said.items()}


def _sentence(result: dict[str, Any]) -> str:
    plain, compressed = result["plain"], result["compressed"]
    made = " which was made to call the tool," if result["forced"] else ""
    start = (
        f"The program on {_versions(result)} with {result['model']} on llama.cpp,{made} was to "
        f"read {result['files']} files of this repository: "
    )
    failed = [kind for kind in ("plain", "compressed") if not result[kind]["finished"]]
    if failed:
        return f"{start}it did not finish ({', '.join(failed)})."
    before, after = plain["prompt_tokens"], compressed["prompt_tokens"]
    return (
        f"{start}{plain['calls']} calls with {before:,} prompt tokens as it is, "
        f"{compressed['calls']} calls with {after:,} compressed ({1 - after / before:.0%} "
        f"less), the largest {plain['largest_prompt']:,} -> {compressed['largest_prompt']:,}."
    )


def with_line(page: str, line: str) -> str:
    """Return a page with its made line: in the old one's place, or at the end.

    >>> with_line("# A page", "**Before a real model.** Good.")
    '# A page\\n\\n**Before a real model.** Good.\\n'
    """
    lines = page.rstrip("\n").split("\n")
    at = next((n for n, old in enumerate(lines) if old.startswith(MARK)), None)
    if at is None:
        lines += ["", line]
    else:
        lines[at] = line
    return "\n".join(lines) + "\n"


def _title(result: dict[str, Any]) -> str:
    titles = {framework.name: framework.title for framework in FRAMEWORKS}
    return titles[result["framework"]]


def _versions(result: dict[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in result["versions"].items())


def _read(run: dict[str, Any]) -> str:
    tokens = f"{run['prompt_tokens']:,}"
    return tokens if run["finished"] else f"{tokens}, **not finished**"


def _paths(ways: list[str]) -> str:
    grouped: dict[str, list[str]] = {}
    for way in ways:
        group, _, path = way.partition(": ")
        endpoint, _, call = path.partition("/")
        grouped.setdefault(f"{group.removeprefix('Test')} {endpoint}", []).append(call)
    return "; ".join(f"{name}: {', '.join(calls)}" for name, calls in grouped.items())

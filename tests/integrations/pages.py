"""What the pages of docs/integrations say of the runs, made from the run files."""

import json
from pathlib import Path
from typing import Any

from tests.integrations.frameworks import FRAMEWORKS, ROOT

FOLDER = ROOT / "docs" / "integrations"
MARK = "**With a real model.** "
"""How the line of a page begins that is made, and not written."""

_ABOUT = (
    "The releases each integration was tested with: the newest and the oldest that we support, "
    "each in a virtual environment of its own. The suite (`tests/integrations/conformance.py`) "
    "checks that the request on the wire is exactly what `Compressor.compress` makes of the "
    "request without AGORA. `tests/integrations/locks` pins every release. CI builds the "
    "environments of the clients and the six frameworks after them (for the oldest releases it "
    "runs each way once), and `just integrations --move` tries newer ones. This page is made by "
    "`python -m tests.integrations.environments --table`."
)
_REAL = (
    "The programs of `examples/integrations` in front of a llama.cpp server "
    "([run file](../results/integrations.json)). An agent reads files of docs/decisions one by one "
    "and answers, once with everything and once compressed (`keep_ratio` 0.25). Tokens are those "
    "that the server reports. A small program in front of the server "
    "(`tests/integrations/forced.py`) picks the calls out of what so small a model writes; where "
    "the last column says *forced*, it made the model call by the server's grammar. This shows "
    "that the loop finishes, not what the answers are worth."
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
        "## With a real model",
        "",
        _REAL,
        "",
        "| framework | model | files | calls | plain tokens | compressed | largest | called |",
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
            "forced" if result["forced"] else "by itself",
        )
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def real_lines(results: list[dict[str, Any]]) -> dict[str, str]:
    """Return the line of each framework's page, without a line's end."""
    said: dict[str, list[str]] = {}
    for result in results:
        said.setdefault(result["framework"], []).append(_sentence(result))
    more = "[All runs](compatibility.md#with-a-real-model)."
    return {name: f"{MARK}{' '.join(some)} {more}" for name, some in said.items()}


def _sentence(result: dict[str, Any]) -> str:
    plain, compressed = result["plain"], result["compressed"]
    made = ", forced to call the tool," if result["forced"] else ""
    start = (
        f"{result['model']} on llama.cpp{made} read {result['files']} files of this repository "
        f"({_versions(result)})"
    )
    failed = [kind for kind in ("plain", "compressed") if not result[kind]["finished"]]
    if failed:
        return f"{start}: it did not finish ({', '.join(failed)})."
    before, after = plain["prompt_tokens"], compressed["prompt_tokens"]
    change = f"{abs(1 - after / before):.0%} {'less' if after <= before else 'more'}"
    return (
        f"{start}. Without AGORA it made {plain['calls']} calls with {before:,} prompt tokens, "
        f"with AGORA {compressed['calls']} calls with {after:,} ({change}). The largest prompt "
        f"went from {plain['largest_prompt']:,} to {compressed['largest_prompt']:,} tokens."
    )


def with_line(page: str, line: str) -> str:
    """Return a page with its made line: in the old one's place, or at the end.

    >>> with_line("# A page", "**With a real model.** Good.")
    '# A page\\n\\n**With a real model.** Good.\\n'
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

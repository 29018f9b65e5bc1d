"""Examine how calls are reported and which are taken for reads, on lists unused for the rules.

    python -m benchmarks.truth_exam

`benchmarks/truth/` has two exams. `results.json` and `tools.json` are the older one. `fields.json`
has 100 results and 60 calls from further fields (hospitals, logistics, CAD, laboratories, law,
games, finance, devices, maps), each with the answer that is expected. A rule that is changed after
a look at these lists makes them examples, and a new exam needs new ones.

The lists for tuning the rules, `outcomes.json` and `changes.json`, are outside the repository, in
`tools/truth` beside the folder that `AGORA_DATA` names. They are examined too if they exist.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from agora import Step
from agora.core import Call, Result
from agora.core.actions import changes
from agora.core.outcome import Outcome, outcome_of

_LISTS = Path(__file__).parent / "truth"
_TUNED = Path(os.environ.get("AGORA_DATA", ".")).parent / "tools" / "truth"
_FINE = ("ok", "exit 0")


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _outcomes(results: Sequence[tuple[str, str]]) -> dict[str, Outcome]:
    return {name: outcome_of(Result(text)) for name, text in results}


def _reads(name: str, arguments: object) -> bool:
    call = Call(name, json.dumps(arguments, ensure_ascii=False))
    return not changes(Step(number=1, action="", observation="", tokens=9, calls=(call,)))


def _print_results(
    console: Console,
    title: str,
    failures: Sequence[tuple[str, str]],
    others: Sequence[tuple[str, str]],
) -> None:
    failed, fine = _outcomes(failures), _outcomes(others)
    wrong = [name for name, outcome in failed.items() if outcome.status in _FINE]
    blamed = [name for name, outcome in fine.items() if outcome.failed]
    named = sum(outcome.failed for outcome in failed.values())
    table = Table("results", "count", "of these", title=title)
    table.add_row("failures called fine", f"{len(failed):,}", f"{len(wrong):,}")
    table.add_row("failures named as such", f"{len(failed):,}", f"{named:,}")
    table.add_row("others called failures", f"{len(fine):,}", f"{len(blamed):,}")
    console.print(table)
    _print_names(console, (("called fine", wrong), ("called failures", blamed)))


def _print_tools(
    console: Console,
    title: str,
    changing: Sequence[tuple[str, object]],
    reading: Sequence[tuple[str, object]],
) -> None:
    wrong = [f"{name} {arguments}" for name, arguments in changing if _reads(name, arguments)]
    known = sum(_reads(name, arguments) for name, arguments in reading)
    table = Table("calls and commands", "count", "of these", title=title)
    table.add_row("changes taken for reads", f"{len(changing):,}", f"{len(wrong):,}")
    table.add_row("reads known as reads", f"{len(reading):,}", f"{known:,}")
    console.print(table)
    _print_names(console, (("taken for reads", wrong),))


def _print_names(console: Console, lists: Sequence[tuple[str, Sequence[str]]]) -> None:
    for title, names in lists:
        if names:
            console.print(f"{title}: {', '.join(names)}", markup=False)


def _shell(commands: Sequence[str]) -> list[tuple[str, object]]:
    return [("bash", {"command": command}) for command in commands]


def main() -> None:
    """Print each figure, and the wrong cases by name."""
    console = Console()
    for title, folder, results, tools in (
        ("The exam", _LISTS, "results.json", "tools.json"),
        ("The lists that rules are tuned on", _TUNED, "outcomes.json", "changes.json"),
    ):
        if not (folder / results).is_file():
            console.print(f"{title}: not found in {folder}; set AGORA_DATA", markup=False)
            continue
        outcomes, calls = _read(folder / results), _read(folder / tools)
        _print_results(
            console, title, [*outcomes["failures"].items()], [*outcomes["successes"].items()]
        )
        _print_tools(
            console,
            title,
            [*_shell(calls["shell_changes"]), *calls["tool_changes"]],
            [*_shell(calls["shell_reads"]), *calls["tool_reads"]],
        )

    fields = _read(_LISTS / "fields.json")
    answers: dict[str, list[tuple[str, str]]] = {"failure": [], "success": [], "neutral": []}
    for name, answer, text in fields["results"]:
        answers[answer].append((name, text))
    title = "Further fields"
    _print_results(console, title, answers["failure"], [*answers["success"], *answers["neutral"]])
    by_effect: dict[str, list[tuple[str, object]]] = {"changes": [], "reads": []}
    for name, arguments, effect in fields["tools"]:
        by_effect[effect].append((name, arguments))
    _print_tools(console, title, by_effect["changes"], by_effect["reads"])


if __name__ == "__main__":
    main()

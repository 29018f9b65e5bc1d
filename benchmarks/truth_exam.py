"""An exam on how calls went and on what they changed, with lists that no rule was written from.

    python -m benchmarks.truth_exam

`benchmarks/truth/` has the lists: results of calls that failed and of calls that did not but look
like it, tools and shell commands that change something and those that only read, from many fields
and languages. They were written from the rules alone, without a look at the code, and read once
when the rules were frozen. What came out then is in lab/notebook/2026-11.md;
a rule that is changed after a
look at these lists makes them examples, and a new exam needs new ones.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from agora.core.reading.actions import call_reads
from agora.core.reading.observation import outcome
from agora.core.trajectory import Call, Result

_LISTS = Path(__file__).parent / "truth"
_WELL = ("ok", "exit 0")


def _read(name: str) -> Any:
    return json.loads((_LISTS / name).read_text(encoding="utf-8"))


def _reads(name: str, arguments: object) -> bool:
    return call_reads(Call(name, json.dumps(arguments, ensure_ascii=False)))


def _shell_reads(command: str) -> bool:
    return _reads("bash", {"command": command})


def main() -> None:
    """Print each figure, and what is wrong by name."""
    results, tools = _read("results.json"), _read("tools.json")
    failures = {name: outcome(Result(text)) for name, text in results["failures"].items()}
    successes = {name: outcome(Result(text)) for name, text in results["successes"].items()}
    well = [name for name, went in failures.items() if went.said in _WELL]
    failed = [name for name, went in successes.items() if went.failed]
    forgotten = [name for name, given in tools["tool_changes"] if _reads(name, given)]
    forgotten += [command for command in tools["shell_changes"] if _shell_reads(command)]
    known = sum(_reads(name, given) for name, given in tools["tool_reads"])
    known += sum(map(_shell_reads, tools["shell_reads"]))

    table = Table("of", "count", "wrong or known", title="Lists read once")
    rows: Sequence[tuple[str, int, str]] = (
        ("failures said to have gone well", len(failures), str(len(well))),
        ("failures named as such", len(failures), str(sum(o.failed for o in failures.values()))),
        ("successes said to have failed", len(successes), str(len(failed))),
        (
            "changes taken for reads",
            len(tools["tool_changes"]) + len(tools["shell_changes"]),
            str(len(forgotten)),
        ),
        ("reads known as reads", len(tools["tool_reads"]) + len(tools["shell_reads"]), str(known)),
    )
    for what, count, found in rows:
        table.add_row(what, f"{count:,}", found)
    console = Console()
    console.print(table)
    for title, names in (("well", well), ("failed", failed), ("forgotten", forgotten)):
        if names:
            console.print(f"{title}: {', '.join(names)}", markup=False)


if __name__ == "__main__":
    main()

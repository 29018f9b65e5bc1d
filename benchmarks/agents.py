"""Real coding agents through `agora wrap`, one session each, before a fake provider.

    python -m benchmarks.agents                         every agent, 45 file reads each
    python -m benchmarks.agents --agents claude,codex   only these
    python -m benchmarks.agents --kill 20               the proxy killed after 20 calls
    python -m benchmarks.agents --pause 25              stopped for --pause-seconds after 25 calls
    python -m benchmarks.agents --seed 12               another repository to read
    python -m benchmarks.agents --out FILE

Agents are installed at pinned versions into a cache folder and run with an empty environment, a
home of their own, made-up keys and no address but loopback. A fake provider answers them: it
scripts the session, refuses what a provider would refuse, and bills from an exact prefix cache.
The exit code is 1 if any session misses a goal: an edit that is refused or breaks a rule, a lost
call, a break of the cached prefix that no edit needs, a saving more than two points below that of
the library on the same requests, a claim more than 5% off, or a change outside the messages.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from agora import Compressor
from harness.agents.analysis import Pair, Row, analyse, offline, pair
from harness.agents.drivers import AGENTS
from harness.agents.install import MissingInterpreterError, install, installed
from harness.agents.proof import changed_beside_messages, changed_on_disk, home_touched
from harness.agents.record import read_requests
from harness.agents.session import Plan, run_session
from harness.gateway.results import put

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "agora-agents"
_COLUMNS = (
    *("agent", "model", "calls", "edited", "breaks wanted / not"),
    *("saved", "by the library", "$ claimed / true", "left alone"),
)


def proofs(folder: Path, exchanges: Sequence[Pair]) -> list[str]:
    """Return a sentence for each change of a session besides messages."""
    return [
        *changed_beside_messages(exchanges),
        *changed_on_disk(folder, exchanges),
        *home_touched(folder),
    ]


def analysed(folder: Path, plan: Plan, code: int) -> tuple[Row, list[str]]:
    """Return the figures of a recorded session, and its problems as sentences."""
    exchanges = pair(read_requests(folder / "agent"), read_requests(folder / "provider"))
    path = folder / "account.json"
    account = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    wanted = offline(exchanges, Compressor())
    row = analyse(exchanges, wanted, account.get("saved", 0.0))
    problems = [*row.problems(), *proofs(folder, exchanges)]
    if row.calls <= plan.steps or code:
        problems.insert(0, f"ended after {row.calls} calls with exit code {code}; see agent.log")
    return row, problems


def _cells(row: Row) -> tuple[str, ...]:
    true = row.dollars_direct - row.dollars_through
    left = ", ".join(f"{reason} {count}" for reason, count in row.left_alone.items())
    return (
        row.model,
        str(row.calls),
        str(row.edited),
        f"{row.breaks.wanted} / {len(row.breaks.unwanted)}",
        f"{row.saved:+.1f}%",
        f"{row.saved_offline:+.1f}%",
        f"{row.dollars_claimed:.4f} / {true:.4f}",
        left,
    )


def main() -> None:
    """Run the sessions and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--agents", type=_names, default=list(AGENTS), help=", ".join(AGENTS))
    parser.add_argument("--steps", type=int, default=45, help="file reads of each session")
    parser.add_argument("--seconds", type=float, default=600, help="the longest session")
    parser.add_argument("--kill", type=int, default=0, help="kill the proxy after so many calls")
    parser.add_argument("--pause", type=int, default=0, help="stop all after so many calls")
    parser.add_argument("--pause-seconds", type=float, default=310, help="for so long")
    parser.add_argument("--seed", type=int, default=7, help="of the repository")
    parser.add_argument("--out", help="a JSON file for the results")
    parser.add_argument("--work", type=Path, default=CACHE, help="where sessions are recorded")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 200)
    plan = Plan(
        steps=options.steps,
        seconds=options.seconds,
        kill_after=options.kill,
        pause_after=options.pause,
        pause_seconds=options.pause_seconds,
        seed=options.seed,
    )
    tools = options.work / "tools"
    table = Table(*_COLUMNS, title="Coding agents by agora wrap")
    problems: dict[str, list[str]] = {}
    with Progress(console=console) as progress:
        for agent in map(AGENTS.__getitem__, options.agents):
            name = f"{agent.name} (killed)" if plan.kill_after else agent.name
            task = progress.add_task(name, total=plan.steps + 1)
            folder = options.work / "sessions" / agent.name
            try:
                install([agent.package], tools)
                code = run_session(
                    agent,
                    tools,
                    folder,
                    plan,
                    lambda calls, task=task: progress.update(task, completed=calls),  # type: ignore[misc]
                )
            except (MissingInterpreterError, OSError) as error:
                problems[name] = [f"not run: {error}"]
                continue
            row, problems[name] = analysed(folder, plan, code)
            version = installed(agent.package, tools)
            table.add_row(f"{name} {version}", *_cells(row))
            if options.out:
                more: dict[str, Any] = {"version": version, "problems": problems[name]}
                put(options.out, name, {**asdict(row), **more})
    console.print(table)
    for name, found in problems.items():
        for problem in found:
            console.print(f"{name}: {problem}", style="red", highlight=False)
    sys.exit(any(problems.values()))


def _names(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in AGENTS]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"there is no agent {', '.join(unknown)}; there are {', '.join(AGENTS)}"
        )
    return names


if __name__ == "__main__":
    main()

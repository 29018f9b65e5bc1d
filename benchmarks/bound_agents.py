"""Real coding agents with models that bind their thinking, also when the proxy is killed.

    python -m benchmarks.bound_agents --out benchmarks/results/bound-agents.json
    python -m benchmarks.bound_agents --only opus-5-5             sessions with that in their name

Claude Code and pi read 45 files each before a fake provider that signs its thinking and checks it
when it comes back (`harness.signing`): without a proxy, through `agora wrap`, and with its proxy
killed. `default` and `error` are the provider's treatment of invalid thinking: the model's default,
or a 400.

Agents are installed at pinned versions into a cache folder and run with an empty environment, a
home of their own, made-up keys and no address but loopback. The exit code is 1 if any session
shows a problem.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.agents import CACHE, proofs
from harness.agents.analysis import Pair, pair
from harness.agents.bound import measure, problems
from harness.agents.drivers import BOUND, Agent
from harness.agents.install import install, installed
from harness.agents.record import read_requests
from harness.agents.script import DONE
from harness.agents.session import Plan, run_session

_COLUMNS = ("session", "calls", "edits: blocks at call", "refused", "rescued", "dropped", "saved")


@dataclass(frozen=True, slots=True)
class Session:
    """An agent, and how it is run."""

    agent: Agent
    name: str
    plan: Plan


def sessions(steps: int) -> Iterator[Session]:
    """Yield all sessions, each agent's direct one first, as the baseline of the others."""
    for agent in BOUND.values():
        # By the price lists of 2026-11 the first edit is at call 27 of pi and call 11 of the other.
        after = steps * 2 // 3 + 2 if agent.name == "fable-5-1" else 15
        wrapped = Plan(steps=steps, seconds=240.0)
        yield Session(agent, f"{agent.name} direct", replace(wrapped, wrapped=False))
        for binding in ("default",) if agent.name == "fable-5-1" else ("default", "error"):
            name = f"{agent.name} {binding}"
            plain = replace(wrapped, binding=binding)
            yield Session(agent, f"{name} plain", plain)
            yield Session(agent, f"{name} killed", replace(plain, kill_after=after))


def figures(session: Session, folder: Path, code: int) -> dict[str, Any]:
    """Return the figures of a recorded session."""
    plan, arrived = session.plan, read_requests(folder / "provider")
    # A session without a proxy only gives the bill.
    exchanges = [Pair(request, (request,)) for request in arrived if request.route == "messages"]
    if plan.wrapped:
        exchanges = pair(read_requests(folder / "agent"), arrived)
    bound = measure(exchanges)
    said = (folder / "agent.log").read_text(encoding="utf-8", errors="replace")
    found = [] if code == 0 and DONE in said else ["the agent did not come to its end"]
    if plan.wrapped:
        found += problems(bound, steps=plan.steps, restarts=bool(plan.kill_after))
        found += proofs(folder, exchanges)
    return {"agent": session.agent.title, **asdict(bound), "problems": found}


def show(results: dict[str, dict[str, Any]], console: Console) -> None:
    """Print the table and the problems."""
    table = Table(*_COLUMNS, title="Agents before a provider that binds thinking")
    for name, found in results.items():
        table.add_row(
            name,
            str(found["calls"]),
            ", ".join(f"{edit['blocks']} at {edit['call']}" for edit in found["edits"]),
            str(len(found["refused"])),
            str(found["rescued"]),
            f"{sum(blocks for _, blocks in found['dropped'])} in {len(found['dropped'])} calls",
            f"{found['saved_percent']:+.1f}%" if "saved_percent" in found else "",
        )
    console.print(table)
    for name, found in results.items():
        for problem in found["problems"]:
            console.print(f"{name}: {problem}", style="red", highlight=False)


def main() -> None:
    """Run the sessions and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="run sessions with this in their name")
    parser.add_argument("--steps", type=int, default=45, help="file reads of each session")
    parser.add_argument("--out", type=Path, help="a JSON file for the results")
    parser.add_argument("--work", type=Path, default=CACHE, help="where sessions are recorded")
    options = parser.parse_args()
    wanted = [one for one in sessions(options.steps) if options.only in one.name]
    if not wanted:
        sys.exit(f"no session has {options.only!r} in its name")
    tools = options.work / "tools"
    install({one.agent.package for one in wanted}, tools)
    console = Console(width=None if sys.stdout.isatty() else 180)
    results: dict[str, dict[str, Any]] = {}
    direct: dict[str, float] = {}
    with Progress(console=console) as progress:
        for session in wanted:
            task = progress.add_task(session.name, total=session.plan.steps + 1)
            folder = options.work / "bound" / session.name.replace(" ", "-")
            code = run_session(
                session.agent,
                tools,
                folder,
                session.plan,
                lambda calls, task=task: progress.update(task, completed=calls),  # type: ignore[misc]
            )
            found = figures(session, folder, code)
            found["version"] = installed(session.agent.package, tools)
            bill = direct.setdefault(session.agent.name, found["dollars"])
            if session.plan.wrapped and bill:
                found["saved_percent"] = round(100 * (1 - found["dollars"] / bill), 2)
            results[session.name] = found
            if options.out:
                options.out.parent.mkdir(parents=True, exist_ok=True)
                options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    show(results, console)
    sys.exit(any(found["problems"] for found in results.values()))


if __name__ == "__main__":
    main()

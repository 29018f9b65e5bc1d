"""Real coding agents by `agora wrap`, one session each: `just agents` prints the table.

    python -m benchmarks.agents                         every agent, 45 file reads each
    python -m benchmarks.agents --agents claude,codex   only these
    python -m benchmarks.agents --busy                  with every core kept busy by other work
    python -m benchmarks.agents --kill 20               the gateway killed after 20 calls
    python -m benchmarks.agents --out docs/results/wrap.json --page docs/guides/coding-agents.md

Agents are installed at pinned versions into a cache folder and run with an empty environment, a
home of their own, made-up keys and no address but loopback. A fake provider answers them: it
scripts the session, refuses what a provider would refuse, and bills from an exact prefix cache.

A session that was recorded for the same code, steps and load is not run again, so an interrupted
run resumes where it stopped; `--again` runs it anyway. The figures are computed from the recordings
every time. The exit code is 1 if any session misses a goal.
"""

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

import agora
from agora.compressor import Compressor
from agora.core.budget import Budget
from agora.gateway.config import Compression
from agora.scorers.load import load_scorer
from harness.agents.analysis import Row, analyse, offline, pair
from harness.agents.drivers import AGENTS, Agent
from harness.agents.excerpt import excerpt
from harness.agents.install import MissingInterpreterError, install, installed
from harness.agents.proof import changed_beside_messages, changed_on_disk, home_touched
from harness.agents.record import read_requests
from harness.agents.report import as_json, key_of, read_results, show, write_page, write_results
from harness.agents.session import Plan, SessionOutcome, read_outcome, run_session

_FOLDER = str.maketrans({" ": "-", "(": None, ")": None})


def main() -> None:
    """Run what is missing, and print the table."""
    options = _options()
    console = Console(width=None if sys.stdout.isatty() else 200)
    agents = [AGENTS[name] for name in options.agents]
    plan = Plan(
        steps=options.steps,
        seconds=options.seconds,
        busy=options.busy,
        deadline_ms=options.deadline_ms,
        kill_after=options.kill,
    )
    results = read_results(options.out) if options.out else {}
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    ) as progress:
        for agent in agents:
            name = key_of(agent.name, plan)
            task = progress.add_task(name, total=plan.steps + 1)
            folder = options.work / "sessions" / name.translate(_FOLDER)
            try:
                if not options.recorded:
                    install([agent.package], options.tools)
                advance = partial(_show_progress, progress, task)
                outcome = _outcome(agent, plan, folder, options, advance)
            except (MissingInterpreterError, OSError) as error:
                console.print(f"{name}: not run: {error}", style="red", highlight=False)
                continue
            row, proofs, claimed = analysed(folder)
            progress.update(task, completed=row.calls, total=row.calls)
            results[name] = as_json(agent, row, outcome, proofs, claimed)
            if options.out:
                write_results(options.out, results)
    wanted = {key_of(agent.name, plan) for agent in agents}
    shown = {name: found for name, found in results.items() if name in wanted}
    show(shown, console)
    if options.page:
        write_page(options.page, results)
    sys.exit(1 if len(shown) < len(wanted) or any(f["problems"] for f in shown.values()) else 0)


def _show_progress(progress: Progress, task: TaskID, calls: int) -> None:
    progress.update(task, completed=calls)


def analysed(folder: Path) -> tuple[Row, list[str], dict[str, Any]]:
    """Return the figures of a recorded session, what it does not prove, and what wrap counted."""
    exchanges = pair(read_requests(folder / "agent"), read_requests(folder / "provider"))
    path = folder / "account.json"
    account = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    wanted = offline(exchanges, library(Compression()))
    row = analyse(exchanges, wanted, account.get("dollars_saved", 0.0))
    proofs = [
        *changed_beside_messages(exchanges),
        *changed_on_disk(folder, exchanges),
        *home_touched(folder),
    ]
    account["excerpt"] = excerpt(exchanges)
    return row, proofs, account


def library(settings: Compression) -> Compressor:
    """Return the stateless library, set as the gateway is."""
    base = Compressor()
    return Compressor(
        scorer=load_scorer(settings.scorer),
        budget=Budget(keep_ratio=settings.keep_ratio),
        k_recent=settings.k_recent,
        schedule=settings.schedule,
        min_tokens=settings.min_tokens,
        forms=base.forms if settings.lines else None,
    )


def source_hash() -> str:
    """Return a hash of the code that the gateway runs."""
    root = Path(agora.__file__).parent
    found = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.suffix in (".py", ".toml", ".json"):
            found.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return found.hexdigest()[:12]


def _outcome(
    agent: Agent,
    plan: Plan,
    folder: Path,
    options: argparse.Namespace,
    progress: Callable[[int], None],
) -> SessionOutcome:
    known = read_outcome(folder)
    source = source_hash()
    fits = known is not None and known.plan == plan and known.source == source
    if known is not None and (options.recorded or (fits and not options.again)):
        return known
    if options.recorded:
        raise FileNotFoundError(f"{folder} holds no session; leave out --recorded")
    version = installed(agent.package, options.tools)
    return run_session(agent, version, options.tools, folder, plan, source, progress)


def _options() -> argparse.Namespace:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "agora-agents"
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--agents", type=_names, default=list(AGENTS), help=", ".join(AGENTS))
    parser.add_argument("--steps", type=int, default=45, help="file reads of each session")
    parser.add_argument("--seconds", type=float, default=600, help="the longest session")
    parser.add_argument("--busy", action="store_true", help="keep every core busy meanwhile")
    parser.add_argument("--deadline-ms", type=int, help="of the gateway; its default if left out")
    parser.add_argument("--kill", type=int, default=0, help="kill the gateway after so many calls")
    parser.add_argument("--page", type=Path, help="a page for the versions that were run")
    parser.add_argument("--again", action="store_true", help="run what was recorded before, too")
    parser.add_argument("--recorded", action="store_true", help="run nothing, read recordings")
    parser.add_argument("--out", type=Path, help="a JSON file for the results")
    parser.add_argument("--work", type=Path, default=cache, help="where sessions are recorded")
    parser.add_argument("--tools", type=Path, default=cache / "tools", help="where agents are")
    return parser.parse_args()


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

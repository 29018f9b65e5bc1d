"""Real coding agents with models that bind their thinking, whatever becomes of the gateway.

    python -m benchmarks.bound_agents --out docs/results/bound-agents.json
    python -m benchmarks.bound_agents --only opus-5-5             sessions with that in their name

Claude Code and pi read 45 files each before a fake provider that signs its thinking and checks it
when it comes back (`harness.signing`): without a gateway, through `agora wrap`, with the gateway
killed, put into shadow mode and out of it, replaced by the release before and put back. `default`
and `error` are what the provider does with thinking that does not hold: what the model does by
default, or a 400.

Agents are installed at pinned versions into a cache folder and run with an empty environment, a
home of their own, made-up keys and no address but loopback. A session that was recorded for the
same code is not run again, so an interrupted run resumes; `--again` runs it anyway. The exit code
is 1 if any session shows a problem.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
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
from rich.table import Table

from benchmarks.agents import source_hash
from harness.agents.analysis import Pair, pair
from harness.agents.bound import Replaced, held, lines_of, measure, notes, problems, saving
from harness.agents.install import install, installed
from harness.agents.matrix import Session, door_for, matrix
from harness.agents.proof import changed_beside_messages, changed_on_disk, home_touched
from harness.agents.record import read_requests
from harness.agents.report import read_results, write_results
from harness.agents.script import DONE
from harness.agents.session import (
    SessionOutcome,
    read_outcome,
    run_session,
)

RELEASE_BEFORE = "0590e76"
"""The commit of the release before: 0.2.0, which knows nothing of bound thinking."""
_COLUMNS = (
    "session",
    "calls",
    "edits",
    "refused",
    "answered",
    "dropped",
    "blocks out by edit",
    "saved",
    "held ms, median / p95",
)


def main() -> None:
    """Run what is missing, and print the table."""
    options = _options()
    console = Console(width=None if sys.stdout.isatty() else 180)
    wanted = [one for one in matrix(options.steps) if options.only in one.name]
    if not wanted:
        sys.exit(f"no session has {options.only!r} in its name")
    install({one.agent.package for one in wanted}, options.tools)
    before = unpacked_release(options.before, options.work)
    results = read_results(options.out) if options.out else {}
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    ) as progress:
        for session in wanted:
            task = progress.add_task(session.name, total=session.plan.steps + 1)
            folder = options.work / "bound" / session.name.replace(" ", "-")
            show = partial(_show_progress, progress, task)
            outcome = _outcome(session, folder, options, before, show)
            found = record(session, folder, outcome)
            progress.update(task, completed=found["calls"], total=found["calls"])
            results[session.name] = found
            if options.out:
                write_results(options.out, results)
    _compare(results)
    if options.out:
        write_results(options.out, results)
    shown = {one.name: results[one.name] for one in wanted}
    _show(shown, console)
    sys.exit(1 if any(found["problems"] for found in shown.values()) else 0)


def _show_progress(progress: Progress, task: TaskID, calls: int) -> None:
    progress.update(task, completed=calls)


def unpacked_release(commit: str, work: Path) -> Path:
    """Return the folder with the sources of an earlier commit, unpacked from git if need be."""
    folder = work / f"release-{commit}"
    if not (folder / "src").is_dir():
        root = Path(__file__).parent.parent
        packed = subprocess.run(
            ("git", "archive", "--format=tar", commit, "src"),
            cwd=root,
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
    return folder / "src"


def _outcome(
    session: Session,
    folder: Path,
    options: argparse.Namespace,
    before: Path,
    progress: Callable[[int], None],
) -> SessionOutcome:
    known, source = read_outcome(folder), source_hash()
    fits = known is not None and known.plan == session.plan and known.source == source
    if known is not None and (options.recorded or (fits and not options.again)):
        return known
    version = installed(session.agent.package, options.tools)
    door = door_for(session.plan, before)
    return run_session(
        session.agent, version, options.tools, folder, session.plan, source, progress, door
    )


def record(session: Session, folder: Path, outcome: SessionOutcome) -> dict[str, Any]:
    """Return what a recorded session shows."""
    exchanges = pair(read_requests(folder / "agent"), read_requests(folder / "provider"))
    replaced = _replaced(folder)
    bound = measure(exchanges, replaced, session.plan.begins)
    said = (folder / "agent.log").read_text(encoding="utf-8", errors="replace")
    finished = outcome.exit_code == 0 and DONE in said
    path = folder / "gateway.log"
    log = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    amiss = [] if finished else ["the agent did not come to its end"]
    if session.plan.door != "direct":
        amiss = problems(
            bound,
            steps=session.plan.steps,
            finished=finished,
            switches=session.switches,
            replaced=replaced,
        )
        amiss += _proofs(folder, exchanges)
    return {
        "title": session.agent.title,
        "kind": session.kind,
        **asdict(outcome),
        "models": sorted({e.sent.model for e in exchanges}),
        **asdict(bound),
        "finished": finished,
        "replaced": [asdict(one) for one in replaced],
        "held_ms": held(log),
        "resent": sum(bool(line.get("resent")) for line in lines_of(log)),
        "notes": notes(bound, finished=finished),
        "problems": amiss,
    }


def _proofs(folder: Path, exchanges: list[Pair]) -> list[str]:
    return [
        *changed_beside_messages(exchanges),
        *changed_on_disk(folder, exchanges),
        *home_touched(folder),
    ]


def _replaced(folder: Path) -> list[Replaced]:
    path = folder / "switched.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    return [Replaced(**one) for one in known]


def _compare(results: Mapping[str, Any]) -> None:
    """Add to each session what it saved of the same agent's bill without a gateway."""
    for name, found in results.items():
        direct = results.get(f"{name.split()[0]} default direct")
        if direct is not None and found is not direct:
            # One that ended early spent less, and saved nothing.
            found["saved"] = saving(direct, found) if found["finished"] else None


def _show(results: Mapping[str, Any], console: Console) -> None:
    table = Table(*_COLUMNS, title="Agents before a provider that binds thinking")
    for name, found in results.items():
        table.add_row(name, *_cells(found))
    console.print(table)
    for name, found in results.items():
        for problem in found["problems"]:
            console.print(f"{name}: {problem}", style="red", highlight=False)
        for note in found["notes"]:
            console.print(f"{name}: {note}", highlight=False)


def _cells(found: Mapping[str, Any]) -> tuple[str, ...]:
    saved, ms = found.get("saved"), found["held_ms"]
    edits = found["edits"]
    return (
        str(found["calls"]),
        str(len(edits)),
        str(len(found["refused"])),
        str(len(found["answered"])),
        f"{sum(one[2] for one in found['dropped'])} in {len(found['dropped'])} calls",
        ", ".join(f"{edit['blocks']} at {edit['call']}" for edit in edits),
        f"{saved['percent']:+.1f} %, ${saved['dollars']:.3f}" if saved else "",
        f"{ms['median']:.1f} / {ms['p95']:.1f}" if ms["calls"] else "",
    )


def _options() -> argparse.Namespace:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "agora-agents"
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="run sessions with this in their name")
    parser.add_argument("--steps", type=int, default=45, help="file reads of each session")
    parser.add_argument("--before", default=RELEASE_BEFORE, help="the commit of another version")
    parser.add_argument("--again", action="store_true", help="run what was recorded before, too")
    parser.add_argument("--recorded", action="store_true", help="read recordings of other code too")
    parser.add_argument("--out", type=Path, help="a JSON file for the results")
    parser.add_argument("--work", type=Path, default=cache, help="where sessions are recorded")
    parser.add_argument("--tools", type=Path, default=cache / "tools", help="where agents are")
    return parser.parse_args()


if __name__ == "__main__":
    main()

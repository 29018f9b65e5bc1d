"""Our bill of real coding sessions beside the provider's, session by session.

    python -m benchmarks.billed                         the sessions under AGORA_DATA
    python -m benchmarks.billed ~/.claude/projects      your own
    python -m benchmarks.billed --out benchmarks/results/billed.json

The provider's: the tokens it reported for each call (`usage`), at the price sheet's input price, a
cached read and a write for five minutes or for an hour each at its own. Ours: what `agora replay`
shows as it was. Exits with 1 if the sum is off by more than 3 %, or a session by more than 10 %.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from agora.core.prices import sheet_for
from agora.logs import Recording, Tally, read_logs
from agora.replay.report import billed_dollars
from agora.replay.simulate import Policy, replay_by
from harness.recordings import CLAUDE_CODE, unpacked

DATA = Path(os.environ.get("AGORA_DATA", "../shared/data")) / CLAUDE_CODE
SUM_BAR, SESSION_BAR = 0.03, 0.10


@dataclass
class Session:
    """What the calls of one session cost, its sub-agents' included."""

    trajectories: int = 0
    refused: int = 0
    calls: int = 0
    billed: float = 0.0
    ours: float = 0.0
    unseen_tokens: int = 0
    """Of its longest trajectory."""
    longest: int = 0

    def add(self, recording: Recording) -> bool:
        """Take in a trajectory, and tell whether it has the usage of every call."""
        sheet = sheet_for(recording.model or "")
        [was] = replay_by(recording, [sheet])
        self.trajectories += 1
        self.refused += bool(was.illegal)
        if not was.usage or was.shortened:
            return False
        self.calls += len(was.usage)
        self.billed += sum(billed_dollars(usage, sheet, recording.ttl) for usage in was.usage)
        self.ours += was.bills[Policy.AS_IT_WAS].dollars
        if len(was.usage) > self.longest:
            self.longest, self.unseen_tokens = len(was.usage), was.unseen_tokens
        return True


def sessions_in(paths: Sequence[Path]) -> tuple[dict[str, Session], int]:
    """Return the sessions, and how many trajectories lack the usage of a call."""
    found: dict[str, Session] = {}
    without = 0
    for recording in read_logs(paths, Tally()):
        without += not found.setdefault(recording.task or recording.id, Session()).add(recording)
    return found, without


def rows(found: dict[str, Session]) -> Iterator[tuple[str, Session]]:
    """Yield the sessions with a bill, and their sum."""
    whole = Session()
    for name, one in found.items():
        if one.billed:
            yield name, one
        whole.trajectories += one.trajectories
        whole.refused += one.refused
        whole.calls += one.calls
        whole.billed += one.billed
        whole.ours += one.ours
    yield "all", whole


def main() -> None:
    """Print the table, and write it if asked."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("paths", nargs="*", type=Path)
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    if not given.paths and not DATA.exists():
        sys.exit(f"there is no {DATA}; set AGORA_DATA, or name your own logs")
    with ExitStack() as stack:
        paths = given.paths or [stack.enter_context(unpacked(DATA))]
        start = time.perf_counter()
        found, without = sessions_in(paths)
        seconds = time.perf_counter() - start
    print("session   trajectories  refused  calls   unseen    billed      ours   error")
    written: list[dict[str, object]] = []
    worst = error = 0.0
    for name, one in rows(found):
        if not one.billed:
            sys.exit("no trajectory has the provider's usage for every call")
        error = one.ours / one.billed - 1
        print(
            f"{name[:8]:8} {one.trajectories:13} {one.refused:8} {one.calls:6,} "
            f"{one.unseen_tokens or '':>8} {one.billed:9.3f} {one.ours:9.3f} {error:+7.1%}"
        )
        place = name if name == "all" else len(written) + 1
        written.append({"session": place, **asdict(one), "error": error})
        if name != "all":
            worst = max(worst, abs(error))
    print(f"{without} trajectories without usage, or shortened before; {seconds:.1f} s")
    if given.out:
        given.out.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    if abs(error) > SUM_BAR or worst > SESSION_BAR:
        sys.exit(f"off by {error:+.1%} in sum and {worst:.1%} at worst")


if __name__ == "__main__":
    main()

"""How much of each recorded folder is read: the share of records, trajectories and steps.

    python -m benchmarks.read_logs [--out docs/results/read-logs.json] [FOLDER...]

Without folders, every folder under AGORA_DATA. `read` is the share of what was tried that gave or
is part of a trajectory: what was refused counts against it, what was left out on purpose does not.
`blind` are trajectories of ten or more messages in which no step was seen.
"""

import argparse
import json
import os
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter

from agora.adapters import parse
from agora.errors import AgoraError
from agora.logs import Tally, read_logs

DATA = Path(os.environ.get("AGORA_DATA", "../shared/data"))
_LONG = 10


@dataclass
class Folder:
    """What was read of one folder."""

    name: str
    files: int = 0
    records: int = 0
    refused: int = 0
    skipped: int = 0
    trajectories: int = 0
    unparsed: int = 0
    blind: int = 0
    steps: int = 0
    with_usage: int = 0
    seconds: float = 0.0
    why: dict[str, int] = field(default_factory=dict)

    @property
    def read(self) -> float:
        """The share of what was tried that was not refused."""
        tried = max(self.records, self.trajectories + self.refused)
        return 1 - self.refused / tried if tried else 0.0


def read_folder(path: Path) -> Folder:
    """Read every log in a folder and count."""
    start = perf_counter()
    tally = Tally()
    one = Folder(path.name)
    for recording in read_logs([path], tally):
        one.with_usage += bool(recording.usage)
        try:
            steps = len(parse(recording.request()).trajectory.steps)
        except AgoraError:
            one.unparsed += 1
            continue
        one.steps += steps
        one.blind += steps == 0 and len(recording.messages) >= _LONG
    one.files, one.records = tally.files, tally.records
    one.refused, one.trajectories = tally.bad, tally.recordings
    one.skipped = sum(tally.skipped.values())
    one.why = dict(Counter(bad.problem[:70] for bad in tally.examples).most_common(3))
    one.seconds = round(perf_counter() - start, 1)
    return one


def main() -> None:
    """Print one line per folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    folders = chosen.folders or sorted(path for path in DATA.iterdir() if path.is_dir())
    print("folder              files records refused   read trajectories   steps blind usage  sec")
    rows = []
    for path in folders:
        one = read_folder(path)
        rows.append({**asdict(one), "read": round(one.read, 4)})
        print(
            f"{one.name:<18} {one.files:>6,} {one.records:>7,} {one.refused:>7,} {one.read:>6.1%} "
            f"{one.trajectories:>12,} {one.steps:>7,} {one.blind:>5,} {one.with_usage:>5,} "
            f"{one.seconds:>4.0f}",
            flush=True,
        )
        for problem, count in one.why.items():
            print(f"    {count} refused, e.g.: {problem}")
    if chosen.out is not None:
        chosen.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

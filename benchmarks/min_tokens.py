"""Where editing begins: what each threshold costs, and what stays in the prompt.

Recorded coding runs are replayed (`agora replay`, their own model's prices), generated ones billed
(`benchmarks.bill`), once for each threshold. Each part is a file in --work, and what is there is
not done again.

    python -m benchmarks.min_tokens LOG --work FOLDER --out docs/results/min-tokens.json
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

THRESHOLDS = (4_096, 8_192, 16_384, 32_768)
SHEETS = ("gpt-4o", "gpt-5.5", "gemini-3-pro", "claude-opus-4-8", "claude-opus-5-5")
"""From reads that cost half of a token to reads that cost a fortieth."""


def made(path: Path, command: Sequence[str]) -> Any:
    """Return the JSON that a command writes to a path; it is run only if the file is not there."""
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        subprocess.run([sys.executable, "-m", *command, str(unfinished)], check=True)
        unfinished.rename(path)
    return json.loads(path.read_text(encoding="utf-8"))


def recorded(log: Path, least: int, work: Path) -> dict[str, Any]:
    """Return bill, edits and needs of the recorded runs."""
    replay = ("agora.cli", "replay", str(log), "--sheets", "own", "--min-tokens", str(least))
    found = made(work / f"{least}.json", (*replay, "--json"))
    own = found["totals"]["own"]
    ours, whole = own["AGORA"], own["as it was"]
    return {
        "runs": found["trajectories"],
        "bill": round(ours["cost"] / whole["cost"], 4),
        "tokens": round(ours["tokens"] / whole["tokens"], 4),
        "edits": ours["edits"],
        "calls_with_all_names": round(ours["met_share"], 4),
        "steps_after_an_edit": found["rereads"]["steps_after_edit"],
        "repeated_after_an_edit": found["rereads"]["after_edit"],
    }


def generated(least: int, work: Path) -> dict[str, float]:
    """Return the mean bill of the generated runs on each price sheet."""
    bill = ("benchmarks.bill", "--only", "long", "--min-tokens", str(least))
    rows = made(work / f"gen-{least}.json", (*bill, "--sheets", *SHEETS, "--out"))
    bills: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row["sheet"] in SHEETS:
            bills[row["sheet"]].append(row["agora"])
    return {sheet: round(statistics.mean(bills[sheet]), 4) for sheet in SHEETS}


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("log", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="folder of what is done already")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    chosen.work.mkdir(parents=True, exist_ok=True)
    rows = []
    for least in THRESHOLDS:
        row = {
            "min_tokens": least,
            "recorded": recorded(chosen.log, least, chosen.work),
            "generated": generated(least, chosen.work),
        }
        print(json.dumps(row), flush=True)
        rows.append(row)
    chosen.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

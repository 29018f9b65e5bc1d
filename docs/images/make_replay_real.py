"""Draws `replay-real-*.png`: the page of `agora replay --html` on 500 recorded coding runs.

Needs Chromium, Pillow and the recordings (`AGORA_DATA`), and takes some minutes:
python docs/images/make_replay_real.py [PAGE.html]
A page that is there already is drawn as it is: it is what
`agora replay AGORA_DATA/swe-bench-gemini --html PAGE.html` writes.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from make_replay import shoot_all

RECORDED = "swe-bench-gemini"
SHOTS = {
    "replay-real-light": (1180, 1048, "theme=light"),
    "replay-real-dark": (1180, 1048, "theme=dark"),
}


def main() -> None:
    """Write the page if it is not there, and its pictures."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(sys.argv[1] if len(sys.argv) > 1 else f"{folder}/replay.html")
        if not source.exists():
            log = Path(os.environ.get("AGORA_DATA", "../shared/data")) / RECORDED
            command = [sys.executable, "-m", "agora.cli", "replay", str(log), "--html", str(source)]
            subprocess.run(command, check=True)  # noqa: S603 - a command of ours
        shoot_all(source, SHOTS)


if __name__ == "__main__":
    main()

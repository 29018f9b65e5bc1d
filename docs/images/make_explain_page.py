"""Draws `explain-page-*.png`: the page of `agora explain --html`, on a recorded trajectory.

Needs Chromium, Pillow and the recordings (`AGORA_DATA`): python docs/images/make_explain_page.py
With a path the page stays there to be looked at.
"""

import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from make_replay import shoot_all

from agora.cli.explain_page import page
from agora.cli.options import Setup
from agora.cli.source import read_source
from agora.compressor import Compressor

RECORDED = "swe-agent/*marshmallow-1867__function_calling__install-1*.traj"
SHOTS = {
    "explain-page": (1180, 960, "theme=light&step=6&tip=1"),
    "explain-page-light": (1180, 1500, "theme=light&step=6&tip=1"),
    "explain-page-dark": (1180, 1500, "theme=dark&step=6&tip=1"),
    "explain-page-phone": (390, 1500, "theme=dark&step=6"),
}


def make_page() -> str:
    """Return the page of a recorded coding agent."""
    folder = Path(os.environ.get("AGORA_DATA", "../shared/data"))
    [path] = folder.glob(RECORDED)
    source = replace(read_source(str(path)), name="marshmallow-1867.traj")
    setup = Setup(compressor=Compressor(), model="gpt-5-mini")
    return page(setup.compress(source), source, setup)


def main() -> None:
    """Write the page and its pictures."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(sys.argv[1] if len(sys.argv) > 1 else f"{folder}/explain.html")
        source.write_text(make_page(), encoding="utf-8")
        shoot_all(source, SHOTS)


if __name__ == "__main__":
    main()

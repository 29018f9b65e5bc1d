import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, name_of

EXAMPLES = ROOT / "examples"
PRINTED = {
    "agent_loop.py": "of 60 calls were shortened",
    "formats.py": "found as transcript",
    "own_prices.py": "first edit at step",
    "own_scorer.py": "kept by score: [6, 12, 18]",
    "pins_and_recall.py": "is protected: recalled",
}
"""A part of the output of each program."""


def run(path: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(path), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_runs_and_shows_what_it_is_for(name: str) -> None:
    assert PRINTED[name] in run(EXAMPLES / name)


def test_every_example_is_in_the_list_of_examples() -> None:
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    programs = [path for path in EXAMPLES.glob("*.py") if not path.name.startswith("gateway")]

    assert [name_of(path) for path in programs if f"`{path.name}`" not in listed] == []

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "extend" / "first.md"


@pytest.fixture
def printed(tmp_path: Path) -> Path:
    """Return a folder with the files as the page prints them, in a copy of nothing else."""
    scorer, test, use = (block.text for block in blocks(PAGE) if block.language == "python")
    (tmp_path / "trouble.py").write_text(scorer, encoding="utf-8")
    (tmp_path / "test_trouble.py").write_text(test, encoding="utf-8")
    (tmp_path / "use.py").write_text(use, encoding="utf-8")
    # The new file counts as one of the package's without being put there.
    (tmp_path / "conftest.py").write_text(
        "import agora.scorers\nagora.scorers.__path__.append(__file__.rpartition('/')[0])\n",
        encoding="utf-8",
    )
    return tmp_path


def test_the_scorer_of_the_page_has_twenty_lines_and_passes_the_test_of_the_page(
    printed: Path,
) -> None:
    lines = (printed / "trouble.py").read_text(encoding="utf-8").splitlines()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", "."],
        cwd=printed,
        capture_output=True,
        text=True,
        check=False,
    )

    assert sum(bool(line.strip()) for line in lines) <= 20
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_what_the_page_tries_it_with_runs(printed: Path) -> None:
    program = "import conftest, runpy; runpy.run_path('use.py')"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=printed, capture_output=True, text=True, check=False
    )

    assert "steps kept" in done.stdout, done.stderr


def test_the_files_of_the_page_pass_the_linter(printed: Path) -> None:
    pytest.importorskip("ruff", reason="the linter is a development tool")
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--config", str(ROOT / "pyproject.toml"),
         "--no-cache", "--ignore", "D100,D103,S101,INP", "trouble.py", "test_trouble.py"],
        cwd=printed, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout

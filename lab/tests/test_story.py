import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("bm25s", reason="the story plays in WebShop: the extra environments")

from agora_lab.environments.data import data_folder

STORY = Path(__file__).parents[1] / "examples" / "story.py"


def test_the_story_is_told_with_its_bill_and_its_picture(tmp_path: Path) -> None:
    if not (data_folder() / "webshop").exists():
        pytest.skip("WebShop's data is not here; AGORA_DATA says where to look")
    done = subprocess.run(
        [sys.executable, str(STORY), "--orders", "2", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )

    assert done.returncode == 0, done.stderr
    assert "everything" in done.stdout
    assert "bill" in done.stdout
    assert (tmp_path / "story.svg").read_text(encoding="utf-8").startswith("<svg")
    assert (tmp_path / "request.json").exists()

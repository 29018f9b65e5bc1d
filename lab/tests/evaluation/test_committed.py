import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from agora_lab.cli.lab import lab

RESULTS = Path(__file__).parents[3] / "docs" / "results"
FOLDERS = [file.parent for file in sorted(RESULTS.glob("*/rows.jsonl.gz"))]
ANSWERED = ("ablations", "llm", "peers", "readers", "remedies", "sensitivity")
"""Reports that stay as they were written: what they compare was taken out of reports since."""


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_report_in_the_docs_is_of_the_episodes_beside_it(folder: Path) -> None:
    report = json.loads((folder / "report.json").read_bytes())
    with gzip.open(folder / "rows.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]

    episodes = [row for row in rows if "reward" in row]

    assert sum(cell["episodes"] for cell in report["cells"]) == len(episodes)


@pytest.mark.long
@pytest.mark.parametrize(
    "folder", [one for one in FOLDERS if one.name not in ANSWERED], ids=lambda folder: folder.name
)
def test_a_report_in_the_docs_is_made_again_byte_by_byte(folder: Path, tmp_path: Path) -> None:
    made = CliRunner().invoke(lab, ["report", str(folder), "--out", str(tmp_path)])

    assert made.exit_code == 0, made.output
    names = sorted(file.name for file in folder.iterdir())
    assert sorted(file.name for file in tmp_path.iterdir()) == names
    # Another release of matplotlib may draw the same picture with other bytes.
    for name in ("report.md", "report.json", "rows.jsonl.gz"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes(), name

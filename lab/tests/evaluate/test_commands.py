import json
from pathlib import Path

from click.testing import CliRunner
from lab.tests.evaluation.remembering import GRID
from lab.tests.evaluation.test_report import play

from agora_lab.cli.lab import lab


def lab_output(*arguments: str) -> str:
    result = CliRunner().invoke(lab, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def test_a_report_is_written_beside_the_run_and_its_figures_are_printed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    play(run, GRID.replace("tasks = 12", "tasks = 4"))

    said = lab_output("report", str(run))

    assert "agora_paper" in said
    assert (run / "report" / "report.md").is_file()
    sheets = json.loads((run / "report" / "report.json").read_text())["sheets"]
    assert {"gpt-5-mini", "claude-sonnet-4-5", "no cache"} <= sheets.keys()


def test_a_grid_that_cannot_be_played_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_text('name = "g"')
    result = CliRunner().invoke(lab, ["grid", str(file), "--out", str(tmp_path / "run")])

    assert result.exit_code == 1
    assert result.output.strip() == "Error: the grid lacks environments"

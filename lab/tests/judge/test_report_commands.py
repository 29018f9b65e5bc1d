from pathlib import Path

from click.testing import CliRunner
from lab.harness.fidelity_run import write_run

from agora_lab.cli.lab import lab


def test_a_report_is_written_by_one_command_next_to_the_run(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", tasks=2, per_task=1, steps=8)

    shown = CliRunner().invoke(lab, ["fidelity", "report", str(run)])

    assert shown.exit_code == 0, shown.output
    written = run / "report" / "fidelity.md"
    assert written.is_file()
    assert f"Report: {written}" in shown.output
    assert "Coding agents: with 25 % of the tokens outside the floor" in shown.output


def test_two_methods_can_be_compared_that_the_plan_does_not_name(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", tasks=2, per_task=1, steps=8)
    planned = CliRunner().invoke(lab, ["fidelity", "report", str(run)])
    methods = ["--compare", "masking", "newest"]

    shown = CliRunner().invoke(lab, ["fidelity", "report", str(run), *methods])

    assert shown.exit_code == 0, shown.output
    assert shown.output != planned.output
    assert "old results masked" in shown.output
    text = (run / "report" / "fidelity.md").read_text(encoding="utf-8")
    assert "## The comparisons asked for with this report" in text


def test_a_folder_that_is_no_run_is_refused_in_one_sentence(tmp_path: Path) -> None:
    shown = CliRunner().invoke(lab, ["fidelity", "report", str(tmp_path)])

    assert shown.exit_code == 1
    assert "has no plan.json" in shown.output
    assert "Traceback" not in shown.output

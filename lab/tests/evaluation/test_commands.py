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
    assert (run / "report" / "report.html").is_file()
    sheets = json.loads((run / "report" / "report.json").read_text())["sheets"]
    assert {"gpt-5-mini", "claude-sonnet-4-5", "no cache"} <= sheets.keys()


def test_a_grid_that_cannot_be_played_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_text('name = "g"')
    result = CliRunner().invoke(lab, ["grid", str(file), "--out", str(tmp_path / "run")])

    assert result.exit_code == 1
    assert result.output.strip() == "Error: the grid lacks environments"


def test_what_logs_would_have_cost_is_told_for_every_method(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "Act."}, {"role": "user", "content": "Go."}]
    for number in range(12):
        call = {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": "look", "arguments": json.dumps({"at": number})},
        }
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})  # type: ignore[dict-item]
        text = f"room {number} " * 60
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": text})
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"messages": messages, "model": "gpt-4o"}) + "\n")

    lab_output(
        "recorded-bill", str(log), "--methods", "floor,agora", "--out", str(tmp_path / "bill")
    )

    bills = json.loads((tmp_path / "bill" / "recorded-bill.json").read_text())
    assert {bill["method"] for bill in bills} == {"none", "floor", "agora"}
    assert "log, recorded" in (tmp_path / "bill" / "recorded-bill.md").read_text()

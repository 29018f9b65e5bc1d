import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Run, Write, chat

PRICES = '[ours]\nlike = "gpt-4o"\ninput = 10.0\n'


def log(*steps: int, model: str = "gpt-4o", lines: int = 60) -> str:
    """Return a log with a finished trajectory of each length."""
    return "".join(
        json.dumps({"model": model, "messages": [*chat(n, lines=lines), done()]}) + "\n"
        for n in steps
    )


def done() -> dict[str, str]:
    return {"role": "assistant", "content": "It fails because symbol_1 is missing."}


def test_it_tells_what_would_have_been_saved(run: Run, write: Write) -> None:
    result = run("replay", write(log(40, 60), "log.jsonl"))

    assert result.exit_code == 0
    assert "2 trajectories, 100 steps" in result.stdout
    assert "AGORA would have saved $" in result.stdout
    for policy in ("as it was", "AGORA", "paper: every call", "floor only"):
        assert f"\n{policy} " in result.stdout
    assert "gpt-4o (2)" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_when_no_edit_pays_it_says_that_there_is_nothing_to_do(run: Run, write: Write) -> None:
    result = run("replay", write(log(2, 3, lines=2), "log.jsonl"))

    assert result.exit_code == 0
    assert "Nothing to do: no edit would have paid" in result.stdout
    assert "the same on 2" in result.stdout


def test_bad_lines_are_counted_and_the_others_replayed(run: Run, write: Write) -> None:
    result = run("replay", write(log(3) + '{"model": "gpt-4o", "mess\n' + log(4), "log.jsonl"))

    assert result.exit_code == 0
    assert "2 trajectories" in result.stdout
    assert "1 record could not be read:" in result.stdout
    assert "log.jsonl:2" in result.stdout


def test_logs_without_a_trajectory_are_an_error_that_says_what_was_found(
    run: Run, write: Write
) -> None:
    result = run("replay", write({"rows": [1, 2]}, "table.json"))

    assert result.exit_code == 1
    assert "0 trajectories" in result.stdout
    assert "no kind of log that is known" in result.stdout


def test_the_page_and_the_json_have_the_same_figures(
    run: Run, write: Write, tmp_path: Path
) -> None:
    html, out = tmp_path / "out.html", tmp_path / "out.json"

    result = run("replay", write(log(30), "log.jsonl"), "--html", str(html), "--json", str(out))

    assert result.exit_code == 0
    assert str(html) in result.stdout.replace("\n", "")
    report = json.loads(out.read_text(encoding="utf-8"))
    text = html.read_text(encoding="utf-8")
    start = text.index('id="data">') + len('id="data">')
    assert json.loads(text[start : text.index("</script>", start)]) == report
    assert report["sheet_keys"][0] == "own"
    assert "claude-sonnet-5" in report["sheet_keys"]
    assert "by price sheet" in result.stdout


def test_json_on_standard_output_leaves_it_to_the_json(run: Run, write: Write) -> None:
    result = run("replay", write(log(3), "log.jsonl"), "--json", "-")

    assert json.loads(result.stdout)["trajectories"] == 1
    assert "1 trajectory, 3 steps" in result.stderr


def test_one_sheet_for_all_by_family_model_or_file(run: Run, write: Write, tmp_path: Path) -> None:
    path = write(log(3, model="nobody-knows"), "log.jsonl")
    prices = write(PRICES, "prices.toml")

    unknown = run("replay", path)
    assert "no price sheet is known" in unknown.stdout
    assert "Prices: gpt-5." in run("replay", path, "--sheet", "gpt-5").stdout
    assert "Prices: gpt-4o." in run("replay", path, "--sheet", "openai/gpt-4o-2024-08-06").stdout
    assert "Prices: ours." in run("replay", path, "--prices", prices).stdout
    refused = run("replay", path, "--sheet", "gtp-5-mini")
    assert refused.exit_code == 2
    assert "gpt-5-mini" in refused.stderr
    broken = run("replay", path, "--prices", write("[ours]\nread = 3\n", "broken.toml"))
    assert broken.exit_code == 1
    assert "price sheet 'ours'" in broken.stderr


def test_seconds_are_told_for_hardware_of_ones_own(run: Run, write: Write) -> None:
    result = run("replay", write(log(60), "log.jsonl"), "--sheet", "self-hosted")

    assert "AGORA would have saved" in result.stdout
    assert " s of " in result.stdout
    assert "$" not in result.stdout


def test_limit_workers_and_kind_are_obeyed(run: Run, write: Write) -> None:
    path = write(log(1, 2, 3), "log.jsonl")

    limited = run("replay", path, "--limit", "2", "--workers", "2", "--log-kind", "requests")

    assert limited.exit_code == 0
    assert "2 trajectories, 3 steps" in limited.stdout
    assert run("replay", path, "--log-kind", "diary").exit_code == 2


def test_a_missing_file_is_a_usage_error(run: Run) -> None:
    result = run("replay", "nowhere.jsonl")

    assert result.exit_code == 2
    assert "nowhere.jsonl" in result.stderr


def _until_it_has_workers(pid: int) -> None:
    """Wait for child processes, and until they have imported what they need: an interrupt before
    that only ends an import."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    until = time.monotonic() + 60
    while children.exists() and len(children.read_text().split()) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(4)


@pytest.mark.skipif(os.name == "nt", reason="signals are sent to a process group")
def test_ctrl_c_ends_all_processes_without_a_traceback(write: Write) -> None:
    path = write(log(*[200] * 300), "log.jsonl")
    replay = subprocess.Popen(
        [sys.executable, "-m", "agora.cli", "replay", path, "--workers", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    _until_it_has_workers(replay.pid)
    os.killpg(replay.pid, signal.SIGINT)
    _, stderr = replay.communicate(timeout=30)

    assert replay.returncode == 1
    assert "Aborted!" in stderr
    assert "Traceback" not in stderr
    assert gone(replay.pid)


def gone(group: int) -> bool:
    """Wait for the last process of a group; one that has ended is reaped a little later."""
    for _ in range(150):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False

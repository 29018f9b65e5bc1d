import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Run, Write, chat
from tests.replay.test_clearing import compacting

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


def test_the_threshold_and_the_scorer_are_those_of_the_library(run: Run, write: Write) -> None:
    path = write(log(40), "log.jsonl")
    plain = run("replay", path).stdout

    assert run("replay", path, "--min-tokens", "4096", "--scorer", "default").stdout == plain
    left = run("replay", path, "--min-tokens", "9000000").stdout
    assert "Left alone: no prompt reached 9,000,000 tokens" in left
    assert run("replay", path, "--scorer", "features").exit_code == 0
    assert run("replay", path, "--scorer", "featurs").exit_code == 2


def test_when_no_edit_pays_it_says_that_there_is_nothing_to_do(run: Run, write: Write) -> None:
    result = run("replay", write(log(2, 3, lines=600), "log.jsonl"))

    assert result.exit_code == 0
    assert "Nothing to do: no edit would have paid" in result.stdout
    assert "the same on 2" in result.stdout


def test_prompts_below_the_threshold_are_left_alone_and_nothing_is_said_of_what_pays(
    run: Run, write: Write
) -> None:
    result = run("replay", write(log(2, 3, lines=2), "log.jsonl"))

    assert "Left alone: no prompt reached 4,096 tokens" in result.stdout
    assert "no edit would have paid" not in result.stdout


def test_a_conversation_without_steps_asks_whether_the_agent_acts_by_text(
    run: Run, write: Write
) -> None:
    said = [{"role": "user", "content": "Repair it."}]
    for n in range(12):
        said += [
            {"role": "assistant", "content": f"sed -n {n}p app.py"},
            {"role": "user", "content": f"line {n} of the file"},
        ]
    path = write(json.dumps({"model": "gpt-4o", "messages": [*said, done()]}) + "\n", "text.jsonl")

    reported = run("replay", path)
    helped = run("replay", path, "--observations", "user")

    assert "acts by text? 0 steps seen; pass observations=user" in " ".join(reported.stdout.split())
    assert "12 steps" in helped.stdout


def test_billed_and_simulated_are_told_apart(run: Run, write: Write) -> None:
    messages = [*chat(12, lines=60), done()]
    calls = sum(message["role"] == "assistant" for message in messages)
    usage = [{"prompt_tokens": 5_000 + n, "cached_tokens": 4_000} for n in range(calls)]
    value = {"model": "gemini-9-pro", "messages": messages, "usage": usage}

    result = run("replay", write(json.dumps(value) + "\n", "log.jsonl"))

    assert f"Billed by the provider for {calls} calls" in result.stdout
    assert "Simulated: $" in result.stdout
    assert "No price sheet for gemini-9-pro: priced as the family gemini." in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_the_model_can_be_named(run: Run, write: Write) -> None:
    result = run("replay", write(log(3, model="nobody-knows"), "log.jsonl"), "--model", "gpt-5")

    assert "gpt-5 (1)" in result.stdout


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


def test_a_folder_without_logs_is_an_error_that_says_what_would_be_read(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("no log")

    result = run("replay", str(tmp_path))

    assert result.exit_code == 1
    assert "0 trajectories" not in result.output
    assert f"nothing to replay in {tmp_path}" in result.stderr
    assert "*.jsonl" in result.stderr
    assert "claude-code" in result.stderr


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
    assert "No price sheet is known" in unknown.stdout
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


def _until_its_workers_work(pid: int) -> None:
    """Wait for two child processes that Ctrl-C may end: they put off the signal until then."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    deadline = time.monotonic() + 120
    while sum(map(_dies_of_ctrl_c, children.read_text().split())) < 2:
        assert time.monotonic() < deadline, "no workers came up"
        time.sleep(0.05)


def _dies_of_ctrl_c(pid: str) -> bool:
    """Tell whether the signal is neither blocked nor ignored nor caught, as `_begin` leaves it."""
    try:
        program = Path(f"/proc/{pid}/cmdline").read_bytes()
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    masks = [
        int(line[8:], 16) for line in lines if line.startswith(("SigBlk:", "SigIgn:", "SigCgt:"))
    ]
    bit = 1 << (signal.SIGINT - 1)
    return b"spawn_main" in program and not any(mask & bit for mask in masks)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="looks at processes in /proc")
def test_ctrl_c_ends_all_processes_without_a_traceback(write: Write) -> None:
    path = write(log(*[200] * 300), "log.jsonl")
    replay = subprocess.Popen(
        [sys.executable, "-m", "agora.cli", "replay", path, "--workers", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    _until_its_workers_work(replay.pid)
    os.killpg(replay.pid, signal.SIGINT)
    _, stderr = replay.communicate(timeout=30)

    assert replay.returncode == 130
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


def test_a_trajectory_has_one_number_on_the_page_and_where_it_is_explained(
    run: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "logs"
    (folder / "b").mkdir(parents=True)
    (folder / "a.jsonl").write_text(log(3, 9))
    (folder / "b" / "c.jsonl").write_text(log(5))
    (folder / "d.jsonl").write_text("{}\n" + log(7, 2))
    page = tmp_path / "page.html"

    run("replay", str(folder), "--html", str(page), "--json", str(tmp_path / "all.json"))

    rows = json.loads((tmp_path / "all.json").read_text())["rows"]
    assert sorted(row["number"] for row in rows) == list(range(5))
    # By cost, the first on the page is not the first in the logs.
    assert rows[0]["number"] == 1
    for row in rows:
        told = run("explain", f"{folder}#{row['number']}", "--json", "-")
        assert len(json.loads(told.stdout)["steps"]) == row["steps"], row["number"]


def test_of_several_paths_each_has_its_own_numbers(run: Run, tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text(log(3, 9))
    second.write_text(log(5))

    run("replay", str(first), str(second), "--json", str(tmp_path / "all.json"))

    rows = json.loads((tmp_path / "all.json").read_text())["rows"]
    places = {f"{row['path']}#{row['number']}": row["steps"] for row in rows}
    assert places == {"a.jsonl#0": 3, "a.jsonl#1": 9, "b.jsonl#0": 5}


def test_what_a_provider_offers_itself_is_a_row_only_where_it_exists(
    run: Run, write: Write
) -> None:
    path = write(log(30, model="gpt-5"), "log.jsonl")

    own = run("replay", path).stdout
    claude = run("replay", path, "--sheet", "claude-opus-5").stdout
    both = run("replay", path, "--sheets", "all").stdout

    assert "provider's clearing" not in own
    assert "provider's clearing" in claude
    [line] = [line for line in both.splitlines() if line.startswith("gpt-4o ")]
    assert " -  " in line


def test_an_agents_own_compactions_are_told(run: Run, tmp_path: Path) -> None:
    compacting(tmp_path)

    said = " ".join(run("replay", str(tmp_path)).stdout.split())

    assert "Compacted by the agent itself: 1 time, at 9,321 to 9,321 tokens." in said
    assert "Of 1 step after it, 0 repeated an earlier one and 0 read a file again" in said


def test_the_share_of_all_actions_is_told_beside_that_of_those_in_need(
    run: Run, write: Write
) -> None:
    messages = chat(12)
    for n, message in enumerate(messages[4::4], start=1):
        # Every second action uses a name that the one before it has brought.
        [call] = message["tool_calls"]
        call["function"]["arguments"] = json.dumps({"path": f"symbol_{2 * n - 1}"})
    path = write(json.dumps({"model": "gpt-5", "messages": messages}) + "\n", "log.jsonl")

    result = run("replay", path, "--json", "-", "--sheet", "self-hosted", "--min-tokens", "0")
    totals = json.loads(result.stdout)["totals"]["self-hosted"]["floor only"]

    assert 0 < totals["needing"] < totals["acting"]
    assert totals["met_share"] <= totals["found_share"]
    said = " ".join(result.stderr.split())
    assert f"floor only {totals['found_share']:.1%}." in said
    assert "Of all actions, including those that need no such name: AGORA " in said

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.processes import children_of
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
    for policy in ("as it was", "AGORA"):
        assert f"\n{policy} " in result.stdout
    assert "gpt-4o (2)" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 100


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

    said = " ".join(result.stdout.split())
    assert f"for {calls} calls with usage; the simulation says $" in said
    assert "No price sheet for gemini-9-pro: priced as the family gemini." in said
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
    assert "not a kind of log that is known" in " ".join(result.stdout.split())


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
    assert list(report["totals"])[:2] == ["own", "claude-sonnet-5"]
    assert "by price sheet" in result.stdout


def test_json_on_standard_output_leaves_it_to_the_json(run: Run, write: Write) -> None:
    result = run("replay", write(log(3), "log.jsonl"), "--json", "-")

    assert json.loads(result.stdout)["trajectories"] == 1
    assert "1 trajectory, 3 steps" in result.stderr


def test_one_sheet_for_all_by_model_or_file(run: Run, write: Write, tmp_path: Path) -> None:
    path = write(log(3, model="nobody-knows"), "log.jsonl")
    prices = write(PRICES, "prices.toml")

    unknown = run("replay", path)
    assert "No price sheet is known" in unknown.stdout
    assert "gpt-5 (1)" in run("replay", path, "--model", "gpt-5").stdout
    assert "gpt-4o (1)" in run("replay", path, "--model", "openai/gpt-4o-2024-08-06").stdout
    assert "Prices: ours." in run("replay", path, "--prices", prices).stdout
    assert "ours (1)" in run("replay", path, "--prices", prices, "--model", "ours").stdout
    refused = run("replay", path, "--model", "gtp-5-mini")
    assert refused.exit_code == 2
    assert "gpt-5-mini" in refused.stderr
    broken = run("replay", path, "--prices", write("[ours]\nread = 3\n", "broken.toml"))
    assert broken.exit_code == 1
    assert "price sheet 'ours'" in broken.stderr


def test_seconds_are_told_for_hardware_of_ones_own(run: Run, write: Write) -> None:
    result = run("replay", write(log(60), "log.jsonl"), "--model", "self-hosted")

    assert "AGORA would have saved" in result.stdout
    assert " s of " in result.stdout
    assert "$" not in result.stdout


def test_limit_and_workers_are_obeyed(run: Run, write: Write) -> None:
    path = write(log(1, 2, 3), "log.jsonl")

    limited = run("replay", path, "--limit", "2", "--workers", "2")

    assert limited.exit_code == 0
    assert "2 trajectories, 3 steps" in limited.stdout


def test_a_missing_file_is_a_usage_error(run: Run) -> None:
    result = run("replay", "nowhere.jsonl")

    assert result.exit_code == 2
    assert "nowhere.jsonl" in result.stderr


@pytest.mark.skipif(os.name == "nt", reason="groups of processes are those of POSIX")
def test_ctrl_c_ends_all_processes(write: Write) -> None:
    path = write(log(*[200] * 300), "log.jsonl")
    replay = subprocess.Popen(
        [sys.executable, "-m", "agora.cli", "replay", path, "--workers", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    # Its workers are there, so it has begun; at once they would not ignore the signal yet.
    until = time.monotonic() + 60
    while len(children_of(replay.pid)) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(3)
    os.killpg(replay.pid, signal.SIGINT)
    _, stderr = replay.communicate(timeout=60)

    assert replay.returncode == 130
    assert "Aborted!" in stderr
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
    run: Run, write: Write, tmp_path: Path
) -> None:
    path = write(log(30, model="gpt-5"), "log.jsonl")

    own = run("replay", path).stdout
    claude = run("replay", path, "--model", "claude-opus-5").stdout
    both = run("replay", path, "--html", str(tmp_path / "page.html")).stdout

    assert "Anthropic context editing" not in own
    assert "Anthropic context editing" in claude
    [line] = [line for line in both.splitlines() if line.startswith("gpt-4o ")]
    assert line.rstrip().endswith(" -")

import json
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from agora import Compressor
from tests.cli.conftest import EVERY_CALL, Run, Write, chat
from tests.command import program


def test_explain_writes_every_decision(run: Run, write: Write) -> None:
    result = run("explain", *EVERY_CALL, write(chat(12)), "--json", "-")
    found = json.loads(result.stdout)
    compression = Compressor(edits="every_call").compress(chat(12))

    assert found["tokens_after"] == compression.tokens_after
    assert [(step["number"], step["outcome"]) for step in found["steps"]] == [
        (decision.number, decision.outcome) for decision in compression.decisions
    ]


def test_explain_draws_its_picture_beside_a_file_of_figures(
    run: Run, write: Write, tmp_path: Path
) -> None:
    target = tmp_path / "figures.json"
    result = run("explain", *EVERY_CALL, write(chat(12)), "--json", str(target))

    assert "12 steps: " in result.stdout
    assert json.loads(target.read_text())["changed"] is True


def test_compress_writes_its_account_to_a_file_and_never_among_the_messages(
    run: Run, write: Write, tmp_path: Path
) -> None:
    target = tmp_path / "account.json"
    result = run("compress", *EVERY_CALL, write(chat(12)), "--json", str(target))
    refused = run("compress", *EVERY_CALL, write(chat(12)), "--json", "-")

    assert isinstance(json.loads(result.stdout), list)
    assert json.loads(target.read_text())["reason"] == "compressed"
    assert refused.exit_code == 2
    assert "name a file" in refused.stderr


@pytest.mark.parametrize("command", ["compress", "explain", "replay"])
def test_a_shell_completes_models_that_have_prices(command: str) -> None:
    completing = ShellComplete(program, {}, "agora", "_AGORA_COMPLETE")

    found = [
        item.value for item in completing.get_completions([command, "--model"], "claude-sonnet-")
    ]

    assert "claude-sonnet-4-5" in found
    assert all(name.startswith("claude-sonnet-") for name in found)
    every = [item.value for item in completing.get_completions([command, "--model"], "")]
    assert "gpt-5-mini" in every
    assert "unknown" not in every


def test_a_shell_completes_commands_without_loading_them() -> None:
    completing = ShellComplete(program, {}, "agora", "_AGORA_COMPLETE")

    assert "explain" in [item.value for item in completing.get_completions([], "ex")]

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from agora.cli.group import agora
from agora.compressor import Compressor
from tests.cli.conftest import EVERY_CALL, Run, Write, chat

WITHOUT = {
    "agora demo": "it shows what `explain` and `replay` say, and they have it",
    "agora experiment start": "it writes the gateway's file",
    "agora experiment status": "`experiment report` has the figures",
    "agora experiment stop": "it only stops",
    "agora extproc": "it runs until it is stopped; `top` has its figures",
    "agora serve": "it runs until it is stopped; `top` has its figures",
    "agora lab fidelity prepare": "it prints a path",
    "agora lab fidelity probes": "`fidelity report` has the figures",
    "agora lab fidelity copy": "writes the files of a run",
    "agora lab fidelity report": "fidelity.json is in the report's folder",
    "agora lab fidelity run": "`fidelity report` has the figures",
    "agora lab grid": "`report` has the figures",
    "agora lab report": "report.json is in the report's folder",
    "agora lab serve-llm": "it runs until it is stopped",
    "agora lab teach card": "it writes card.json",
    "agora lab teach lessons": "it prints how many there are now",
    "agora lab teach train": "curve.jsonl is in the student's folder",
    "agora report": "it writes a bundle to look through and attach",
    "agora statusline": "one line for a status bar, which reads no JSON",
    "agora train": "metrics.json is in the bundle",
}
"""Commands without `--json`, and why."""


def commands(
    command: click.Command, context: click.Context, name: str
) -> Iterator[tuple[str, click.Command]]:
    """Yield every command that does something, with the words that run it."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    for below in command.list_commands(context):
        found = command.get_command(context, below)
        assert found is not None
        inner = click.Context(found, parent=context, info_name=below)
        yield from commands(found, inner, f"{name} {below}")


def test_every_command_that_prints_figures_prints_them_as_json_too() -> None:
    ours = {
        name: command
        for name, command in commands(agora, click.Context(agora, info_name="agora"), "agora")
        if command.callback is not None
        and command.callback.__module__.partition(".")[0] in ("agora", "agora_lab")
    }
    without = {
        name
        for name, command in ours.items()
        if not any("--json" in option.opts for option in command.params)
    }

    assert without == WITHOUT.keys() & ours.keys()


def test_explain_writes_every_decision(run: Run, write: Write) -> None:
    result = run("explain", *EVERY_CALL, write(chat(12)), "--json", "-")
    found = json.loads(result.stdout)
    compression = Compressor(schedule="every_call").compress(chat(12))

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


def test_validate_writes_the_rules_and_keeps_its_exit_code(run: Run, write: Write) -> None:
    broken = run("validate", write([*chat(1)[:3]]), "--json", "-")
    legal = run("validate", write(chat(1)), "--json", "-")

    assert broken.exit_code == 1
    assert [rule["rule"] for rule in json.loads(broken.stdout)["broken"]] == ["O1"]
    assert json.loads(legal.stdout) | {"source": ""} == {
        "source": "",
        "format": "openai",
        "messages": 4,
        "legal": True,
        "broken": [],
    }


@pytest.mark.parametrize("command", ["compress", "explain", "replay"])
def test_a_shell_completes_models_that_have_prices(command: str) -> None:
    completing = ShellComplete(agora, {}, "agora", "_AGORA_COMPLETE")

    found = [
        item.value for item in completing.get_completions([command, "--model"], "claude-sonnet-")
    ]

    assert "claude-sonnet-4-5" in found
    assert all(name.startswith("claude-sonnet-") for name in found)
    every = [item.value for item in completing.get_completions([command, "--model"], "")]
    assert "gpt-5-mini" in every
    assert "unknown" not in every


def test_a_shell_completes_commands_without_loading_them() -> None:
    completing = ShellComplete(agora, {}, "agora", "_AGORA_COMPLETE")

    assert "explain" in [item.value for item in completing.get_completions([], "ex")]

"""The `agora doctor` command."""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console

from agora.wrapping.agents import AGENTS
from agora.wrapping.doctor import Finding, examine
from agora.wrapping.live import ask

_MARKS = {"ok": "✓", "note": "·", "problem": "✗"}
_STYLES = {"ok": "green", "note": "yellow", "problem": "red"}


@click.command()
@click.argument("agent", required=False, type=click.Choice(tuple(AGENTS)), metavar="[AGENT]")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option(
    "--live",
    is_flag=True,
    help="Instead, hold a made-up conversation with your provider. Costs money.",
)
@click.option("--model", help="With --live: the model to ask; by default a cheap one.")
@click.option(
    "--max-cents",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    help="With --live: the most that all calls together may cost, at list prices.",
)
def doctor(
    agent: str | None,
    *,
    as_json: bool,
    live: bool,
    model: str | None,
    max_cents: float,
) -> None:
    """Check what `agora wrap` needs, and say what it would change for each agent.

    Checks settings, the age of prices and the agents that are installed, and
    sends one made-up request through a proxy to a fake provider on this
    machine. Every problem comes with its remedy, and the exit code is 1 if there
    is one. With AGENT, such as claude, only that agent is checked, and it must
    be installed.

    With --live it makes four calls to the provider whose key is set in
    ANTHROPIC_API_KEY, GEMINI_API_KEY or OPENAI_API_KEY: a conversation whole,
    continued, shortened, and continued again. They show whether the provider
    accepts an edit, and caches prompts as AGORA expects.
    """
    findings = (
        ask(os.environ, model, max_cents)
        if live
        else examine(os.environ, Path.home(), Path.cwd(), agent=agent)
    )
    console = Console(highlight=False, soft_wrap=True)
    seen = []
    for finding in findings:
        seen.append(finding)
        if not as_json:
            _show(finding, console)
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in seen], indent=1))
    sys.exit(1 if any(finding.state == "problem" for finding in seen) else 0)


def _show(finding: Finding, console: Console) -> None:
    console.print(_MARKS[finding.state], style=_STYLES[finding.state], end=" ")
    console.print(f"{finding.what}: {finding.found}", markup=False)
    for line in finding.changes:
        console.print(f"    {line}", markup=False)
    if finding.remedy:
        console.print(f"    → {finding.remedy}", markup=False)

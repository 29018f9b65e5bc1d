"""The `agora doctor` command."""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console

from agora.wrapping.doctor import Finding, examine

_MARKS = {"ok": "✓", "note": "·", "problem": "✗"}
_STYLES = {"ok": "green", "note": "yellow", "problem": "red"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option(
    "--ask",
    is_flag=True,
    help="Also ask each provider for a page, without a key. Nothing is asked otherwise.",
)
@click.option(
    "--settings",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Take settings from this file instead of ./agora.toml or ~/.config/agora/agora.toml.",
)
def doctor(*, as_json: bool, ask: bool, settings: Path | None) -> None:
    """Check what `agora wrap` needs, and say what it would change for each agent.

    Looks for packages, agents, settings, a free port and old prices, and sends
    one made-up request through a gateway to a fake provider on this machine.
    Every problem has its remedy; the exit code is 1 if there is one.
    """
    found = list(examine(os.environ, Path.home(), Path.cwd(), settings, ask=ask))
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found], indent=1))
    else:
        console = Console(highlight=False, soft_wrap=True)
        for one in found:
            _show(one, console)
    sys.exit(1 if any(one.state == "problem" for one in found) else 0)


def _show(finding: Finding, console: Console) -> None:
    console.print(_MARKS[finding.state], style=_STYLES[finding.state], end=" ")
    console.print(f"{finding.what}: {finding.found}", markup=False)
    for line in finding.changes:
        console.print(f"    {line}", markup=False)
    if finding.remedy:
        console.print(f"    → {finding.remedy}", markup=False)

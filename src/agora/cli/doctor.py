"""The `agora doctor` command."""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import click
from click.core import ParameterSource
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from agora.wrapping.agents import AGENTS
from agora.wrapping.capped import CannotAskError
from agora.wrapping.doctor import Finding, examine
from agora.wrapping.live import (
    ENFORCED_SINCE,
    PLAYED_CALLS,
    QUESTIONS,
    Answered,
    Report,
    live_account,
)
from agora.wrapping.live import ask as ask_live

_MARKS = {"ok": "✓", "note": "·", "problem": "✗"}
_STYLES = {"ok": "green", "note": "yellow", "problem": "red"}
_STATES = {"as assumed": "green", "differs": "red", "open": "yellow"}
_OF_LIVE = ("model", "max_cents", "base_url", "yes")
_NOT_OF_LIVE = ("ask", "settings")
_MOST_CENTS = 1_000


@click.command()
@click.argument("agent", required=False, type=click.Choice(tuple(AGENTS)), metavar="[AGENT]")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option(
    "--ask",
    is_flag=True,
    help="Also check that each provider can be reached, without a key. By default none is called.",
)
@click.option(
    "--settings",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Take settings from this file instead of ./agora.toml or ~/.config/agora/agora.toml.",
)
@click.option(
    "--live",
    is_flag=True,
    help="Instead, test on a live Claude account what AGORA assumes about thinking. Costs money.",
)
@click.option(
    "--model", default="claude-haiku-5-5", show_default=True, help="With --live: the model to test."
)
@click.option(
    "--max-cents",
    type=click.FloatRange(0, _MOST_CENTS),
    default=5,
    show_default=True,
    help="With --live: the most that all calls together may cost, at list prices.",
)
@click.option(
    "--base-url",
    default="https://api.anthropic.com",
    show_default=True,
    help="With --live: the provider's address.",
)
@click.option("--yes", is_flag=True, help="With --live: send without asking first.")
@click.pass_context
def doctor(
    context: click.Context,
    agent: str | None,
    *,
    as_json: bool,
    ask: bool,
    settings: Path | None,
    live: bool,
    model: str,
    max_cents: float,
    base_url: str,
    yes: bool,
) -> None:
    """Check what `agora wrap` needs, and say what it would change for each agent.

    Checks packages, agents, settings, a free port and the age of prices, and
    sends one made-up request through a gateway to a fake provider on this
    machine. Every problem comes with its remedy, and the exit code is 1 if there
    is one. With AGENT, such as claude, only that agent is checked, and it must
    be installed.

    With --live it does none of this. It uses the account of ANTHROPIC_API_KEY
    to test what the provider does with thinking that is bound to the prompt, by
    sending a made-up conversation again in several variants. The exit code is 0
    if everything is as AGORA assumes, 1 if something differs, 2 if something
    could not be tested. The key is never printed.
    """
    _check_options(context, live=live)
    if live:
        if agent is not None:
            raise click.UsageError(f"--live tests an account, not an agent: leave {agent} out")
        sys.exit(_ask(model, max_cents, base_url, yes=yes, as_json=as_json))
    found = list(examine(os.environ, Path.home(), Path.cwd(), settings, agent=agent, ask=ask))
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found], indent=1))
    else:
        console = Console(highlight=False, soft_wrap=True)
        for one in found:
            _show(one, console)
    sys.exit(1 if any(one.state == "problem" for one in found) else 0)


def _check_options(context: click.Context, *, live: bool) -> None:
    for name in _NOT_OF_LIVE if live else _OF_LIVE:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = "--" + name.replace("_", "-")
            with_live = "cannot be used with --live" if live else "needs --live"
            raise click.UsageError(f"{option} {with_live}")


def _show(finding: Finding, console: Console) -> None:
    console.print(_MARKS[finding.state], style=_STYLES[finding.state], end=" ")
    console.print(f"{finding.what}: {finding.found}", markup=False)
    for line in finding.changes:
        console.print(f"    {line}", markup=False)
    if finding.remedy:
        console.print(f"    → {finding.remedy}", markup=False)


def _ask(model: str, max_cents: float, base_url: str, *, yes: bool, as_json: bool) -> int:
    """Ask a live account, show what it answered, and return the exit code."""
    key = os.environ.get("ANTHROPIC_API_KEY", "")
    try:
        account = live_account(key, model=model, base_url=base_url, max_cents=max_cents)
    except CannotAskError as error:
        raise click.UsageError(str(error)) from None
    aside = Console(highlight=False, stderr=True)
    most = PLAYED_CALLS + len(QUESTIONS)
    aside.print(
        f"This sends up to {most} requests for {model} to {account.base_url}: a made-up puzzle "
        f"with two made-up tools, nothing of yours. They cost the account of ANTHROPIC_API_KEY at "
        f"most {max_cents:g} cents at list prices.",
        markup=False,
    )
    if not yes:
        if not _has_terminal():
            raise click.UsageError("there is no terminal to confirm this on; pass --yes to send it")
        if not click.confirm("Send them?", err=True):
            return 2
    with aside.status("Asking, a few seconds for each request"):
        report = ask_live(account)
    if as_json:
        click.echo(json.dumps(asdict(report), indent=1))
    else:
        _show_report(report, Console(highlight=False))
    return report.exit_code


def _has_terminal() -> bool:
    return sys.stdin.isatty()


def _show_report(report: Report, console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    table.add_column("", justify="right", style="dim")
    for name in ("sent", "AGORA assumes", "seen"):
        table.add_column(name)
    table.add_column("", no_wrap=True)
    for one in report.answers:
        assumed = one.assumed + "*" if one.or_older else one.assumed
        state = Text(one.state, style=_STATES[one.state])
        table.add_row(str(one.number), Text(one.question), assumed, Text(one.seen), state)
    console.print(table)
    older = next((one.or_older for one in report.answers if one.or_older), "")
    if older:
        note = f"* {older} on accounts from before {ENFORCED_SINCE}, which is as assumed too"
        console.print(note, style="dim", markup=False)
    for one in report.answers:
        if one.state == "differs":
            _show_difference(one, console)
    if report.stopped:
        console.print(f"Stopped: {report.stopped}.", markup=False)
    calls = "1 call" if report.calls == 1 else f"{report.calls} calls"
    console.print(
        f"{report.model}: {calls}, at most {report.cents:.2f} cents at list prices.", markup=False
    )
    if report.exit_code == 1:
        console.print("Run it with --json for a report to attach to an issue.", markup=False)


def _show_difference(answered: Answered, console: Console) -> None:
    console.print(f"{answered.number} differs. {answered.matters}", markup=False)
    lines = [f"The provider says: {answered.said}"] if answered.said else []
    lines += [f"Request {answered.request_id}"] if answered.request_id else []
    for line in lines:
        console.print(Padding.indent(Text(line), 2))

"""The `agora wrap` command: an agent with a gateway of its own, for as long as it runs."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agora.cli.options import ceiling_option, tool_options
from agora.errors import AgoraError, MissingExtraError, nearest
from agora.gateway.config import Config
from agora.wrapping.agents import AGENTS, Agent, agent_for
from agora.wrapping.plan import Plan, Seen, around_proxies
from agora.wrapping.settings import Tables, configuration, find, read, state, tables_for

if TYPE_CHECKING:
    from agora.wrapping.quota import Weight

_NOT_FOUND = 127
_NOT_RUNNABLE = 126


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--settings",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Take settings from this file instead of ./agora.toml or ~/.config/agora/agora.toml.",
)
@click.option("--shadow", is_flag=True, help="Change nothing; only count what would be saved.")
@ceiling_option()
@tool_options
@click.option(
    "--as",
    "known_as",
    type=click.Choice(tuple(AGENTS)),
    help="Treat the command as this agent, for example a script that uses its SDK.",
)
@click.option(
    "--log",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the gateway's log in this file; otherwise it is deleted.",
)
@click.option(
    "--account",
    "--json",
    "account",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the figures of the last line to this file, as JSON.",
)
@click.option("--quiet", is_flag=True, help="Do not print the line at the end.")
@click.argument("agent", metavar="AGENT")
@click.argument("arguments", metavar="[--] [ARGUMENTS]...", nargs=-1, type=click.UNPROCESSED)
def wrap(
    agent: str,
    arguments: tuple[str, ...],
    *,
    settings: Path | None,
    shadow: bool,
    ceiling: float | None,
    tools: Mapping[str, tuple[str, ...]],
    known_as: str | None,
    log: Path | None,
    account: Path | None,
    quiet: bool,
) -> None:
    """Run a coding agent through AGORA, and print what the session cost and saved.

    AGENT is claude, codex, opencode, pi, gemini, qwen, openhands,
    mini-swe-agent, aider, or any command that reads OPENAI_BASE_URL,
    ANTHROPIC_BASE_URL or a similar variable.

    \b
        agora wrap claude
        agora wrap codex exec "fix the tests"
        agora wrap --as openhands -- python my_agent.py

    A gateway starts on a free local port and stops with the agent. None of
    your files is changed: the agent learns the gateway's address from variables
    and arguments. If you have set a provider address, the gateway sends requests
    there. Your keys pass through. Terminal, signals and exit code are the
    agent's own.
    """  # noqa: D301 - the mark that keeps click from joining the lines
    if not hasattr(os, "waitstatus_to_exitcode") or os.name != "posix":
        raise click.ClickException("agora wrap needs Linux or macOS; use agora serve elsewhere")
    if arguments[:1] == ("--",):
        arguments = arguments[1:]
    found = AGENTS[known_as] if known_as else agent_for(agent)
    program = _program(agent, found, known_as)
    with tempfile.TemporaryDirectory(prefix="agora-wrap-") as folder:
        compression: dict[str, Any] = {name: list(names) for name, names in tools.items()}
        if ceiling is not None:
            compression["ceiling"] = ceiling
        asked = _Asked(settings, log, account, shadow=shadow, quiet=quiet, compression=compression)
        code = _session(found, (program, *arguments), Path(folder), asked)
    sys.exit(code)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the command line says besides the agent."""

    settings: Path | None
    log: Path | None
    account: Path | None
    shadow: bool
    quiet: bool
    compression: Mapping[str, Any]
    """Settings of the gateway's table of that name."""


def _program(name: str, agent: Agent, known_as: str | None) -> str:
    """Return the program to run, or end as a shell would."""
    is_name = known_as is None and name in AGENTS
    for one in agent.programs if is_name else (name,):
        if (path := shutil.which(one)) is not None:
            return path
    there = Path(name).exists() and "/" in name
    remedy = f"; install it with: {agent.install}" if is_name else nearest(name, AGENTS)
    click.echo(f"agora: {name} {'cannot be run' if there else 'was not found'}{remedy}", err=True)
    sys.exit(_NOT_RUNNABLE if there else _NOT_FOUND)


def _session(agent: Agent, command: tuple[str, ...], folder: Path, asked: _Asked) -> int:
    """Run the agent with a gateway, or without if there can be none, and return its exit code."""
    try:
        from agora.wrapping import quota
        from agora.wrapping.account import read_account
        from agora.wrapping.gateway import Gateway, NotStartedError
        from agora.wrapping.run import run
        from agora.wrapping.status import METRICS
    except ImportError as error:
        raise click.ClickException(str(MissingExtraError("agora wrap", "wrap"))) from error
    environment = dict(os.environ)
    home, here = Path.home(), Path.cwd()
    settings = asked.settings or find(here, home, environment)
    seen = Seen(environment, home, here, "http://127.0.0.1:0", folder, command[1:])
    kept = state(home, environment) / "quota.jsonl"
    earlier = quota.read_calls(kept)
    shadow = asked.shadow or _loses(quota.weight_of(earlier), quiet=asked.quiet)
    tables, config = _configured(
        settings, agent.plan(seen), environment, shadow=shadow, compression=asked.compression
    )
    if not config.upstreams:
        _say_notes(agent, agent.plan(seen))
        return run(command, environment)
    with Gateway(tables, folder, environment, asked.log or folder / "gateway.log") as gateway:
        try:
            gateway.start()
        except NotStartedError as error:
            # An agent that costs what it always cost is better than none.
            said = f"agora: the gateway did not start, so {agent.title} runs without it: {error}"
            click.echo(said, err=True)
            return run(command, environment)
        seen = Seen(environment, home, here, gateway.url, folder, command[1:])
        plan = agent.plan(seen)
        for name, text in plan.files.items():
            (folder / name).write_text(text, encoding="utf-8")
        told = {**environment, **around_proxies(environment), **plan.environment}
        told[METRICS] = str(gateway.metrics)
        code = run((command[0], *plan.arguments, *command[1:]), told)
    account = replace(
        read_account(gateway.metrics, gateway.restarts),
        quota=quota.quota_of(quota.read_calls(gateway.quota), earlier),
    )
    with suppress(OSError, UnicodeDecodeError):
        quota.keep(gateway.quota, kept)
    if asked.account is not None:
        asked.account.write_text(json.dumps(asdict(account), indent=1) + "\n", encoding="utf-8")
    if not asked.quiet:
        click.echo(account.line(), err=True)
    return code


def _loses(weight: "Weight | None", *, quiet: bool) -> bool:
    """Tell whether edits lose by what earlier sessions show of the quota, and say so."""
    if weight is None or not weight.edits_lose:
        return False
    if not quiet:
        click.echo(
            "agora: not editing: in your plan's quota a cached token counts as at most "
            f"{weight.high:.3f} of an uncached one (from {weight.changes} calls), and below "
            f"{weight.break_even:.3f} an edit costs more quota than it saves",
            err=True,
        )
    return True


def _configured(
    settings: Path | None,
    plan: Plan,
    environment: dict[str, str],
    *,
    shadow: bool,
    compression: Mapping[str, Any],
) -> tuple[Tables, Config]:
    """Return the gateway's configuration, or end with everything that is wrong with it."""
    try:
        tables = tables_for(
            read(settings), plan, environment, shadow=shadow, compression=compression
        )
        return tables, configuration(tables, str(settings or "what the environment says"))
    except AgoraError as error:
        raise click.ClickException(str(error)) from error


def _say_notes(agent: Agent, plan: Plan) -> None:
    why = "; ".join(plan.notes) or "it has no address to replace"
    click.echo(f"agora: {agent.title} runs without a gateway: {why}", err=True)

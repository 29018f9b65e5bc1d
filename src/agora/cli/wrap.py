"""The `agora wrap` command: an agent with a proxy of its own, for as long as it runs."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from agora.cli.options import tool_option
from agora.core.settings import ToolKind
from agora.errors import AgoraError, nearest
from agora.service import Settings
from agora.wrapping.agents import AGENTS, Agent, agent_for
from agora.wrapping.keeper import Keeper, NotStartedError
from agora.wrapping.line import closing_line
from agora.wrapping.plan import Seen, around_proxies
from agora.wrapping.run import run
from agora.wrapping.settings import find, settings_for
from agora.wrapping.status import STATE

_NOT_FOUND = 127
_NOT_RUNNABLE = 126


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--settings",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Take settings from this file instead of ./agora.toml or ~/.config/agora/agora.toml.",
)
@click.option("--shadow", is_flag=True, help="Change nothing; only count what would be saved.")
@tool_option
@click.option(
    "--as",
    "known_as",
    type=click.Choice(tuple(AGENTS)),
    help="Treat the command as this agent, for example a script that uses its SDK.",
)
@click.option(
    "--log",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the proxy's log in this file, a line for each call; otherwise it is deleted.",
)
@click.option(
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
    tools: Mapping[str, ToolKind],
    known_as: str | None,
    log: Path | None,
    account: Path | None,
    quiet: bool,
) -> None:
    """Run a coding agent through AGORA, and print what the session cost and saved.

    AGENT is claude, codex, opencode, pi, gemini, qwen, openhands,
    mini-swe-agent, or any command that reads OPENAI_BASE_URL,
    ANTHROPIC_BASE_URL or a similar variable.

    \b
        agora wrap claude
        agora wrap codex exec "fix the tests"
        agora wrap --as openhands -- python my_agent.py

    A proxy starts on a free local port and stops with the agent. None of
    your files is changed: the agent learns the proxy's address from variables
    and arguments. If you have set a provider address, the proxy sends requests
    there. Your keys pass through. Terminal, signals and exit code are the
    agent's own.
    """  # noqa: D301 - the mark that keeps click from joining the lines
    if arguments[:1] == ("--",):
        arguments = arguments[1:]
    kind = AGENTS[known_as] if known_as else agent_for(agent)
    program = _program(agent, kind, known_as)
    options: dict[str, Any] = {"tools": dict(tools)} if tools else {}
    try:
        path = settings or find(Path.cwd(), Path.home(), os.environ)
        loaded = settings_for(path, shadow=shadow, compression=options)
    except AgoraError as error:
        raise click.ClickException(str(error)) from error
    with tempfile.TemporaryDirectory(prefix="agora-wrap-") as name:
        folder = Path(name)
        with Keeper(loaded, folder, os.environ, log or folder / "proxy.log") as keeper:
            code = _session(kind, (program, *arguments), folder, keeper, loaded)
        if keeper.started:
            if account is not None:
                figures = {**asdict(keeper.account), "restarts": keeper.restarts}
                account.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
            if not quiet:
                click.echo(closing_line(keeper.account, keeper.restarts), err=True)
    sys.exit(code)


def _program(name: str, agent: Agent, known_as: str | None) -> str:
    """Return the program to run, or end as a shell would."""
    if name.startswith("-"):
        raise click.NoSuchOption(name, ctx=click.get_current_context())
    is_name = known_as is None and name in AGENTS
    for program in agent.programs if is_name else (name,):
        if (path := shutil.which(program)) is not None:
            return path
    exists = Path(name).exists() and Path(name).name != name
    remedy = f"; install it with: {agent.install}" if is_name else nearest(name, AGENTS)
    click.echo(f"agora: {name} {'cannot be run' if exists else 'was not found'}{remedy}", err=True)
    sys.exit(_NOT_RUNNABLE if exists else _NOT_FOUND)


def _session(
    agent: Agent, command: tuple[str, ...], folder: Path, keeper: Keeper, settings: Settings
) -> int:
    """Run the agent with a proxy, or without if there can be none, and return its exit code."""
    seen = Seen(
        dict(os.environ),
        Path.home(),
        Path.cwd(),
        keeper.url,
        folder,
        command[1:],
        {str(family): url for family, url in settings.upstreams.items()},
    )
    plan = agent.plan(seen)
    if not plan.upstreams:
        why = "; ".join(plan.notes)
        click.echo(f"agora: {agent.title} runs without AGORA: {why}", err=True)
        return run(command, os.environ)
    try:
        keeper.start(plan.upstreams)
    except NotStartedError as error:
        # An agent at its usual cost is better than none.
        problem = f"the proxy did not start, so {agent.title} runs without it: {error}"
        click.echo(f"agora: {problem}", err=True)
        return run(command, os.environ)
    for name, text in plan.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    variables = {**around_proxies(os.environ), **plan.environment, STATE: str(keeper.state)}
    return run((command[0], *plan.arguments, *command[1:]), {**os.environ, **variables})

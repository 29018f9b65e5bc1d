"""The `agora serve` command: what is said before the gateway runs, and what runs it."""

import os
import secrets
from dataclasses import replace
from functools import partial
from pathlib import Path
from socket import AddressFamily, create_server
from socket import socket as Socket  # noqa: N812 - a class in all but its letter

import click

from agora.core.prices import UNKNOWN, shipped_sheets
from agora.errors import AgoraError, BundleError, MissingExtraError
from agora.gateway.config import Config, ConfigError, load_config
from agora.scorers.load import load_scorer


@click.command()
@click.argument(
    "config",
    default="gateway.toml",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="[CONFIG]",
)
@click.option(
    "--check-config",
    is_flag=True,
    help="Print what CONFIG means and what would keep the gateway from starting, then exit.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help="Listen on this port instead of the one in CONFIG.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Number of processes. In containers, run one each and more containers.",
)
def serve(config: Path, *, check_config: bool, port: int | None, workers: int) -> None:
    """Run the gateway: agents call it, and it calls the provider with shorter prompts.

    CONFIG is a TOML file, by default gateway.toml. Three lines are enough:

    \b
        [[upstreams]]
        base_url = "https://api.openai.com/v1"
        formats = ["openai"]

    Then set OPENAI_BASE_URL=http://127.0.0.1:8484/v1 where the agent runs.
    Keys stay with the agent: they pass through and are not stored.

    SIGHUP reloads CONFIG (a file with a mistake in it changes nothing),
    SIGTERM lets open streams finish, Ctrl-C stops sooner.
    """  # noqa: D301 - the mark that keeps click from joining the lines
    try:
        loaded = _listening(load_config(config), port)
    except AgoraError as error:
        raise click.ClickException(str(error)) from error
    if check_config:
        for line in _account(loaded):
            click.echo(line)
        _check_start(loaded)
        return
    try:
        # Here and not above, so that help needs no extra.
        from agora.gateway.server import run_many, run_one
    except ImportError as error:
        raise click.ClickException(str(MissingExtraError("agora serve", "gateway"))) from error
    if problems := loaded.start_problems():
        raise click.ClickException("\n".join(problems))
    socket = _listen(loaded)
    loaded = _listening(loaded, socket.getsockname()[1])
    for line in _greeting(loaded):
        click.echo(line, err=True)
    # Processes of one start share it, so that a tenant has one name in all of them.
    os.environ.setdefault(loaded.tenants.secret_env, secrets.token_hex(32))
    read = partial(
        read_again, config.resolve(), listening=loaded.listen_port, port_given=port is not None
    )
    if workers == 1:
        run_one(loaded, socket, read)
    else:
        run_many(loaded, socket, read, workers)


def read_again(path: Path, *, listening: int, port_given: bool) -> Config:
    """Return the configuration in the file as it is now.

    Its port is the one in use if the command line named it (`port_given`), or if the file leaves
    it to the system.

    Raises:
        ConfigError: it cannot be used.
    """
    config = load_config(path)
    if problems := config.start_problems():
        raise ConfigError(str(path), problems)
    return _listening(config, listening) if port_given or not config.listen_port else config


def _listen(config: Config) -> Socket:
    """Return a socket on the configured address.

    Taken here, so that a port in use is said in words and before anything else starts.
    """
    host, port = config.listen_host, config.listen_port
    family = AddressFamily.AF_INET6 if ":" in host else AddressFamily.AF_INET
    try:
        socket = create_server((host.strip("[]"), port), family=family, backlog=2_048)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else error
        raise click.ClickException(f"cannot listen on {host}:{port}: {why}") from error
    socket.setblocking(False)
    return socket


def _check_start(config: Config) -> None:
    """Say what would keep a configuration from starting, or from doing what it says."""
    for problem in config.start_problems():
        raise click.ClickException(f"the gateway would not start: {problem}")
    try:
        import agora.gateway.server  # noqa: F401
        from agora.gateway.watching.report import reporter_for

        reporter = reporter_for(config.telemetry)
    except ImportError as error:
        named = isinstance(error, MissingExtraError)
        missing = error if named else MissingExtraError("agora serve", "gateway")
        raise click.ClickException(f"the gateway would not start: {missing}") from error
    if reporter is not None:
        reporter.close()
    try:
        load_scorer(config.compression.scorer)
    except BundleError as error:
        click.echo(f"note: steps would be chosen by the fallback rule: {error}")
    try:
        _listen(config).close()
    except click.ClickException as error:
        # A note: a file is checked before SIGHUP too, while its gateway runs.
        click.echo(f"note: {error.message}; a second gateway would not start there")


def _listening(config: Config, port: int | None) -> Config:
    return config if port is None else replace(config, listen_port=port)


def _greeting(config: Config) -> list[str]:
    host = "127.0.0.1" if config.listen_host in ("0.0.0.0", "::") else config.listen_host  # noqa: S104
    scheme = "http" if config.listen_certificate is None else "https"
    base = f"{scheme}://{f'[{host}]' if ':' in host else host}:{config.listen_port}"
    formats = {format for upstream in config.upstreams for format in upstream.formats}
    lines = []
    if "openai" in formats:
        lines.append(f"OPENAI_BASE_URL={base}/v1")
    if "anthropic" in formats:
        lines.append(f"ANTHROPIC_BASE_URL={base}")
    if "gemini" in formats:
        lines.append(f"GOOGLE_GEMINI_BASE_URL={base}")
    if "azure" in formats:
        lines.append(f"AZURE_OPENAI_ENDPOINT={base}")
    return [*lines, *(f"note: {note}" for note in config.notes())]


def _account(config: Config) -> list[str]:
    """Return what a configuration means, in lines for people."""
    lines = [f"listens on {config.listen_host}:{config.listen_port} as {', '.join(config.hosts)}"]
    for upstream in config.upstreams:
        models = ", ".join(upstream.models)
        lines.append(
            f"upstream {upstream.name}: {upstream.base_url} "
            f"({', '.join(upstream.formats)}; models {models})"
        )
        if upstream.prices:
            sheet = config.sheet_for(upstream, None)
            lines.append(
                f"  prices of {sheet.name}: ${sheet.input:g} per million, cached reads at "
                f"{sheet.read:g}, writes at {sheet.write:g}"
            )
        else:
            lines.append("  prices by the name of each request's model")
            lines.extend(
                f"  {glob} has no price sheet: reads are assumed at "
                f"{shipped_sheets()[UNKNOWN].read:g}, writes at {shipped_sheets()[UNKNOWN].write:g}"
                for glob in upstream.models
                if not any(mark in glob for mark in "*?[")
                and config.sheet_for(upstream, glob).name == UNKNOWN
            )
    compression = config.compression
    if compression.enabled:
        lines.append(
            f"compresses prompts of {compression.min_tokens:,} tokens or more, scorer "
            f"{compression.scorer}, schedule {compression.schedule}, within "
            f"{config.limits.compress_deadline_ms} ms"
        )
    if config.clients:
        names = ", ".join(client.name for client in config.clients)
        lines.append(f"accepts requests only with the token of {names}")
    tenants = config.tenants
    source = f"the header {tenants.header}" if tenants.header else "a hash of the API key"
    lines.append(f"identifies tenants by {source}")
    if tenants.stand_down:
        lines.append(
            "  stops compressing for a tenant whose net saving over "
            f"{tenants.window_requests:,} requests is negative"
        )
    agents = ", ".join(config.recall_agents)
    lines.append(f"offers recall: {f'yes, to {agents}' if config.recall else 'no'}")
    if config.telemetry.endpoint:
        sends = "spans and metrics" if config.telemetry.metrics else "spans"
        lines.append(f"sends {sends} to {config.telemetry.endpoint}")
    else:
        lines.append("sends no telemetry")
    folder = config.journal.folder
    lines.append(f"writes prompts to {folder}" if folder else "writes no prompts to disk")
    lines.extend(f"note: {note}" for note in config.notes())
    return lines

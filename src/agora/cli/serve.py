"""The `agora serve` command: the gateway, started and stopped."""

import multiprocessing
import multiprocessing.process
import os
import secrets
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from socket import AddressFamily, create_server
from socket import socket as Socket  # noqa: N812 - a class in all but its letter
from types import FrameType

import click

from agora.core.prices import UNKNOWN, shipped_sheets
from agora.errors import AgoraError, MissingExtraError
from agora.gateway.config import Config, load_config

try:
    import uvicorn
except ImportError as error:
    raise MissingExtraError("agora serve", "gateway") from error

App = Callable[..., Awaitable[None]]
_FILE = "AGORA_GATEWAY_CONFIG"
_PORT = "AGORA_GATEWAY_PORT"
_METRICS = "PROMETHEUS_MULTIPROC_DIR"
_NOT_STARTED = 3
"""The exit code of a server that could not start, as uvicorn has it."""


@click.command()
@click.argument(
    "config",
    default="gateway.toml",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="[CONFIG]",
)
@click.option("--check-config", is_flag=True, help="Say what CONFIG means, and stop.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), help="Listen here instead of where CONFIG says."
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Processes. In a container take one, and more containers.",
)
def serve(config: Path, *, check_config: bool, port: int | None, workers: int) -> None:
    """Run the gateway: agents call it, and it calls the provider with less.

    CONFIG is a TOML file, by default gateway.toml. Three lines are enough:

    \b
        [[upstreams]]
        base_url = "https://api.openai.com/v1"
        formats = ["openai"]

    Then set OPENAI_BASE_URL=http://127.0.0.1:8484/v1 where the agent runs.
    Keys stay with the agent: they go through and are not kept.
    """  # noqa: D301 - the mark that keeps the lines apart
    try:
        loaded = _listening(load_config(config), port)
    except AgoraError as error:
        raise click.ClickException(str(error)) from error
    if check_config:
        for line in _account(loaded):
            click.echo(line)
        return
    socket = _listen(loaded)
    loaded = _listening(loaded, socket.getsockname()[1])
    for line in _greeting(loaded):
        click.echo(line, err=True)
    # Processes of one start share it, so that a tenant has one name in all of them.
    os.environ.setdefault(loaded.tenants.secret_env, secrets.token_hex(32))
    os.environ[_FILE] = str(config.resolve())
    os.environ[_PORT] = str(loaded.listen_port)
    if workers == 1:
        _run_one(loaded, socket)
    else:
        _run_many(loaded, socket, workers)


def app() -> App:
    """Return the application; each process calls it once."""
    try:
        from prometheus_client import disable_created_metrics

        from agora.gateway.app import make_app
        from agora.gateway.logs import configure
    except ImportError as error:
        raise MissingExtraError("agora serve", "gateway") from error
    disable_created_metrics()  # type: ignore[no-untyped-call]
    config = _listening(load_config(Path(os.environ[_FILE])), int(os.environ[_PORT]))
    configure(config.log, sys.stderr)
    made: App = make_app(config)
    return made


class DrainingServer(uvicorn.Server):
    """A server that says it is about to stop before it does.

    At SIGTERM the application is told to drain: `/readyz` says no, and new
    requests are still taken for `settle` seconds, because whoever sends them
    hears of it a moment later. Then no more are taken, and open streams have
    the rest of the time. Ctrl-C skips the first part.
    """

    settle = 0.0
    _stops_at: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain; a second signal, or Ctrl-C, stops taking requests at once."""
        if sig == signal.SIGTERM and self._stops_at is None and not self.should_exit:
            self._captured_signals.append(sig)
            self._stops_at = time.monotonic() + self.settle
            drain = getattr(self.config.loaded_app, "drain", None)
            if drain is not None:
                drain()
            return
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """Return whether to stop taking requests."""
        if self._stops_at is not None and time.monotonic() >= self._stops_at:
            self.should_exit = True
        return await super().on_tick(counter)


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


def _server(config: Config) -> DrainingServer:
    # Here and not above: counters look at the environment when they are first imported.
    from agora.gateway.app import uvicorn_settings

    limits = config.limits
    settle = min(limits.settle_seconds, limits.drain_seconds)
    settings = uvicorn_settings(config) | {
        # Longer than the idle time of most load balancers, so that it is they who hang up.
        "timeout_keep_alive": 75,
        "timeout_graceful_shutdown": limits.drain_seconds - settle,
    }
    server = DrainingServer(
        uvicorn.Config("agora.cli.serve:app", factory=True, interface="asgi3", **settings)
    )
    server.settle = settle
    return server


def _run_one(config: Config, socket: Socket) -> None:
    server = _server(config)
    server.run(sockets=[socket])
    if not server.started:
        sys.exit(_NOT_STARTED)


def _run_many(config: Config, socket: Socket, workers: int) -> None:
    """Run processes that take from one socket; start one anew when it dies."""
    spawn = multiprocessing.get_context("spawn")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with tempfile.TemporaryDirectory(prefix="agora-metrics-") as folder:
        # Each process writes its counts there, and any of them can tell those of all.
        os.environ.setdefault(_METRICS, folder)
        from prometheus_client.multiprocess import mark_process_dead

        def start() -> multiprocessing.process.BaseProcess:
            process = spawn.Process(target=_run_one, args=(config, socket))
            process.start()
            return process

        processes = [start() for _ in range(workers)]
        failed = False
        while not stop.wait(0.5):
            for at, process in enumerate(processes):
                if process.exitcode == _NOT_STARTED:
                    # It would fail again in the same way.
                    failed = True
                    stop.set()
                elif process.exitcode is not None:
                    click.echo(f"process {process.pid} died; another takes its place", err=True)
                    mark_process_dead(process.pid)  # type: ignore[no-untyped-call]
                    processes[at] = start()
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()
        if failed:
            sys.exit(_NOT_STARTED)


def _listening(config: Config, port: int | None) -> Config:
    return config if port is None else replace(config, listen_port=port)


def _greeting(config: Config) -> list[str]:
    host = "127.0.0.1" if config.listen_host in ("0.0.0.0", "::") else config.listen_host  # noqa: S104
    base = f"http://{f'[{host}]' if ':' in host else host}:{config.listen_port}"
    formats = {format for upstream in config.upstreams for format in upstream.formats}
    lines = []
    if "openai" in formats:
        lines.append(f"OPENAI_BASE_URL={base}/v1")
    if "anthropic" in formats:
        lines.append(f"ANTHROPIC_BASE_URL={base}")
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
                f"  {glob} has no price sheet: reads are taken at "
                f"{shipped_sheets()[UNKNOWN].read:g}, writes at {shipped_sheets()[UNKNOWN].write:g}"
                for glob in upstream.models
                if not any(mark in glob for mark in "*?[")
                and config.sheet_for(upstream, glob).name == UNKNOWN
            )
    compression = config.compression
    if compression.enabled:
        lines.append(
            f"compresses prompts of {compression.min_tokens:,} tokens and more, scorer "
            f"{compression.scorer}, schedule {compression.schedule}, within "
            f"{config.limits.compress_deadline_ms} ms"
        )
    tenants = config.tenants
    source = f"the header {tenants.header}" if tenants.header else "a hash of the API key"
    lines.append(f"tells tenants apart by {source}")
    if tenants.stand_down:
        lines.append(
            f"  stands down for one whose net saving over {tenants.window_requests:,} requests "
            "is negative"
        )
    lines.append(f"offers recall: {'yes' if config.recall else 'no'}")
    lines.append(f"sends spans to {config.telemetry.endpoint or 'nobody'}")
    lines.extend(f"note: {note}" for note in config.notes())
    return lines

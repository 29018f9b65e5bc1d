"""The gateway as a process: how it starts, drains, reads its configuration again and stops."""

import asyncio
import logging
import multiprocessing
import multiprocessing.process
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from socket import socket as Socket  # noqa: N812 - a class in all but its letter
from types import FrameType

from agora.errors import AgoraError, MissingExtraError
from agora.gateway.config import Config, ConfigError

try:
    import uvicorn
    from prometheus_client import disable_created_metrics
except ImportError as error:
    raise MissingExtraError("agora serve", "gateway") from error

from agora.gateway.app import App, make_app, uvicorn_settings
from agora.gateway.heap import give_back_large_blocks
from agora.gateway.reload import reload
from agora.gateway.watching.logs import AUDIT, configure

NOT_STARTED = 3
"""The exit code of a server that could not start, as uvicorn has it."""
INTERRUPTED = 130
"""The exit code of what Ctrl-C ended, as shells have it."""
_METRICS = "PROMETHEUS_MULTIPROC_DIR"
_RELOAD = getattr(signal, "SIGHUP", None)
"""Not every system has it."""
_log = logging.getLogger(__name__)

Read = Callable[[], Config]
"""Reads the configuration again. Raises AgoraError where it cannot be used."""


class DrainingServer(uvicorn.Server):
    """A server that announces its stop before it stops, and can be reconfigured.

    At SIGTERM the application starts to drain: `/readyz` says no, and new
    requests are still taken for `settle` seconds, because whoever sends them
    hears of it a moment later. Then no more are taken, and open streams have
    the rest of the time. Ctrl-C skips the first part.

    At SIGHUP the configuration is read again. One that cannot be used is
    logged, and the old one stays in force.
    """

    def __init__(self, app: App, read: Read, **settings: object) -> None:
        super().__init__(uvicorn.Config(app, interface="asgi3", **settings))  # type: ignore[arg-type]
        self.settle = 0.0
        self._app = app
        self._read = read
        self._stops_at: float | None = None
        self._reload_wanted = False
        self._reloading: asyncio.Task[None] | None = None
        self._on_terminal = _has_terminal()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain; a second signal, or Ctrl-C, stops taking requests at once."""
        if sig == signal.SIGTERM and self._stops_at is None and not self.should_exit:
            self._captured_signals.append(sig)
            self._stops_at = time.monotonic() + self.settle
            self._app.drain()
            return
        super().handle_exit(sig, frame)

    def handle_reload(self, _: int, frame: FrameType | None) -> None:
        """Have the configuration read again; stop if it was the terminal that hung up."""
        if self._on_terminal and not _has_terminal():
            self.handle_exit(signal.SIGTERM, frame)
            return
        self._reload_wanted = True

    async def on_tick(self, counter: int) -> bool:
        """Return whether to stop taking requests."""
        if self._stops_at is not None and time.monotonic() >= self._stops_at:
            self.should_exit = True
        busy = self._reloading is not None and not self._reloading.done()
        if self._reload_wanted and not busy:
            self._reload_wanted = False
            self._reloading = asyncio.ensure_future(self._reload())
        return await super().on_tick(counter)

    async def _reload(self) -> None:
        meter, log = self._app.forwarder.meter, self._app.config.log
        before = self._app.config.digest
        try:
            reloaded = await reload(self._app, self._read())
        except ConfigError as error:
            # The name without its folder: a long path would pass for a key at the sink.
            name = Path(error.file).name
            for problem in error.problems:
                _log.error("the configuration is unchanged: %s: %s", name, problem)
            meter.reloaded(done=False)
        except AgoraError as error:
            _log.error("the configuration is unchanged: %s", error)
            meter.reloaded(done=False)
        except Exception:
            _log.exception("the configuration is unchanged: reloading it failed")
            meter.reloaded(done=False)
        else:
            if self._app.config.log != log:
                configure(self._app.config.log, sys.stderr)
            self._renew_certificate()
            AUDIT.info(
                "configuration reloaded; changed: %s; from %s to %s",
                _list(reloaded.changed) or "nothing",
                before,
                self._app.config.digest,
            )
            if reloaded.waiting:
                _log.warning(
                    "changed in the file, applied at the next restart: %s", _list(reloaded.waiting)
                )
            meter.reloaded(done=True)

    def _renew_certificate(self) -> None:
        """Read the certificate's files again; connections from now on get what is in them."""
        config = self._app.config
        if config.listen_certificate is not None and self.config.ssl is not None:
            self.config.ssl.load_cert_chain(config.listen_certificate, config.listen_key)


def run_one(config: Config, socket: Socket, read: Read) -> None:
    """Serve until asked to stop."""
    # As early as can be: until it is set, SIGHUP ends a process.
    wanted_early = threading.Event()
    if _RELOAD is not None:
        signal.signal(_RELOAD, lambda *_: wanted_early.set())
    disable_created_metrics()  # type: ignore[no-untyped-call]
    give_back_large_blocks()
    configure(config.log, sys.stderr)
    AUDIT.info("started with configuration %s", config.digest)
    limits = config.limits
    settle = min(limits.settle_seconds, limits.drain_seconds)
    settings = uvicorn_settings(config) | {
        # Longer than the idle time of most load balancers, so that it is they who hang up.
        "timeout_keep_alive": 75,
        "timeout_graceful_shutdown": limits.drain_seconds - settle,
    }
    server = DrainingServer(make_app(config), read, **settings)
    server.settle = settle
    if _RELOAD is not None:
        signal.signal(_RELOAD, server.handle_reload)
        if wanted_early.is_set():
            server.handle_reload(_RELOAD, None)
    server.run(sockets=[socket])
    if not server.started:
        sys.exit(NOT_STARTED)


def run_many(config: Config, socket: Socket, read: Read, workers: int) -> None:
    """Run processes that share one socket; restart one when it dies."""
    spawn = multiprocessing.get_context("spawn")
    stop, wake, again = threading.Event(), threading.Event(), threading.Event()
    ended_by = [0]

    def end(number: int, _: FrameType | None) -> None:
        ended_by[0] = number
        stop.set()
        wake.set()

    def read_again(*_: object) -> None:
        again.set()
        wake.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    if _RELOAD is not None:
        signal.signal(_RELOAD, read_again)
    with tempfile.TemporaryDirectory(prefix="agora-metrics-") as folder:
        # Each process writes its counts there, and any of them can tell those of all.
        os.environ.setdefault(_METRICS, folder)
        configure(config.log, sys.stderr)
        family = _Family(lambda: spawn.Process(target=run_one, args=(config, socket, read)))
        family.start(workers)
        while not stop.is_set():
            wake.wait(0.5)
            wake.clear()
            if again.is_set():
                again.clear()
                config = _usable(read, config)
                family.signal(_RELOAD)
            if not family.replace_the_dead():
                stop.set()
        family.end()
    if family.failed:
        sys.exit(NOT_STARTED)
    if ended_by[0] == signal.SIGINT:
        sys.exit(INTERRUPTED)


class _Family:
    """The processes of one gateway."""

    def __init__(self, make: "Callable[[], multiprocessing.process.BaseProcess]") -> None:
        self.failed = False
        self._make = make
        self._processes: list[multiprocessing.process.BaseProcess] = []

    def start(self, count: int) -> None:
        for _ in range(count):
            self._processes.append(self._make())
            self._processes[-1].start()

    def signal(self, number: int | None) -> None:
        for process in self._processes:
            if number is not None and process.pid is not None and process.is_alive():
                os.kill(process.pid, number)

    def replace_the_dead(self) -> bool:
        """Restart what died; return False if that would fail in the same way."""
        from prometheus_client.multiprocess import mark_process_dead

        for at, process in enumerate(self._processes):
            if process.exitcode == NOT_STARTED:
                self.failed = True
                return False
            if process.exitcode is not None:
                _log.warning("process %d died; starting another", process.pid)
                mark_process_dead(process.pid)  # type: ignore[no-untyped-call]
                self._processes[at] = self._make()
                self._processes[at].start()
        return True

    def end(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()


def _usable(read: Read, config: Config) -> Config:
    """Return the configuration for processes that start from now on; each says what is wrong."""
    try:
        return read()
    except AgoraError:
        return config


def _has_terminal() -> bool:
    try:
        return sys.stderr.isatty() and os.tcgetpgrp(sys.stderr.fileno()) >= 0
    except (OSError, ValueError, AttributeError):
        return False


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(names)

"""A proxy process that is restarted on its port if it dies."""

import json
import os
import secrets
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from socket import create_server
from typing import Self

import msgspec

from agora.service import Account, Settings

_ENVIRONMENT = frozenset(
    "PATH HOME TMPDIR TEMP TMP LANG LC_ALL LC_CTYPE PYTHONPATH PYTHONHOME LD_LIBRARY_PATH "
    "SSL_CERT_FILE SSL_CERT_DIR OMP_NUM_THREADS SYSTEMROOT USERPROFILE "
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY".split()
)
"""The variables that the proxy gets: none has a key."""
_BACKLOG = 1_024
_MAX_DEATHS, _WITHIN_SECONDS = 5, 10.0
_STOP_SECONDS = 5.0


class NotStartedError(Exception):
    """The proxy did not start."""


class Keeper:
    """Keeps a proxy process running on a free port of this machine.

    This process opens the port and passes it on. When the proxy dies, connections wait in the
    port's queue for the next one instead of being refused. Only requests in flight are lost, and
    agents retry them. Windows cannot pass a port on: there the next process opens it again, and
    agents retry refused connections.
    """

    def __init__(
        self, settings: Settings, folder: Path, environment: Mapping[str, str], log: Path
    ) -> None:
        self.state = folder / "account.json"
        """The account, which the next process continues."""
        self.restarts = 0
        self.started = False
        """True if it ever took requests."""
        self._settings = settings
        self._socket = create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        self._lends = os.name == "posix"
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._log = log
        self._environment = {
            name: value for name, value in environment.items() if name.upper() in _ENVIRONMENT
        }
        # Owners and conversations keep their names in the next process.
        self._environment[settings.owners.secret_env] = secrets.token_hex()
        self._line = b""
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def account(self) -> Account:
        """The account so far."""
        return Account.load(self.state)

    def start(self, upstreams: Sequence[str], seconds: float = 30.0) -> None:
        """Start the process and return when it takes requests.

        Args:
            upstreams: Base URLs; requests below `/0` go to the first.
            seconds: The longest that the start may take.

        Raises:
            NotStartedError: The process ended early, or took too long.
        """
        line = {"settings": msgspec.to_builtins(self._settings), "upstreams": list(upstreams)}
        self._line = json.dumps(line).encode() + b"\n"
        if not self._lends:
            self._socket.close()
        self._process = self._started()
        until = time.monotonic() + seconds
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > until:
                raise NotStartedError(self._last_words())
        self.started = True
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the process and give the port back."""
        self._stopping.set()
        process = self._process
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _started(self) -> "subprocess.Popen[bytes]":
        lent = [self._socket.fileno()] if self._lends else []
        # -P: a folder in the agent's working directory must not shadow a package.
        command = [sys.executable, "-P", "-m", "agora.wrapping.child", str(self.state)]
        command += map(str, (self.url.rpartition(":")[2], *lent))
        with self._log.open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - ourselves
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=self._environment,
                pass_fds=lent,
                # Ctrl-C is for the agent.
                start_new_session=self._lends,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        assert process.stdin is not None  # noqa: S101 - it was asked for
        try:
            process.stdin.write(self._line)
            process.stdin.flush()
        except OSError:
            pass  # The proxy has ended already; the watcher restarts it.
        return process

    def _keep(self) -> None:
        """Restart the process whenever it ends, unless it keeps ending."""
        deaths: list[float] = []
        while self._process is not None:
            self._process.wait()
            if self._stopping.is_set():
                return
            now = time.monotonic()
            deaths = [at for at in deaths if now - at < _WITHIN_SECONDS] + [now]
            if len(deaths) > _MAX_DEATHS:
                # A refused connection is better than no answer: the agent reports it.
                self._socket.close()
                return
            self.restarts += 1
            self._process = self._started()
            if self._stopping.is_set():
                self._process.kill()

    def _is_ready(self) -> bool:
        # The check goes to the proxy directly, past the environment's HTTP proxy.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"{self.url}/livez", timeout=0.5) as answer:
                return bool(answer.status == 200)
        except OSError:
            time.sleep(0.02)
            return False

    def _last_words(self) -> str:
        try:
            lines = self._log.read_text(encoding="utf-8", errors="replace").split("\n")
        except OSError:
            lines = []
        return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")

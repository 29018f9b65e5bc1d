"""A gateway that is there as long as it is needed: restarted on its port if it dies."""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from socket import create_server
from types import TracebackType
from typing import Any, Self

_KEPT = (
    "PATH HOME TMPDIR TEMP TMP LANG LC_ALL LC_CTYPE PYTHONPATH PYTHONHOME LD_LIBRARY_PATH "
    "SSL_CERT_FILE SSL_CERT_DIR OMP_NUM_THREADS"
).split()
"""What a gateway gets of the environment: no key is in it."""
_BACKLOG = 1_024
_MOST_DEATHS = 5
_WITHIN_SECONDS = 10.0
_STOP_SECONDS = 5.0


class NotStartedError(Exception):
    """The gateway did not come up."""


class Gateway:
    """A gateway process on a free port of this machine, and what keeps it running.

    The port is held here and only lent to the process. When the process dies, connections wait in
    the port's queue for the next one instead of being refused; only requests that were under way
    are lost, and those the agent sends again by itself.
    """

    def __init__(
        self, tables: Mapping[str, Any], folder: Path, environment: Mapping[str, str], log: Path
    ) -> None:
        self.metrics = folder / "metrics"
        """Where the process counts. Files, so that counts outlive it."""
        self.quota = folder / "quota.jsonl"
        """What its provider's answers told of a quota, a line for each call."""
        self.restarts = 0
        self.given_up = False
        """Whether it died so often that it is not started any more."""
        self._socket = create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        self.port = int(self._socket.getsockname()[1])
        self._line = json.dumps(tables).encode() + b"\n"
        self._log = log
        own = {name: environment[name] for name in _KEPT if name in environment}
        self._environment = {**own, "PROMETHEUS_MULTIPROC_DIR": str(self.metrics)}
        self._environment["AGORA_QUOTA_FILE"] = str(self.quota)
        self._environment["AGORA_TENANT_SECRET"] = os.urandom(32).hex()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._keeper: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process that serves now."""
        return self._process.pid if self._process is not None else None

    def start(self, seconds: float = 30.0) -> None:
        """Start the process and return when it takes requests.

        Raises:
            NotStartedError: it ended before, or took too long.
        """
        self.metrics.mkdir(exist_ok=True)
        self._process = self._started()
        until = time.monotonic() + seconds
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > until:
                raise NotStartedError(self._last_words())
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()

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
        if self._keeper is not None:
            self._keeper.join(_STOP_SECONDS)
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _started(self) -> "subprocess.Popen[bytes]":
        number = self._socket.fileno()
        with self._log.open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - ourselves
                # -P: a folder called like a package of ours, where the agent works, is not it.
                (sys.executable, "-P", "-m", "agora.wrapping.child", str(number)),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=self._environment,
                pass_fds=(number,),
                # Ctrl-C is for the agent.
                start_new_session=True,
            )
        assert process.stdin is not None  # noqa: S101 - it was asked for
        try:
            process.stdin.write(self._line)
            process.stdin.flush()
        except BrokenPipeError:
            pass  # It has ended already, which is seen elsewhere.
        return process

    def _keep(self) -> None:
        """Start the process again whenever it ends, unless it does so again and again."""
        deaths: list[float] = []
        while self._process is not None:
            self._process.wait()
            if self._stopping.is_set():
                return
            now = time.monotonic()
            deaths = [at for at in deaths if now - at < _WITHIN_SECONDS] + [now]
            if len(deaths) > _MOST_DEATHS:
                # Refused is better than never answered: the agent can say so.
                self.given_up = True
                self._socket.close()
                return
            self.restarts += 1
            self._process = self._started()
            if self._stopping.is_set():
                self._process.kill()

    def _is_ready(self) -> bool:
        # Directly: a proxy of the environment is not asked about this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"{self.url}/readyz", timeout=0.5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def _last_words(self) -> str:
        try:
            lines = self._log.read_text(encoding="utf-8", errors="replace").split("\n")
        except OSError:
            lines = []
        said = [line.strip() for line in lines if line.strip()]
        return said[-1] if said else "it said nothing"

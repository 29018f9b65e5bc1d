"""A peer in its own virtual environment, driven by lines of JSON."""

import hashlib
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agora_lab.envs.data import cache_folder
from agora_lab.errors import ProblemError
from agora_lab.methods.base import SkipMethod

WORKERS = Path(__file__).parent / "workers"
_SERVE = WORKERS / "serve.py"
_BUILD_SECONDS = 1_800
_START_SECONDS = 180
_TRIES = 2
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT")
"""The environment variables a peer sees: no keys, no proxies, no Python paths."""
_QUIET = {
    "DO_NOT_TRACK": "1",
    "HEADROOM_TELEMETRY": "off",
    "HF_HUB_OFFLINE": "1",
    "LANGSMITH_TRACING": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


class PeerError(ProblemError):
    """A peer that died, timed out or failed."""

    form = "the peer in {subject}.py {problem}"


@dataclass(frozen=True, slots=True)
class Peer:
    """How to run a peer."""

    worker: str
    """The name of its file; NAME.txt next to it pins all its packages."""
    packages: tuple[str, ...]
    """Its own packages, pinned."""
    folder: Path = WORKERS
    python: str = ""
    """The version of Python it needs, such as 3.12. Any, if empty."""


@dataclass(slots=True)
class Isolated:
    """One process that runs a peer: started on first use, and restarted if it dies.

    Not thread-safe. `close` ends the process; so does garbage collection.
    """

    peer: Peer
    options: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float = 60.0
    environment: Mapping[str, str] = field(default_factory=dict)
    """Additional environment variables for the peer."""
    _process: "subprocess.Popen[str] | None" = field(init=False, default=None)
    _lines: "queue.Queue[str | None]" = field(init=False, default_factory=queue.Queue)
    _asked: int = field(init=False, default=0)

    def ask(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the peer's answer.

        If the process dies or times out, it is ended and the request is retried once in
        a new one.

        Raises:
            PeerError: The retry failed too, or the peer raised an error.
            SkipMethod: The peer cannot run here.
        """
        problem = ""
        for _ in range(_TRIES):
            self._start()
            self._asked += 1
            try:
                self._send({"id": self._asked, **request})
                answer = self._receive(self.timeout_s)
            except (OSError, TimeoutError, ValueError) as error:
                problem = str(error) or type(error).__name__
                self.close()
                continue
            if "error" in answer:
                raise PeerError(self.peer.worker, f"raised {answer['error']}")
            if answer.get("id") == self._asked:
                return answer
            problem = f"answered request {answer.get('id')!r} instead of {self._asked}"
            self.close()
        raise PeerError(self.peer.worker, f"failed {_TRIES} times: {problem}")

    def close(self) -> None:
        """End the process, if any. It can be used again afterwards."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def __del__(self) -> None:
        self.close()

    def _start(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        python = build(self.peer)
        file = self.peer.folder / f"{self.peer.worker}.py"
        home = python.parents[1] / "home"
        home.mkdir(exist_ok=True)
        process = subprocess.Popen(  # noqa: S603 - our own file, in our own environment
            [str(python), "-I", str(_SERVE), str(file), json.dumps(dict(self.options))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env={
                **{name: os.environ[name] for name in _PASSED_ON if name in os.environ},
                **_QUIET,
                "HOME": str(home),
                **self.environment,
            },
        )
        self._process, self._lines = process, queue.Queue()
        threading.Thread(target=_read, args=(process, self._lines), daemon=True).start()
        try:
            ready = self._receive(_START_SECONDS)
        except (TimeoutError, ValueError) as error:
            self.close()
            raise PeerError(self.peer.worker, f"did not start: {error}") from error
        if "skip" in ready:
            self.close()
            raise SkipMethod(str(ready["skip"]))

    def _send(self, request: Mapping[str, Any]) -> None:
        process = self._process
        assert process is not None  # noqa: S101 - just started
        assert process.stdin is not None  # noqa: S101 - a pipe was asked for
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()

    def _receive(self, seconds: float) -> Mapping[str, Any]:
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(f"no answer within {seconds:g} s") from None
        if line is None:
            raise ValueError("its process ended")
        answer = json.loads(line)
        if not isinstance(answer, dict):
            raise ValueError(f"it answered {line[:80]!r}")  # noqa: TRY004 - it is about a value
        return answer


def build(peer: Peer) -> Path:
    """Return the Python of the peer's environment, created on first use.

    Raises:
        SkipMethod: Its packages could not be installed.
    """
    pins = peer.folder / f"{peer.worker}.txt"
    version = peer.python or sys.version
    recipe = [*peer.packages, pins.read_text() if pins.exists() else "", version]
    key = hashlib.blake2b("\n".join(recipe).encode(), digest_size=8).hexdigest()
    folder = cache_folder("peers") / f"{peer.worker}-{key}"
    if not folder.exists():
        # Created next to it and renamed, so that an existing folder is complete. Python finds its
        # packages relative to itself; only the scripts, which are not used, hold the old name.
        draft = folder.with_name(f"{folder.name}.{os.getpid()}")
        shutil.rmtree(draft, ignore_errors=True)
        try:
            _create(draft, peer)
            if peer.packages:
                _install(_python(draft), peer.packages, pins)
            draft.rename(folder)
        except OSError:
            if not folder.exists():
                raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return _python(folder)


def _create(folder: Path, peer: Peer) -> None:
    if not peer.python:
        venv.create(folder, with_pip=bool(peer.packages), symlinks=os.name != "nt")
        return
    command = [f"python{peer.python}", "-m", "venv", str(folder)]
    try:
        subprocess.run(command, capture_output=True, check=True, timeout=_BUILD_SECONDS)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        raise SkipMethod(f"{peer.worker} needs Python {peer.python}") from error


def _python(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _install(python: Path, packages: Sequence[str], pins: Path) -> None:
    constraints = ["-c", str(pins)] if pins.exists() else []
    command = [str(python), "-m", "pip", "install", "-q", "--no-input", *constraints, *packages]
    try:
        done = subprocess.run(  # noqa: S603 - pinned packages, named in our own files
            command, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise SkipMethod(f"installing {', '.join(packages)} took too long") from error
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        why = errors[0][:300] if errors else f"pip exited with {done.returncode}"
        raise SkipMethod(f"{', '.join(packages)} could not be installed: {why}")


def _read(process: "subprocess.Popen[str]", lines: "queue.Queue[str | None]") -> None:
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    try:
        for line in process.stdout:
            lines.put(line)
    except ValueError:
        pass  # The pipe was closed during the read.
    lines.put(None)

"""Commands that end: each has so many seconds, and what it started goes with it."""

import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, and what it said, standard error included."""

    code: int
    output: str

    @property
    def ok(self) -> bool:
        return self.code == 0


_RUNNING: set[subprocess.Popen[str]] = set()
_LOCK = threading.Lock()


def run(
    command: Sequence[str | Path],
    *,
    seconds: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Ended:
    """Return how it ended; after `seconds` it is killed with all its children.

    >>> import sys
    >>> run([sys.executable, "-c", "print(1)"], seconds=60)
    Ended(code=0, output='1\\n')
    """
    process = subprocess.Popen(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        cwd=cwd,
        env=None if env is None else {**os.environ, **env},
        start_new_session=True,
    )
    with _LOCK:
        _RUNNING.add(process)
    try:
        output, _ = process.communicate(timeout=seconds)
        return Ended(process.returncode, output)
    except subprocess.TimeoutExpired:
        _kill(process)
        output, _ = process.communicate()
        return Ended(124, f"{output}\nkilled after {seconds:.0f} s")
    except BaseException:
        _kill(process)
        raise
    finally:
        with _LOCK:
            _RUNNING.discard(process)


def stop_all() -> None:
    """Kill what is still running, for a program that has to leave early."""
    with _LOCK:
        for process in _RUNNING:
            _kill(process)


def _kill(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return

"""Line files with one writer at a time. A kill leaves only whole lines."""

import fcntl
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from agora import AgoraError


class BusyError(AgoraError):
    """Another process is writing to the file."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"another process is writing {self.path!r}; wait for it, or use another folder"


def open_lines(path: Path, *, wait_s: float = 0.0) -> BinaryIO:
    """Open a file to append lines to, lock it, and cut off a line that a kill left unfinished.

    The system releases the lock when the file is closed or the process ends, however it ends.

    Raises:
        BusyError: Another process still has it after `wait_s`.
    """
    file = path.open("ab")
    until = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError:
            if time.monotonic() >= until:
                file.close()
                raise BusyError(str(path)) from None
            time.sleep(0.2)
    data = path.read_bytes()
    file.truncate(data.rfind(b"\n") + 1)
    return file


def append(file: BinaryIO, value: Any) -> None:
    """Append a value as a line that survives if the process is killed."""
    file.write(json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n")
    file.flush()


def read_lines(path: Path) -> Iterator[Any]:
    """Yield the values of the whole lines of a file; nothing if there is no file."""
    if path.exists():
        with path.open("rb") as file:
            yield from (json.loads(line) for line in file if line.endswith(b"\n"))

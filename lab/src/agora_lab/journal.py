"""An append-only file of lines with one writer, durable and without partial lines."""

import fcntl
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from agora.errors import AgoraError

_BLOCK = 1 << 16


class BusyError(AgoraError):
    """Another process is writing to the file."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"another process is writing {self.path!r}; wait for it, or use another folder"


class Journal:
    """A file locked for appending by this process until it is closed.

    The system releases the lock when the process ends, however it ends. A partial
    line left by a killed writer is removed when the file is opened again.
    """

    def __init__(self, path: Path) -> None:
        """Open and lock the file, creating it if needed.

        Raises:
            BusyError: another process holds it.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._handle = os.open(path, flags, 0o644)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._handle)
            raise BusyError(str(path)) from None
        self._bytes = _whole_lines(self._handle)
        os.ftruncate(self._handle, self._bytes)
        self._open = threading.Lock()

    def add(self, line: bytes) -> None:
        """Append a line that survives if the process is killed.

        Raises:
            OSError: the disk is full; no part of the line was left.
        """
        data = line + b"\n"
        written = 0
        try:
            while written < len(data):
                written += os.write(self._handle, data[written:])
        except OSError:
            os.ftruncate(self._handle, self._bytes)
            raise
        self._bytes += len(data)

    def sync(self) -> None:
        """Flush to disk, so that the lines survive a power loss. Thread-safe."""
        with self._open:
            if self._handle >= 0:
                os.fdatasync(self._handle)

    def close(self) -> None:
        """Close and unlock the file."""
        with self._open:
            if self._handle >= 0:
                os.close(self._handle)
                self._handle = -1


def read_lines(path: Path) -> Iterator[bytes]:
    """Yield the complete lines of a file, skipping a partial one left by a killed writer."""
    with path.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield line


def _whole_lines(handle: int) -> int:
    """Return how many bytes of a file are complete lines, searching from its end."""
    end = os.fstat(handle).st_size
    while end:
        start = max(0, end - _BLOCK)
        newline = os.pread(handle, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0

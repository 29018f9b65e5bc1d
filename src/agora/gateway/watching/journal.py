"""Prompts on disk, where the operator asked for it: what labels are made from.

Off unless a folder is named. Each prompt that was decided on becomes a line of a file that only the
gateway's user can read: the body as it came, without headers, and beside it what was decided.
`agora label`, `agora replay` and `agora train` read such files like any other log of requests.
"""

import json
import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path

from agora.errors import AgoraError
from agora.gateway.config import Journal as Settings
from agora.gateway.watching.exchange import Exchange

_log = logging.getLogger("agora.gateway.journal")
_WAITING_MOST = 64
"""Prompts that may wait to be written: a slow disk is not waited for."""
_NO_BREAKS = bytes.maketrans(b"\r\n", b"  ")
"""JSON has line breaks only between its words, where a blank does as well."""


class CannotKeepError(AgoraError):
    """A journal's folder that cannot be written to."""

    def __init__(self, folder: str, why: str) -> None:
        super().__init__(folder, why)
        self.folder = folder
        self.why = why

    def __str__(self) -> str:
        return f"journal.folder {self.folder!r} cannot be written to: {self.why}"


class Journal:
    """One file of this process, written by a thread of its own.

    Nothing waits for it, and nothing fails by it: what finds the queue full, the most megabytes
    reached or the disk full is left out, which is said once in the log and counted each time.
    """

    def __init__(self, settings: Settings, lost: Callable[[str], None]) -> None:
        """Open a new file in the folder; `lost` hears why a prompt is not in it.

        Raises:
            CannotKeepError: that is not possible.
        """
        folder = Path(settings.folder or "")
        name = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.getpid()}.jsonl"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(folder / name, flags, 0o600)
        except OSError as error:
            raise CannotKeepError(str(folder), error.strerror or str(error)) from error
        self._room = settings.max_mb << 20
        self._said = False
        self._torn = False
        self._lost = lost
        self._lines: queue.Queue[bytes | None] = queue.Queue(_WAITING_MOST)
        self._thread = threading.Thread(target=self._write, name="agora-journal", daemon=True)
        self._thread.start()

    def add(self, exchange: Exchange, body: bytes) -> None:
        """Have a prompt written, with what was decided about it."""
        try:
            self._lines.put_nowait(line_of(exchange, body))
        except queue.Full:
            self._say("too_fast", "prompts come faster than they can be written")

    def close(self) -> None:
        """Write what waits, and close the file."""
        self._lines.put(None)
        self._thread.join()
        os.close(self._file)

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            if len(line) > self._room:
                self._room = 0
                self._say("max_mb", "journal.max_mb is reached")
                continue
            try:
                self._room -= len(line)
                if self._torn:
                    line = b"\n" + line
                while line:
                    line = line[os.write(self._file, line) :]
                self._torn = False
            except OSError as error:
                # A part of a line may be there; whoever reads it counts it as unreadable. The next
                # is tried again: a disk that was full may have room by then.
                self._torn = True
                self._say("write_failed", f"writing failed with {type(error).__name__}")

    def _say(self, why: str, words: str) -> None:
        self._lost(why)
        if not self._said:
            self._said = True
            _log.warning("prompts are missing from the journal: %s", words)


def line_of(exchange: Exchange, body: bytes) -> bytes:
    r"""Return the line of one prompt.

    >>> line_of(Exchange(route="chat", tenant="t-1", elided="2-4"), b'{"messages": []}').decode()
    '{"route":"chat","tenant":"t-1","elided":"2-4","request":{"messages": []}}\n'
    """
    decided = {
        "time": exchange.started_ns / 1e9,
        "route": exchange.route,
        "tenant": exchange.tenant,
        "reason": exchange.reason,
        "elided": exchange.elided,
        "would_remove": exchange.would_remove,
        "used_elided": exchange.used_elided,
        "rereads": exchange.rereads,
    }
    said = json.dumps({k: v for k, v in decided.items() if v}, separators=(",", ":"))
    request = body.strip().translate(_NO_BREAKS)
    return said[:-1].encode("ascii") + b',"request":' + request + b"}\n"


def journal_for(settings: Settings, lost: Callable[[str], None]) -> Journal | None:
    """Return the journal that is configured, or None where none is.

    Raises:
        CannotKeepError: its folder cannot be written to.
    """
    return None if settings.folder is None else Journal(settings, lost)

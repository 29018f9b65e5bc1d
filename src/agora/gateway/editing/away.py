"""Bodies that take long are read in a process of their own: threads would share the interpreter.

It is started with the first of them, gives way to everything else on the machine, ends when there
is nothing to do for a while and with the gateway, however that ends. What is handed over is plain
data through a pair of sockets that no other process has: nothing of it is in a file, an argument or
the environment. If it dies, another one does the work once more; if none can be started, or the
scorer cannot be handed over, a thread does it.
"""

import gc
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from agora.core.memo import share_out
from agora.errors import AgoraError
from agora.gateway.editing.breakers import Breaker
from agora.gateway.editing.conversation import marked_here
from agora.gateway.editing.counts import RememberedCounts
from agora.gateway.editing.in_full import Task, Worked, worked_out
from agora.gateway.editing.settings import EditorSettings
from agora.gateway.editing.timed import Timed
from agora.gateway.heap import give_back_large_blocks

_log = logging.getLogger("agora.gateway.app")
_NICE = 5
_MOST_SECONDS = 60
"""Of processor time for one body: on a busy machine that may be minutes."""
_START_SECONDS = 120.0
"""Nobody waits for it. A machine too busy to start it by then is too busy for the work, too."""
_IDLE_SECONDS = 60.0
"""After so long without work it ends, and its memory is free again."""
_LOOK_SECONDS = 0.2
_MOST_BYTES = 512 << 20
"""Of memory: a body of 4.4 MB and 10,000 steps takes 150 MB. What takes more is left alone."""
_MEMO_CHARACTERS = 4 << 20
"""What it remembers of texts, in characters: one long conversation's, about 50 MB at the most."""
_PROGRAM = "from agora.gateway.editing.away import serve; serve(%d)"


@dataclass(slots=True)
class Away:
    """Has tasks done in a process of their own, one at a time. Safe to call from threads."""

    settings: EditorSettings
    idle_seconds: float = _IDLE_SECONDS
    _process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)
    _line: "Connection[object, object] | None" = field(default=None, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _starts: Breaker = field(default_factory=lambda: Breaker(failures=1), init=False)
    _closed: bool = field(default=False, init=False)

    def __call__(self, task: Task, gone: Callable[[], bool] = bool) -> Worked | None:
        """Return what becomes of a body; None if there is no process to read it.

        Raises:
            LostError: it could not be read there. It is not tried here: what ends that process
                would end this one too.
        """
        with self._lock:
            for _ in range(2):
                line = self._line or self._started()
                if line is None:
                    return None
                try:
                    return self._done(line, task, gone)
                except (OSError, EOFError):
                    self._end()
                except LostError:
                    raise
                except BaseException:
                    # Nobody knows what is in the line now.
                    self._end()
                    raise
            raise LostError("its process ended twice")

    @property
    def pid(self) -> int | None:
        """The id of the process, while there is one."""
        return None if self._process is None else self._process.pid

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._closed = True
        process = self._process
        if process is not None:
            process.kill()
            process.wait()

    def _done(
        self, line: "Connection[object, object]", task: Task, gone: Callable[[], bool]
    ) -> Worked:
        line.send(replace(task, body=b""))
        line.send_bytes(task.body)
        while not line.poll(_LOOK_SECONDS):
            if gone():
                self._end()
                raise LostError("it took too long")
        worked = line.recv()
        if not isinstance(worked, Worked):
            raise LostError(str(worked))
        edited, seen = worked.edited, worked.seen
        if not edited.body:
            edited = replace(edited, body=task.body)
        if seen is not None:
            seen = marked_here(seen, task.body)
        return replace(worked, edited=edited, seen=seen)

    def _started(self) -> "Connection[object, object] | None":
        if self._closed:
            raise LostError("the gateway stops")
        if not self._starts.allows():
            return None
        ours, theirs = Pipe()
        try:
            # Without the folder that it is started in on its path: anybody's code may be there.
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and program
                [sys.executable, "-P", "-c", _PROGRAM % theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                # A traceback may show what was being read.
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )
            theirs.close()
            if self._closed:
                self._process.kill()
            ours.send((self.settings, self.idle_seconds))
            is_late = not ours.poll(_START_SECONDS)
            if not is_late:
                ours.recv()
        except Exception as error:
            theirs.close()
            ours.close()
            self._end()
            if self._closed:
                raise LostError("the gateway stops") from None
            _log.warning(
                "long conversations are edited in a thread: no process of their own could be "
                "started (%s)",
                type(error).__name__,
            )
            self._starts.failed()
            return None
        if is_late:
            ours.close()
            self._end()
            raise LostError("its process did not start in time")
        self._starts.succeeded()
        self._line = ours
        return ours

    def _end(self) -> None:
        if self._line is not None:
            self._line.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._line = self._process = None


class LostError(AgoraError):
    """A task was not done in the process of its own."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return f"a long conversation was not read: {self.problem}"


def serve(handle: int) -> None:
    """Do what comes through a socket, until it is closed or nothing comes for a while."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGVTALRM, _too_long)
    import resource  # not every system has it, and where it is missing nothing gets here

    with suppress(OSError, ValueError):
        os.nice(_NICE)
        resource.setrlimit(resource.RLIMIT_DATA, (_MOST_BYTES, _MOST_BYTES))
    give_back_large_blocks()
    line: Connection[object, object] = Connection(handle)
    threading.Thread(target=_end_with_it, args=(handle,), daemon=True).start()
    received = line.recv()
    assert isinstance(received, tuple)  # noqa: S101 - our own other end
    settings, idle_seconds = received
    counter = RememberedCounts()
    share_out(_MEMO_CHARACTERS)
    # Nothing here has cycles to speak of, and looking for them takes a sixth of the time.
    gc.disable()
    line.send("ready")
    while line.poll(idle_seconds):
        task = line.recv()
        assert isinstance(task, Task)  # noqa: S101 - our own other end
        task = replace(task, body=line.recv_bytes())
        outcome = _outcome(task, settings, counter)
        line.send(outcome)
        if isinstance(outcome, str):
            # Whatever it was, the next one begins with a process in order.
            return
        del task, outcome
        gc.collect()


def _outcome(task: Task, settings: EditorSettings, counter: RememberedCounts) -> Worked | str:
    """Return what becomes of a body, or the name of what went wrong."""
    signal.setitimer(signal.ITIMER_VIRTUAL, _MOST_SECONDS)
    try:
        compressor = settings.compressor(Timed(settings.scorer), task.sheet, counter)
        worked = worked_out(task, settings, compressor)
    except SystemExit:
        return "it took too long"
    except BaseException as error:  # a panic in native code is no Exception
        return f"it failed with {type(error).__name__}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    if worked.edited.body is task.body:
        worked = replace(worked, edited=replace(worked.edited, body=b""))
    return worked


def _too_long(*_: object) -> None:
    # Not an error: those the compressor catches.
    raise SystemExit


def _end_with_it(handle: int) -> None:
    """End this process as soon as the other end of the socket is closed, work or not."""
    poll = select.poll()
    poll.register(handle, 0)
    while not poll.poll():
        time.sleep(_LOOK_SECONDS)
    os._exit(0)

"""Runs an agent as if its terminal, its signals and its exit code were the shell's own."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

_FORWARDED = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCONT")
"""Signals to this process alone that are meant for the agent."""
_OF_TERMINAL = ("SIGINT", "SIGQUIT", "SIGTSTP", "SIGWINCH", "SIGTTIN", "SIGTTOU")
"""Signals that the terminal sends to the agent and to this process alike."""
_CONTINUED_SECONDS = 0.2
"""In which an agent is continued that was stopped together with us."""
KILLED = 128
"""The number that shells add to the signal that ended a command."""


def run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command to its end, and return the exit code that a shell would give it.

    The command shares this process's terminal and process group, so Ctrl-C, Ctrl-Z and a new window
    size reach it directly. A signal sent to this process alone is passed on. When
    it is stopped, this process stops with it, so that the shell gets its terminal back.

    Windows has none of this but Ctrl-C, which reaches the command and this process alike.

    Raises:
        OSError: It cannot be started.
    """
    if os.name != "posix":
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            return subprocess.call(command, env=dict(environment))  # noqa: S603 - the user's command
        finally:
            signal.signal(signal.SIGINT, before)
    # Handlers first: a signal between start and handler would end us and not the agent.
    with _passing_on() as pass_on_to:
        process = subprocess.Popen(command, env=dict(environment))  # noqa: S603 - the user's command
        pass_on_to(process.pid)
        while True:
            _, status = os.waitpid(process.pid, os.WUNTRACED)
            if not os.WIFSTOPPED(status):
                break
            # If a SIGCONT came first, a stop now would be final.
            time.sleep(_CONTINUED_SECONDS)
            changed, later = os.waitpid(process.pid, os.WNOHANG | os.WCONTINUED)
            if not changed:
                os.kill(os.getpid(), signal.SIGSTOP)
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGCONT)
            elif not os.WIFCONTINUED(later):
                status = later
                break
    code = os.waitstatus_to_exitcode(status)
    process.returncode = code
    return KILLED - code if code < 0 else code


@contextmanager
def _passing_on() -> Iterator[Callable[[int], None]]:
    """Pass signals on to the process that the block names, as long as the block runs.

    Earlier signals wait for the name.
    """
    to: list[int] = []
    waiting: list[int] = []

    def forward(number: int, _: FrameType | None) -> None:
        if not to:
            waiting.append(number)
            return
        with suppress(ProcessLookupError):
            os.kill(to[0], number)

    def pass_on_to(pid: int) -> None:
        to.append(pid)
        while waiting:
            forward(waiting.pop(0), None)

    def of_terminal(number: int, frame: FrameType | None) -> None:
        # Not from the terminal: another process signalled only us, so pass it on.
        if number in (signal.SIGINT, signal.SIGQUIT) and not _in_foreground():
            forward(number, frame)

    handlers = [(name, forward) for name in _FORWARDED] + [(n, of_terminal) for n in _OF_TERMINAL]
    before = []
    for name, handler in handlers:
        number = getattr(signal, name)
        if signal.getsignal(number) is not signal.SIG_IGN:
            # The agent inherits ignored signals (nohup).
            before.append((number, signal.signal(number, handler)))
    try:
        yield pass_on_to
    finally:
        for number, old in before:
            signal.signal(number, old)


def _in_foreground() -> bool:
    """Return True if a terminal sends its signals to this process group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

# Who started these tests may ignore signals, as nohup does, and what they start inherits that.
RUN = """
import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
from agora.wrapping.run import run
sys.exit(run(sys.argv[1:], os.environ))
"""


@contextmanager
def running(*command: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command as `agora wrap` does, in a process group of its own."""
    process = subprocess.Popen(
        (sys.executable, "-c", RUN, *command), stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def said(process: "subprocess.Popen[bytes]") -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_the_exit_code_is_the_agents(code: int) -> None:
    with running("sh", "-c", f"exit {code}") as process:
        assert process.wait(30) == code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_an_agent_that_a_signal_ended_has_the_code_that_shells_give_it(number: int) -> None:
    with running("sh", "-c", f"kill -{number} $$") as process:
        assert process.wait(30) == 128 + number


@pytest.mark.parametrize("name", ["TERM", "HUP", "USR1", "INT"])
def test_a_signal_to_us_alone_reaches_the_agent(name: str) -> None:
    script = f"trap 'exit 42' {name}; echo ready; while :; do sleep 0.05; done"
    with running("sh", "-c", script) as process:
        assert said(process) == b"ready\n"
        process.send_signal(getattr(signal, f"SIG{name}"))
        assert process.wait(30) == 42


def test_a_signal_that_comes_while_the_agent_is_started_waits_for_it() -> None:
    early = """
import os, signal, subprocess, sys
from agora.wrapping import run
start = subprocess.Popen
def starting(command, **named):
    # Before there is an agent, and after, before anybody knows its number.
    os.kill(os.getpid(), signal.SIGUSR1)
    process = start(command, stdout=subprocess.PIPE, **named)
    process.stdout.readline()
    os.kill(os.getpid(), signal.SIGUSR1)
    return process
subprocess.Popen = starting
script = "trap 'n=$((n+1))' USR1; echo; sleep 1 & wait $!; wait $!; wait $!; exit $((40+n))"
sys.exit(run.run(["sh", "-c", script], os.environ))
"""
    # Two of a kind that wait at once are one to the agent, as the kernel has it for all signals.
    assert subprocess.run((sys.executable, "-c", early), timeout=30).returncode in (41, 42)


def test_when_the_agent_stops_we_stop_and_continue_with_it() -> None:
    with running("sh", "-c", "echo ready; kill -STOP $$; exit 5") as process:
        assert said(process) == b"ready\n"
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        os.kill(process.pid, signal.SIGCONT)
        _, status = os.waitpid(process.pid, 0)
        assert os.waitstatus_to_exitcode(status) == 5
        process.returncode = 5


def test_stopped_together_we_go_on_together_whoever_is_continued_first() -> None:
    agent = "import sys, time; print('ready', flush=True); time.sleep(0.2); sys.exit(4)"
    with running(sys.executable, "-c", agent) as process:
        assert said(process) == b"ready\n"
        os.killpg(process.pid, signal.SIGSTOP)
        time.sleep(0.3)
        os.kill(process.pid, signal.SIGCONT)
        assert process.wait(30) == 4


def test_what_is_ignored_is_ignored_by_the_agent_too() -> None:
    with running("sh", "-c", "trap '' HUP; echo ready; sleep 0.3; exit 3") as process:
        assert said(process) == b"ready\n"
        process.send_signal(signal.SIGHUP)
        assert process.wait(30) == 3


def test_the_terminal_is_the_agents(tmp_path: Path) -> None:
    agent = "import os, sys; sys.exit(0 if all(os.isatty(n) for n in range(3)) else 9)"
    main, other = os.openpty()
    try:
        process = subprocess.Popen(
            (sys.executable, "-c", RUN, sys.executable, "-c", agent),
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
        )
        assert process.wait(30) == 0
    finally:
        os.close(main)
        os.close(other)


def test_ctrl_c_of_a_terminal_reaches_the_agent_once() -> None:
    script = (
        "import signal, sys, time\n"
        "hits = []\n"
        "signal.signal(signal.SIGINT, lambda *_: hits.append(1))\n"
        "print('ready', flush=True)\n"
        "end = time.monotonic() + 20\n"
        "while not hits and time.monotonic() < end: time.sleep(0.02)\n"
        "time.sleep(0.5)\n"
        "sys.exit(40 + len(hits))\n"
    )
    pid, terminal = os.forkpty()
    if pid == 0:
        command = (sys.executable, "-c", RUN, sys.executable, "-c", script)
        os.execv(sys.executable, command)  # noqa: S606
    try:
        seen = b""
        until = time.monotonic() + 30
        while b"ready" not in seen and time.monotonic() < until:
            seen += os.read(terminal, 1_024)
        os.write(terminal, b"\x03")
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 41
    finally:
        os.close(terminal)

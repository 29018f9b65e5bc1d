"""One agent's session before a fake provider, through `agora wrap` or directly, recorded.

A session writes a folder, from which all figures are computed: `agent/` and `provider/`
with the requests at both ends, `proxy.log`, `account.json` with what `agora wrap` counted,
`agent.log` with what was printed, and `home.json` with the agent's home before it began.
"""

import hashlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from harness.agents.drivers import Agent, Launch, Place
from harness.agents.install import programs
from harness.agents.repository import make_repository
from harness.processes import children_of

_START_SECONDS = 300.0
_STOP_SECONDS = 20.0
_DIRECT_SECONDS = 300.0
_AGORA = "from agora.cli import main; main()"
_NOWHERE = {"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1,localhost"}
"""A proxy setting for all other traffic: a port on which nothing listens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a session is to be run."""

    steps: int = 45
    seconds: float = 600.0
    """The longest that the agent may take."""
    wrapped: bool = True
    """True if the agent runs in `agora wrap`; otherwise it calls its provider directly."""
    kill_after: int = 0
    """The call after which the proxy is ended by SIGKILL; 0 for never."""
    pause_after: int = 0
    """The call after which everything but the provider is stopped for a while, as on a laptop that
    sleeps; 0 for never."""
    pause_seconds: float = 0.0
    seed: int = 7
    """Of the repository that is read."""
    binding: str = "default"
    """The provider's treatment of invalid thinking; see `harness.agents.stage`."""


def run_session(
    agent: Agent, tools: Path, folder: Path, plan: Plan, progress: Callable[[int], None]
) -> int:
    """Run an agent once and return its exit code, -9 on a timeout.

    `progress` gets the number of requests so far.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell in the background ignores SIGINT; the programs started here end by it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if folder.exists():
        shutil.rmtree(folder)
    for name in ("home", "tmp", "programs"):
        (folder / name).mkdir(parents=True)
    with _provider(folder, plan) as provider:
        place = Place(folder / "home", folder / "repository", provider, tools)
        code = _run_agent(agent, place, folder, plan, progress)
    if plan.wrapped and altered(folder):
        # Some agents write into the user's files themselves: compare with a session without AGORA.
        direct = folder / "direct"
        short = Plan(steps=1, seconds=_DIRECT_SECONDS, wrapped=False)
        run_session(agent, tools, direct, short, lambda _: None)
        (folder / "direct.json").write_text(json.dumps(sorted(altered(direct))), encoding="utf-8")
    return code


@contextmanager
def _provider(folder: Path, plan: Plan) -> Iterator[str]:
    """Run the fake provider with a repository to read, and give its address."""
    make_repository(folder / "repository", seed=plan.seed)
    (port,) = free_ports(1)
    stage = (
        *(sys.executable, "-m", "harness.agents.stage", "--record", str(folder)),
        *("--provider", str(port), "--repository", str(folder / "repository")),
        *("--steps", str(plan.steps), "--binding", plan.binding),
    )
    with process(stage, folder / "stage.log"):
        wait_for(port)
        yield f"http://127.0.0.1:{port}"


def altered(folder: Path) -> set[str]:
    """Return the files of the user's home that the session changed."""
    before = json.loads((folder / "home.json").read_text(encoding="utf-8"))
    after = contents(folder / "home")
    return {name for name, digest in before.items() if after.get(name) != digest}


def _run_agent(
    agent: Agent, place: Place, folder: Path, plan: Plan, progress: Callable[[int], None]
) -> int:
    launch = agent.launch(place)
    path = ":".join((*map(str, programs(agent.package, place.programs)), "/usr/bin", "/bin"))
    program = shutil.which(launch.command[0], path=path)
    if program is None:
        raise FileNotFoundError(f"{launch.command[0]} of {agent.package.name} is not in {path}")
    command: tuple[str, ...] = (program, *launch.command[1:])
    environment: Mapping[str, str] = launch.environment
    if plan.wrapped:
        command = _wrapped(agent, Path(program), launch, folder, place.base)
        environment = {**environment, **_interpreter()}
    own = {
        "PATH": f"{folder / 'programs'}:{path}",
        "HOME": str(place.home),
        "TMPDIR": str(folder / "tmp"),
        "TERM": "dumb",
    }
    (folder / "home.json").write_text(json.dumps(contents(place.home)), encoding="utf-8")
    with (folder / "agent.log").open("wb") as log:
        started = subprocess.Popen(
            command,
            cwd=place.repository,
            env={**own, **_NOWHERE, **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        return _watched(started, folder, plan, progress)
    finally:
        # The agent's own children too: shells and servers that it left behind.
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait(_STOP_SECONDS)


def _watched(
    started: "subprocess.Popen[bytes]", folder: Path, plan: Plan, progress: Callable[[int], None]
) -> int:
    """Wait for the agent, kill the proxy if that is planned, and return the exit code."""
    killed, paused = not plan.kill_after, not plan.pause_after
    until = time.monotonic() + plan.seconds
    while time.monotonic() < until:
        try:
            return started.wait(0.5 if killed and paused else 0.1)
        except subprocess.TimeoutExpired:
            calls = sum(1 for _ in (folder / "provider").glob("*.json"))
            killed = killed or (calls >= plan.kill_after and _kill_proxy(started.pid))
            if not paused and calls >= plan.pause_after:
                paused = True
                os.killpg(started.pid, signal.SIGSTOP)
                time.sleep(plan.pause_seconds)
                os.killpg(started.pid, signal.SIGCONT)
            progress(calls)
    return -signal.SIGKILL


def _kill_proxy(wrap: int) -> bool:
    """Kill the proxy of a running `agora wrap`; return False if there is none yet."""
    for pid in children_of(wrap):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if b"agora.wrapping.child" in command:
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def _wrapped(
    agent: Agent, program: Path, launch: Launch, folder: Path, provider: str
) -> tuple[str, ...]:
    """Return the command that starts the agent in `agora wrap`, behind a tap."""
    _put_tap_before(program, folder, provider.rpartition(":")[2])
    options = ["--log", str(folder / "proxy.log"), "--json", str(folder / "account.json")]
    if agent.wrapped_as:
        options += ["--as", agent.wrapped_as]
    wrap = (sys.executable, "-P", "-c", _AGORA, "wrap")
    return (*wrap, *options, program.name, *launch.command[1:])


def _put_tap_before(program: Path, folder: Path, provider_port: str) -> None:
    """Write the program that `agora wrap` finds under the agent's name: the agent behind a tap."""
    variables = {f"AGORA_TAPPED_{key}": "1" for key in _interpreter()}
    words = (
        *("env", *(f"{key}={value}" for key, value in {**variables, **_interpreter()}.items())),
        *(sys.executable, "-P", "-m", "harness.agents.tapped"),
        *("--record", str(folder), "--not", provider_port, "--", str(program)),
    )
    path = folder / "programs" / program.name
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
    path.chmod(0o755)


def _interpreter() -> dict[str, str]:
    """Return the import path for our own processes."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def contents(folder: Path) -> dict[str, str]:
    """Return a hash of each file below a folder, by its path."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


@contextmanager
def process(command: Sequence[str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a process of ours as long as the block runs."""
    with log.open("ab") as out:
        started = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        yield started
    finally:
        # As Ctrl-C does.
        started.send_signal(signal.SIGINT)
        try:
            started.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait(_STOP_SECONDS)


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def wait_for(*ports: int) -> None:
    until = time.monotonic() + _START_SECONDS
    for port in ports:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if time.monotonic() > until:
                    raise TimeoutError(
                        f"nothing listens on port {port}; see the logs in the session's folder"
                    ) from None
                time.sleep(0.05)

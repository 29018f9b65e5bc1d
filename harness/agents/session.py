"""One agent's session through `agora wrap`, before a fake provider; everything is recorded.

A session leaves a folder behind from which everything else is worked out: `agent/` and `provider/`
with the requests at both ends, `gateway.log`, `account.json` with what `agora wrap` counted,
`agent.log` with what was printed, `home.json` with the agent's home before it began, and
`session.json` with how it went. Other ways to the provider are in `harness.agents.doors`.
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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import agora
from harness.agents.drivers import Agent, Launch, Place
from harness.agents.install import programs
from harness.agents.repository import make_repository
from harness.processes import children_of

_START_SECONDS = 300.0
_STOP_SECONDS = 20.0
_DIRECT_SECONDS = 300.0
_BUSY = "import time\nend = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass"
_AGORA = "from agora.cli import main; main()"
_NOWHERE = {"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1,localhost"}
"""Whatever an agent would ask of the world outside ends at a port that nobody listens on."""


State = Literal["edit", "shadow", "now", "before"]
"""What a gateway may be: editing, in shadow, of this version, of the version before."""


@dataclass(frozen=True, slots=True)
class Switch:
    """A gateway replaced by another while the agent works."""

    after: int
    """The provider's calls until then."""
    to: State
    by: Literal["restart", "reload"] = "restart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a session is to be run."""

    steps: int = 45
    seconds: float = 600.0
    """The longest that the agent may take."""
    busy: bool = False
    """Whether every core is kept busy by other work meanwhile."""
    deadline_ms: int | None = None
    """How long the gateway may take to compress a request; None for its default."""
    kill_after: int = 0
    """The call after which the gateway is ended by SIGKILL; 0 for never."""
    door: str = "wrap"
    """The name of what stands between the agent and its provider."""
    binding: str = "default"
    """What the provider does with thinking that no longer holds; see `harness.agents.stage`."""
    settings: str = ""
    """Settings for the gateway, as TOML."""
    begins: State = "edit"
    switches: tuple[Switch, ...] = ()
    """In the order in which they come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOutcome:
    """How a session went."""

    agent: str
    version: str
    source: str
    """The hash of the code that was run; see `harness.agents.__main__`."""
    plan: Plan
    began: str
    seconds: float
    exit_code: int
    """The agent's; -9 where its time was up."""
    load: float
    """The machine's load average at the end: other work shows in it."""


class Door(Protocol):
    """What stands between an agent and its provider."""

    def open(self, folder: Path, provider: str, plan: Plan, stack: ExitStack) -> str:
        """Start it, as long as the stack lasts, and return the address that the user has set."""

    def command(
        self, agent: Agent, program: Path, launch: Launch
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the command that starts the agent, and what its environment has besides."""

    def kill(self, started: int) -> bool:
        """End the gateway as kill -9 does; return whether there was one."""

    def switch(self, switch: Switch, started: int) -> bool:
        """Replace the gateway; return whether there was one. `started` is the command's process."""


def run_session(
    agent: Agent,
    version: str,
    tools: Path,
    folder: Path,
    plan: Plan,
    source: str,
    progress: Callable[[int], None],
    door: Door | None = None,
) -> SessionOutcome:
    """Run an agent once, and return how it went; `progress` gets the requests so far."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # In the background of a shell; what is started here is ended by this signal.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if folder.exists():
        shutil.rmtree(folder)
    home, repository = folder / "home", folder / "repository"
    for one in (home, folder / "tmp", folder / "programs"):
        one.mkdir(parents=True)
    make_repository(repository)
    (provider,) = free_ports(1)
    began, clock = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), time.monotonic()
    with ExitStack() as stack:
        stage = (
            *(sys.executable, "-m", "harness.agents.stage", "--record", str(folder)),
            *("--provider", str(provider), "--repository", str(repository)),
            *("--steps", str(plan.steps), "--binding", plan.binding),
        )
        stack.enter_context(process(stage, folder / "stage.log"))
        wait_for(provider)
        if plan.busy:
            for _ in range(os.cpu_count() or 1):
                busy = (sys.executable, "-c", _BUSY.format(seconds=plan.seconds + 60))
                stack.enter_context(process(busy, folder / "busy.log"))
        door = door or Wrap()
        base = door.open(folder, f"http://127.0.0.1:{provider}", plan, stack)
        place = Place(home, repository, base, tools)
        code = _run_agent(agent, place, folder, plan, progress, door)
    if altered(folder):
        # Some agents write into the user's files themselves: a session without us tells.
        direct = sorted(_altered_directly(agent, tools, folder / "direct"))
        (folder / "direct.json").write_text(json.dumps(direct), encoding="utf-8")
    outcome = SessionOutcome(
        agent=agent.name,
        version=version,
        source=source,
        plan=plan,
        began=began,
        seconds=round(time.monotonic() - clock, 1),
        exit_code=code,
        load=round(os.getloadavg()[0], 2),
    )
    text = json.dumps(asdict(outcome), indent=1)
    (folder / "session.json").write_text(text + "\n", encoding="utf-8")
    return outcome


def altered(folder: Path) -> set[str]:
    """Return the files of the user's home that are not what they were before the session."""
    before = json.loads((folder / "home.json").read_text(encoding="utf-8"))
    after = contents(folder / "home")
    return {name for name, digest in before.items() if after.get(name) != digest}


def _altered_directly(agent: Agent, tools: Path, folder: Path) -> set[str]:
    """Return which of the user's files an agent alters by itself, in a short session without us."""
    home, repository = folder / "home", folder / "repository"
    home.mkdir(parents=True)
    make_repository(repository)
    (provider,) = free_ports(1)
    stage = (
        *(sys.executable, "-m", "harness.agents.stage", "--record", str(folder), "--steps", "1"),
        *("--provider", str(provider), "--repository", str(repository)),
    )
    with process(stage, folder / "stage.log"):
        wait_for(provider)
        place = Place(home, repository, f"http://127.0.0.1:{provider}", tools)
        launch = agent.launch(place)
        (folder / "home.json").write_text(json.dumps(contents(home)), encoding="utf-8")
        path = ":".join((*map(str, programs(agent.package, tools)), "/usr/bin", "/bin"))
        own = {"PATH": path, "HOME": str(home), "TERM": "dumb"}
        with (folder / "agent.log").open("wb") as log:
            started = subprocess.Popen(
                (shutil.which(launch.command[0], path=path) or "", *launch.command[1:]),
                cwd=repository,
                env={**own, **_NOWHERE, **launch.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            started.wait(_DIRECT_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        finally:
            _end_group(started)
    return altered(folder)


def read_outcome(folder: Path) -> SessionOutcome | None:
    """Return how the session in a folder went; None where there is none that ended."""
    path = folder / "session.json"
    if not path.is_file():
        return None
    known = json.loads(path.read_text(encoding="utf-8"))
    return SessionOutcome(**{**known, "plan": plan_of(known["plan"])})


def plan_of(known: dict[str, Any]) -> Plan:
    """Return a plan that was written as JSON."""
    switches = tuple(Switch(**one) for one in known.get("switches", ()))
    return Plan(**{**known, "switches": switches})


def _run_agent(
    agent: Agent,
    place: Place,
    folder: Path,
    plan: Plan,
    progress: Callable[[int], None],
    door: Door,
) -> int:
    launch = agent.launch(place)
    path = ":".join((*map(str, programs(agent.package, place.programs)), "/usr/bin", "/bin"))
    program = shutil.which(launch.command[0], path=path)
    if program is None:
        raise FileNotFoundError(f"{launch.command[0]} of {agent.package.name} is not in {path}")
    command, more = door.command(agent, Path(program), launch)
    own = {
        "PATH": f"{folder / 'programs'}:{path}",
        "HOME": str(place.home),
        "TMPDIR": str(folder / "tmp"),
        "TERM": "dumb",
    }
    environment = {**own, **_NOWHERE, **launch.environment, **more}
    (folder / "home.json").write_text(json.dumps(contents(place.home)), encoding="utf-8")
    typed = "".join(f"{line}\n" for line in launch.said[: plan.steps + 1])
    with (folder / "agent.log").open("wb") as log, (folder / "typed.txt").open("w+b") as lines:
        lines.write(f"{typed}/exit\n".encode() if typed else b"")
        lines.seek(0)
        started = subprocess.Popen(
            command,
            cwd=place.repository,
            env=environment,
            stdin=lines if typed else subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        return _watched(started, folder, plan, progress, door)
    finally:
        # The agent's own children too: shells and servers that it left behind.
        _end_group(started)


def _watched(
    started: "subprocess.Popen[bytes]",
    folder: Path,
    plan: Plan,
    progress: Callable[[int], None],
    door: Door,
) -> int:
    """Do to the gateway what is planned while the agent works, and return its exit code."""
    killed, waiting, done = not plan.kill_after, list(plan.switches), []
    until = time.monotonic() + plan.seconds
    while time.monotonic() < until:
        try:
            return started.wait(0.5 if killed and not waiting else 0.1)
        except subprocess.TimeoutExpired:
            calls = sum(1 for _ in (folder / "provider").glob("*.json"))
            if not killed and calls >= plan.kill_after:
                killed = door.kill(started.pid)
                done.append({"to": "killed", "calls": calls, "at": time.time()})
            elif waiting and calls >= waiting[0].after and door.switch(waiting[0], started.pid):
                done.append({"to": waiting.pop(0).to, "calls": calls, "at": time.time()})
            (folder / "switched.json").write_text(json.dumps(done), encoding="utf-8")
            progress(calls)
    return -signal.SIGKILL


class Wrap:
    """The user's `agora wrap`, which starts a gateway of its own and keeps it running."""

    def __init__(self, sources: Mapping[State, Path] | None = None) -> None:
        """Take where each version of `agora` is, for sessions in which it is replaced."""
        self._sources = dict(sources or {})
        self._folder = Path()
        self._provider = ""
        self._plan = Plan()

    def open(self, folder: Path, provider: str, plan: Plan, stack: ExitStack) -> str:
        """Note where everything is: what there is to start starts with the agent."""
        self._folder, self._provider, self._plan = folder, provider, plan
        if self._sources:
            self._point_to("before" if plan.begins == "before" else "now")
        return provider

    def command(
        self, agent: Agent, program: Path, launch: Launch
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the user's `agora`, with the agent's environment."""
        folder, plan, name = self._folder, self._plan, program.name
        _tapped(folder, str(program), name, self._provider.rpartition(":")[2])
        options = ["--log", str(folder / "gateway.log"), "--account", str(folder / "account.json")]
        text = plan.settings
        if plan.deadline_ms is not None:
            text += f"[limits]\ncompress_deadline_ms = {plan.deadline_ms}\n"
        if text:
            settings = folder / "agora.toml"
            settings.write_text(text, "utf-8")
            options += ["--settings", str(settings)]
        if plan.begins == "shadow":
            options.append("--shadow")
        if agent.wrapped_as:
            options += ["--as", agent.wrapped_as]
        wrap = (sys.executable, "-P", "-c", _AGORA, "wrap", *options, name, *launch.command[1:])
        return wrap, self._interpreter()

    def kill(self, started: int) -> bool:
        """End the gateway; `agora wrap` starts another."""
        return _end_gateway(started, signal.SIGKILL)

    def switch(self, switch: Switch, started: int) -> bool:
        """Put another version in the place of `agora`, and have the gateway started again."""
        if switch.to not in self._sources:
            raise ValueError(f"agora wrap cannot go over to {switch.to!r} while an agent runs")
        self._point_to(switch.to)
        return _end_gateway(started, signal.SIGTERM)

    def _point_to(self, version: State) -> None:
        """Put a version where `agora` is imported from, as an upgrade does."""
        fresh, link = self._folder / "agora-next", self._folder / "agora-source"
        fresh.symlink_to(self._sources[version])
        fresh.replace(link)

    def _interpreter(self) -> dict[str, str]:
        if not self._sources:
            return _interpreter()
        own = str(Path(agora.__file__).parent.parent)
        path = [str(self._folder / "agora-source"), *(one for one in sys.path if one != own)]
        return {"PYTHONPATH": os.pathsep.join(filter(None, path))}


def _tapped(folder: Path, program: str, name: str, provider: str) -> None:
    """Write the program that `agora wrap` finds under the agent's name: the agent behind a tap."""
    variables = {f"AGORA_TAPPED_{key}": "1" for key in _interpreter()}
    words = (
        *("env", *(f"{key}={value}" for key, value in {**variables, **_interpreter()}.items())),
        *(sys.executable, "-P", "-m", "harness.agents.tapped"),
        *("--record", str(folder), "--not", provider, "--", program),
    )
    path = folder / "programs" / name
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
    path.chmod(0o755)


def _interpreter() -> dict[str, str]:
    """Return where our own code is, for the processes that are ours."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def contents(folder: Path) -> dict[str, str]:
    """Return a hash of each file below a folder, by its path."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def _end_gateway(wrap: int, how: signal.Signals) -> bool:
    """Send a signal to the gateway of a running `agora wrap`; return whether there was one."""
    for pid in children_of(wrap):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if b"agora.wrapping.child" in command:
            os.kill(pid, how)
            return True
    return False


def _end_group(started: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)
    started.wait(_STOP_SECONDS)


@contextmanager
def process(command: Sequence[str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a process of ours as long as the block runs."""
    with log.open("ab") as out:
        started = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        yield started
    finally:
        # Not SIGTERM: the gateway would take requests for some seconds more, and none will come.
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

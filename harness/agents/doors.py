"""Other ways from an agent to its provider than `agora wrap`: `agora serve`, and none at all.

Both stand behind a tap that records what the agent sends. `agora serve` is run as an operator runs
it: a file of settings and a port, on which it is stopped and started again, or told to read the
file once more.
"""

import json
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen

from harness.agents.drivers import Agent, Launch
from harness.agents.session import Plan, State, Switch, free_ports, process, wait_for

_AGORA = "from agora.cli import main; main()"


class Direct:
    """No gateway: the agent's requests reach the provider as they are."""

    def open(self, folder: Path, provider: str, plan: Plan, stack: ExitStack) -> str:
        """Start the tap, and return where it is."""
        del plan
        return _tap(folder, provider, stack)

    def command(
        self, agent: Agent, program: Path, launch: Launch
    ) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the agent's own command."""
        del agent
        return (str(program), *launch.command[1:]), {}

    def kill(self, started: int) -> bool:
        """Say that there is nothing to end."""
        del started
        return False

    def switch(self, switch: Switch, started: int) -> bool:
        """Say that there is nothing to replace."""
        del switch, started
        return False


class Serve(Direct):
    """`agora serve`, in the mode in which it is told to be."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._folder = Path()
        self._provider = ""
        self._plan = Plan()
        self._port = 0
        self._running: ExitStack | None = None
        self._process: Popen[bytes] | None = None

    def open(self, folder: Path, provider: str, plan: Plan, stack: ExitStack) -> str:
        """Start gateway and tap, and return where the tap is."""
        self._folder, self._provider, self._plan = folder, provider, plan
        (self._port,) = free_ports(1)
        stack.callback(self._stop)
        self._start(plan.begins)
        return _tap(folder, f"http://127.0.0.1:{self._port}", stack)

    def kill(self, started: int) -> bool:
        """End the gateway as kill -9 does, and start another."""
        del started
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._stop()
        self._start(self._plan.begins)
        return True

    def switch(self, switch: Switch, started: int) -> bool:
        """Have the gateway go on in another mode."""
        del started
        if switch.by == "reload" and self._process is not None:
            self._write(switch.to)
            self._process.send_signal(signal.SIGHUP)
            return True
        self._stop()
        self._start(switch.to)
        return True

    def _start(self, mode: State) -> None:
        path = self._write(mode)
        self._running = ExitStack()
        command = (sys.executable, "-P", "-c", _AGORA, "serve", str(path))
        log = self._folder / "gateway.log"
        self._process = self._running.enter_context(process(command, log))
        wait_for(self._port)

    def _stop(self) -> None:
        if self._running is not None:
            self._running.close()
            self._running = None

    def _write(self, mode: State) -> Path:
        path = self._folder / "gateway.toml"
        path.write_text(settings_for(mode, self._port, self._provider, self._plan.settings))
        return path


def settings_for(mode: State, port: int, provider: str, more: str = "") -> str:
    """Return the file for a gateway before an Anthropic provider; patient, as `agora wrap`'s is."""
    return f"""[listen]
port = {port}
[compression]
mode = {json.dumps("shadow" if mode == "shadow" else "edit")}
[limits]
compress_deadline_ms = 2000
restore_deadline_ms = 5000
settle_seconds = 0
drain_seconds = 2
[headers]
forward = ["*"]
[paths]
other = "anthropic"
[[upstreams]]
base_url = {json.dumps(provider)}
formats = ["anthropic"]
{more}"""


def _tap(folder: Path, behind: str, stack: ExitStack) -> str:
    (port,) = free_ports(1)
    stage = (
        *(sys.executable, "-m", "harness.agents.stage", "--record", str(folder)),
        *("--tap", str(port), "--gateway", behind),
    )
    stack.enter_context(process(stage, folder / "tap.log"))
    wait_for(port)
    return f"http://127.0.0.1:{port}"

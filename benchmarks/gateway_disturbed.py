"""A gateway under load that is disturbed: reconfigured, and its process for long bodies killed."""

import os
import signal
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import cycle
from pathlib import Path

from harness.envoy import Running
from harness.gateway.loopback import free_port
from harness.processes import children_of

_CONFIG = """
[[upstreams]]
name = "up"
base_url = "{up}"
formats = ["openai", "anthropic"]
[compression]
keep_ratio = {keep_ratio}
[limits]
concurrent = {concurrent}
[log]
requests = false
"""


class Served:
    """A gateway as `agora serve` runs it, its configuration in a file."""

    def __init__(self, upstream: str, folder: Path) -> None:
        self._file, self._upstream = folder / "gateway.toml", upstream
        self._keep_ratios, self._concurrent = cycle((0.25, 0.3)), cycle((5_000, 4_999))
        self._keep_ratio, self._slots = next(self._keep_ratios), next(self._concurrent)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "agora.cli", "serve", str(self._file)]
        self.running = Running([*command, "--port", str(port)], f"{self.url}/readyz")
        self._write()

    def _write(self) -> None:
        text = _CONFIG.format(
            up=self._upstream, keep_ratio=self._keep_ratio, concurrent=self._slots
        )
        self._file.write_text(text, encoding="utf-8")

    def change_limits(self) -> None:
        """Have other limits taken over: what is remembered of conversations stays."""
        self._slots = next(self._concurrent)
        self._write()
        self.running.send(signal.SIGHUP)

    def change_compression(self) -> None:
        """Have conversations compressed otherwise: all that is remembered of them goes."""
        self._keep_ratio = next(self._keep_ratios)
        self._write()
        self.running.send(signal.SIGHUP)

    def kill_what_it_started(self) -> None:
        """Kill the process that reads long bodies, if it is there."""
        for child in children_of(self.running.pid):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


class Disturbing(threading.Thread):
    """Disturbs a gateway now and then, in each way in its turn, until it is over."""

    def __init__(self, served: Served, every: float) -> None:
        super().__init__(daemon=True)
        self._every = every
        self._ways = (
            served.change_limits,
            served.kill_what_it_started,
            served.change_compression,
            served.kill_what_it_started,
        )
        self.done: Counter[str] = Counter()
        """How often each of them was done."""
        self.over = threading.Event()

    def run(self) -> None:
        """Disturb until told to stop."""
        for way in cycle(self._ways):
            if self.over.wait(self._every):
                return
            way()
            self.done[way.__name__] += 1


@contextmanager
def disturbed(upstream: str, every: float) -> Iterator[tuple[Served, Counter[str]]]:
    """Run a gateway that is disturbed every so many seconds; yield it, and how it was so far."""
    with tempfile.TemporaryDirectory() as folder:
        served = Served(upstream, Path(folder))
        served.running.start()
        disturbing = Disturbing(served, every)
        disturbing.start()
        try:
            yield served, disturbing.done
        finally:
            disturbing.over.set()
            disturbing.join()
            served.running.end()

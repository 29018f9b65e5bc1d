"""Whether conversations stay in their arm: three replicas, kills, restarts and a rising share.

    python -m benchmarks.experiment_arms --conversations 10000

Each conversation calls five times, each time another replica. Between the rounds the share is
raised and taken over at SIGHUP, one replica is killed and started again, and at last all are. What
became of each call is read off its answer, and what was counted off the folder.
"""

import argparse
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

from agora.experiment.store import read_account
from harness.gateway.loopback import free_port, serving
from harness.gateway.strict_upstream import StrictUpstream

_CALLERS = 8
_CONFIG = """
[[upstreams]]
base_url = "{up}"
formats = ["openai"]
[compression]
mode = "experiment"
min_tokens = 0
[log]
requests = false
[experiment]
folder = "{folder}"
share = {share}
"""


class Replicas:
    """Three gateways with one configuration."""

    def __init__(self, config: Path) -> None:
        self.config = config
        self.ports = [free_port() for _ in range(3)]
        self.processes = [self._start(port) for port in self.ports]

    def _start(self, port: int) -> "subprocess.Popen[bytes]":
        environment = {**os.environ, "AGORA_TENANT_SECRET": "the same for all"}
        command = [sys.executable, "-m", "agora.cli", "serve", str(self.config)]
        process = subprocess.Popen(
            [*command, "--port", str(port)], env=environment, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
                connection.request("GET", "/readyz")
                if connection.getresponse().status == 200:
                    return process
            except OSError:
                time.sleep(0.05)
        raise TimeoutError("a gateway did not start")

    def kill(self, at: int) -> None:
        """Kill one and start it again."""
        self.processes[at].kill()
        self.processes[at].wait()
        self.processes[at] = self._start(self.ports[at])

    def end(self) -> None:
        """Stop all."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()


def call(ports: list[int], numbers: range, turn: int) -> dict[int, str]:
    """Return what became of a call of each conversation."""
    found: dict[int, str] = {}
    connections = [http.client.HTTPConnection("127.0.0.1", port, timeout=30) for port in ports]
    for number in numbers:
        connection = connections[(number + turn) % len(ports)]
        turns = [{"role": "user", "content": f"task {number}"}]
        turns += [{"role": "assistant", "content": "so"}, {"role": "user", "content": "on"}] * turn
        body = json.dumps({"model": "gpt-5", "messages": turns}).encode()
        headers = {"content-type": "application/json", "authorization": f"Bearer sk-{number % 5}"}
        connection.request("POST", "/v1/chat/completions", body, headers)
        answer = connection.getresponse()
        answer.read()
        why = answer.headers.get("x-agora-untouched", "")
        waits = why == "experiment_waiting"
        found[number] = "waiting" if waits else "everything" if why == "shadow" else "agora"
    return found


def round_of(replicas: Replicas, count: int, turn: int) -> dict[int, str]:
    """Return the same for all conversations, with several callers at once."""
    found: dict[int, str] = {}
    with ThreadPoolExecutor(_CALLERS) as pool:
        parts = [range(at, count, _CALLERS) for at in range(_CALLERS)]
        for part in pool.map(lambda part: call(replicas.ports, part, turn), parts):
            found |= part
    return found


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--conversations", type=int, default=10_000)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    with serving(StrictUpstream()) as up, tempfile.TemporaryDirectory() as work:
        config, folder = Path(work, "gateway.toml"), Path(work, "figures")

        def write(share: float) -> None:
            config.write_text(_CONFIG.format(up=f"{up}/v1", folder=folder, share=share))

        write(0.25)
        replicas, rounds = Replicas(config), []
        try:
            rounds.append(round_of(replicas, chosen.conversations, 0))
            replicas.kill(0)
            rounds.append(round_of(replicas, chosen.conversations, 1))
            write(0.5)
            for process in replicas.processes:
                process.send_signal(signal.SIGHUP)
            time.sleep(2)
            rounds.append(round_of(replicas, chosen.conversations, 2))
            replicas.kill(1)
            rounds.append(round_of(replicas, chosen.conversations, 3))
            for at in range(3):
                replicas.kill(at)
            rounds.append(round_of(replicas, chosen.conversations, 4))
            time.sleep(6)
        finally:
            replicas.end()
        account = read_account(folder)
    seen = [{each[number] for each in rounds} for number in range(chosen.conversations)]
    calls = Counter(each.arm for each in account.open.values() for _ in range(each.calls))
    report = {
        "conversations": chosen.conversations,
        "calls": chosen.conversations * len(rounds),
        "changed_arms": sum({"agora", "everything"} <= each for each in seen),
        "went_back_to_wait": sum(
            early[number] != "waiting" and late[number] == "waiting"
            for early, late in pairwise(rounds)
            for number in range(chosen.conversations)
        ),
        "arms_by_round": [dict(sorted(Counter(each.values()).items())) for each in rounds],
        "calls_counted": dict(sorted(calls.items())),
        "born_in_their_arm": sum(each.born for each in account.open.values()),
    }
    print(json.dumps(report, indent=1))
    if chosen.out:
        chosen.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""What the tests of `agora wrap` share: a provider with a prefix cache, and a small agent."""

import http.server
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.agents.wire import cache_for, prompt_of, segments

AGORA = (sys.executable, "-P", "-c", "from agora.cli import main; main()")
WRAP = (*AGORA, "wrap")
KEY = "sk-proj-madeup0000000000000000000000000000"
MODEL = "gpt-4.1"
AGENT = """
import json, os, sys, urllib.request
for number, line in enumerate(open(sys.argv[1], "rb")):
    for attempt in range(5):
        request = urllib.request.Request(
            os.environ["OPENAI_BASE_URL"] + "/chat/completions?beta=1", line.rstrip(b"\\n"),
            {"content-type": "application/json", "authorization": "Bearer " + os.environ["KEY"],
             "x-unheard-of": "Value"})
        try:
            print(urllib.request.urlopen(request, timeout=60).read().decode())
            break
        except urllib.error.HTTPError as error:
            print(error.read().decode())
            break
        except OSError:
            print("again")
    sys.stdout.flush()
    if len(sys.argv) > 2 and number == int(sys.argv[2]):
        sys.stdin.readline()
"""
"""An agent: it reads the usual variable, asks line by line, and repeats what broke off."""


class Provider(http.server.ThreadingHTTPServer):
    """A provider that bills from an exact prefix cache and keeps what it got."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.arrived: list[tuple[str, dict[str, str], bytes]] = []
        self.cache = cache_for(MODEL)
        self.dollars = 0.0
        self.quota: float | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answering(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        provider = self.server
        assert isinstance(provider, Provider)
        provider.arrived.append((self.path, headers, body))
        usage = provider.cache.send(segments(prompt_of("chat", json.loads(body))), time.monotonic())
        provider.dollars += usage.dollars
        reported = {
            "prompt_tokens": usage.tokens,
            "prompt_tokens_details": {"cached_tokens": usage.read},
            "completion_tokens": 0,
        }
        message = {"role": "assistant", "content": "ok"}
        said = json.dumps(
            {"choices": [{"index": 0, "message": message}], "usage": reported}
        ).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(said)))
        if provider.quota is not None:
            provider.quota += 0.01
            name = "anthropic-ratelimit-unified-5h-utilization"
            self.send_header(name, f"{provider.quota:.2f}")
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def providing() -> Iterator[Provider]:
    """Run a provider as long as the block runs."""
    made = Provider()
    threading.Thread(target=made.serve_forever, daemon=True).start()
    try:
        yield made
    finally:
        made.shutdown()
        made.server_close()


def surroundings(folder: Path, url: str) -> dict[str, str]:
    """Return an environment with a home of its own, whose OPENAI_BASE_URL the user has set."""
    (folder / "tmp").mkdir(exist_ok=True)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "TMPDIR": str(folder / "tmp"),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "OPENAI_BASE_URL": f"{url}/v1",
        "KEY": KEY,
    }


def history(steps: int, lines: int = 150) -> dict[str, Any]:
    """Return a request of so many steps; one with more of them continues it."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Read all files."}]
    for n in range(steps):
        function = {"name": "read", "arguments": json.dumps({"path": f"file{n}.py"})}
        call = {"id": f"c{n}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        text = "\n".join(
            f"def part_{n}_{k}(value): return value * {k * 7 + n}" for k in range(lines)
        )
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": text})
    return {"model": MODEL, "messages": messages, "unheard_of": 1.50}


def agent(folder: Path, bodies: Sequence[object], *more: str) -> tuple[str, ...]:
    """Write the agent and what it asks, and return the command that runs it."""
    (folder / "agent.py").write_text(AGENT)
    (folder / "bodies.jsonl").write_text("".join(json.dumps(body) + "\n" for body in bodies))
    return (sys.executable, str(folder / "agent.py"), str(folder / "bodies.jsonl"), *more)


def run(
    command: Sequence[str], folder: Path, environment: dict[str, str]
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end."""
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=240
    )

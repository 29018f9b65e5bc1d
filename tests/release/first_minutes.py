"""The quickstart, typed as it is printed by somebody who has nothing: how long it takes.

    python -m tests.release.first_minutes WHEEL --out docs/results/first-minutes.json

A new virtual environment, no cache of packages, a folder with nothing in it. Every block of
docs/quickstart.md is run in its order; the clock starts at the first `pip install`. Three things
are put in the place of what a stranger would have: the wheel for the name on the package index, a
server on loopback for the provider, and a few lines that ask it once for Claude Code. The sentence
on the page is made from the figures.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

from tests.docs.pages import DOCS, Block, blocks

PAGE = DOCS / "quickstart.md"
FIGURES = DOCS / "results" / "first-minutes.json"
PROVIDER = "https://api.openai.com/v1"
SERVES = "agora serve gateway.toml"
MARK = "<!-- minutes -->"
MOST_MINUTES = 2
"""For the whole page, on a machine that is not busy with other work."""
AGENT = """#!/usr/bin/env python3
import json, os, urllib.request
asked = {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [
    {"role": "user", "content": "What is in this folder?"}]}
request = urllib.request.Request(
    os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json.dumps(asked).encode(),
    {"content-type": "application/json", "x-api-key": os.environ["ANTHROPIC_API_KEY"],
     "anthropic-version": "2023-06-01"})
print(json.load(urllib.request.urlopen(request))["content"][0]["text"])
"""
"""In the place of Claude Code."""
LISTENS_SECONDS = 60


MESSAGE = {
    "id": "1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [{"type": "text", "text": "Found it."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


class Provider(BaseHTTPRequestHandler):
    """Answers every request with one sentence, and keeps what it was sent."""

    seen: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append(json.loads(body))
        self._say(MESSAGE if self.path.startswith("/v1/messages") else self._completion())

    def _completion(self) -> dict[str, Any]:
        choice = {"index": 0, "finish_reason": "stop"}
        return {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "gpt-5-mini",
            "choices": [{**choice, "message": {"role": "assistant", "content": "Found it."}}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }

    def _say(self, answer: dict[str, Any]) -> None:
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def provider() -> Iterator[str]:
    """Yield the address of a provider on loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()


@dataclass(slots=True)
class Trial:
    """One run of the page, and what was seen."""

    wheel: Path
    folder: Path
    address: str
    said: list[str] = field(default_factory=list)
    minutes: dict[str, float] = field(default_factory=dict)
    started: float = 0.0
    _gateway: "subprocess.Popen[str] | None" = None

    def run(self) -> None:
        """Type the page."""
        python_blocks = 0
        for block in blocks(PAGE):
            if block.language == "python":
                # One session: a later block goes on with the names of the earlier ones.
                with (self.folder / "first.py").open("a", encoding="utf-8") as file:
                    file.write(block.text)
                python_blocks += 1
                self.shell("python first.py")
                if python_blocks == 1:
                    self.reached("first compressed call")
            elif block.language == "toml":
                text = block.text.replace(PROVIDER, self.address)
                (self.folder / "gateway.toml").write_text(text, encoding="utf-8")
                self.note(f"(gateway.toml, with {self.address} for the provider)\n{text}")
            elif block.language == "sh":
                self.lines(block)
        assert Provider.seen, "no request reached the provider"
        if self._gateway is not None:
            self._gateway.terminate()
            self._gateway.wait(30)

    def lines(self, block: Block) -> None:
        """Type the lines of a block of commands."""
        for line in block.text.splitlines():
            if line == SERVES:
                self.serve()
                continue
            if line.startswith("agora replay"):
                self.shell("mkdir logs && cp request.json logs/")
            if line.startswith("agora wrap"):
                agent = self.folder / ".venv" / "bin" / "claude"
                agent.write_text(AGENT, encoding="utf-8")
                agent.chmod(0o755)
            self.shell(line.replace("agora-context", str(self.wheel)))
            if line.startswith("agora replay"):
                assert (self.folder / "replay.html").stat().st_size > 0
                self.reached("first replay page")
            if line.startswith("agora demo"):
                self.reached("first pages")
            if line.startswith("agora wrap"):
                assert "agora: 1 call" in self.said[-1], self.said[-1]
                self.reached("first wrapped agent")
            if line.startswith("curl"):
                self.reached("first gateway request")

    def shell(self, line: str) -> None:
        """Run a line as a shell with the environment switched on would."""
        if line.startswith("python -m venv"):
            self.started = time.monotonic()
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        self.note(f"$ {line}\n{done.stdout}{done.stderr}")
        if done.returncode:
            raise SystemExit("\n".join(self.said) + f"\nended with {done.returncode}: {line}")

    def serve(self) -> None:
        """Start the gateway in a terminal of its own, and wait until it listens."""
        self._gateway = subprocess.Popen(
            [str(self.folder / ".venv" / "bin" / "agora"), *SERVES.split()[1:]],
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.note(f"$ {SERVES} &\n")
        until = time.monotonic() + LISTENS_SECONDS
        ready = ["curl", "--silent", "--fail", "http://127.0.0.1:8484/readyz"]
        while subprocess.run(ready, check=False, capture_output=True).returncode:
            if time.monotonic() > until or self._gateway.poll() is not None:
                raise SystemExit("\n".join(self.said) + "\nthe gateway did not come up")
            time.sleep(0.2)

    def environment(self) -> dict[str, str]:
        """Return what a stranger's shell has: the new environment first, nothing cached."""
        own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return {
            **own,
            "PATH": f"{self.folder / '.venv' / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "PIP_NO_CACHE_DIR": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "OPENAI_API_KEY": "none-needed",
            "ANTHROPIC_API_KEY": "none-needed",
            "ANTHROPIC_BASE_URL": self.address.removesuffix("/v1"),
        }

    def reached(self, what: str) -> None:
        """Stop the clock of a thing once."""
        self.minutes.setdefault(what, round((time.monotonic() - self.started) / 60, 2))
        self.note(f"--- {what}: {self.minutes[what]:.2f} minutes\n")

    def note(self, text: str) -> None:
        """Keep a piece of the transcript, without names of this machine."""
        text = text.replace(str(self.wheel), f"./{self.wheel.name}")
        text = text.replace(str(self.folder), "~")
        lines = [line for line in text.splitlines() if "Location 'file:" not in line]
        self.said.append("\n".join(lines))


def sentence(figures: dict[str, Any]) -> str:
    """Return what the page says of a run."""
    seconds = {what: round(60 * minutes) for what, minutes in figures["minutes"].items()}
    listed = ", ".join(f"the {what} after {took} s" for what, took in seconds.items())
    return (
        f"From the first line, in a new environment with nothing cached: {listed} "
        f"({figures['machine']}, load average {figures['load']['before']} to "
        f"{figures['load']['after']}, {figures['date']}; "
        "`python -m tests.release.first_minutes WHEEL`)."
    )


def main() -> None:
    """Type the page; print the transcript, and write figures and sentence where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--out", type=Path, help=f"for example {FIGURES.relative_to(DOCS.parent)}")
    parser.add_argument("--transcript", type=Path)
    given = parser.parse_args()
    load_before = round(os.getloadavg()[0], 1)
    with tempfile.TemporaryDirectory() as folder, provider() as address:
        trial = Trial(given.wheel.resolve(), Path(folder), address)
        trial.run()
    transcript = "\n".join(trial.said) + "\n"
    sys.stdout.write(transcript)
    if given.transcript:
        given.transcript.write_text(transcript, encoding="utf-8")
    figures = {
        "minutes": trial.minutes,
        "python": platform.python_version(),
        "machine": f"{os.cpu_count()} cores, shared",
        "load": {"before": load_before, "after": round(os.getloadavg()[0], 1)},
        "date": time.strftime("%Y-%m-%d"),
        "wheel": given.wheel.name,
        "request_messages": len(Provider.seen[-1]["messages"]),
    }
    if given.out:
        given.out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        head, _, rest = PAGE.read_text(encoding="utf-8").partition(f"{MARK}\n")
        after = rest.partition("\n")[2]
        PAGE.write_text(f"{head}{MARK}\n{sentence(figures)}\n{after}", encoding="utf-8")
    if max(trial.minutes.values()) > MOST_MINUTES:
        raise SystemExit(f"it took more than {MOST_MINUTES} minutes")


if __name__ == "__main__":
    main()

import http.server
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agora.wrapping.account import Account, read_account
from agora.wrapping.doctor import _conversation
from agora.wrapping.status import status
from harness.processes import children_of
from tests.cli.conftest import Run

# The package has a function of the same name.
command = importlib.import_module("agora.cli.wrap")

AGORA = (sys.executable, "-P", "-c", "from agora.cli import main; main()", "wrap")
KEY = "sk-proj-madeup0000000000000000000000000000"
ASK = """
import json, os, sys, urllib.request
for n in range(int(sys.argv[2])):
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions?beta=1",
        open(sys.argv[1], "rb").read(),
        {"content-type": "application/json", "authorization": "Bearer " + os.environ["KEY"],
         "x-unheard-of": "Value"})
    print(urllib.request.urlopen(request, timeout=60).read().decode())
    sys.stdout.flush()
    if len(sys.argv) > 3 and n == 0:
        sys.stdin.readline()
"""
"""An agent in a few lines: it reads the usual variable and asks what it is given."""


class Provider(http.server.ThreadingHTTPServer):
    """A provider that answers everything alike and keeps what it got."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.arrived: list[tuple[str, dict[str, str], bytes]] = []


class _Answering(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        assert isinstance(self.server, Provider)
        self.server.arrived.append((self.path, headers, body))
        usage = {"prompt_tokens": 1_000, "completion_tokens": 10}
        message = {"role": "assistant", "content": "ok"}
        said = json.dumps({"choices": [{"index": 0, "message": message}], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def surroundings(tmp_path: Path, provider: Provider) -> dict[str, str]:
    """An environment with a home of its own, whose OPENAI_BASE_URL the user has set."""
    (tmp_path / "tmp").mkdir()
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path / "tmp"),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "OPENAI_BASE_URL": f"http://127.0.0.1:{provider.server_port}/v1",
        "KEY": KEY,
    }


def asked(folder: Path, body: object, times: int = 1) -> tuple[str, ...]:
    (folder / "agent.py").write_text(ASK)
    (folder / "body.json").write_text(json.dumps(body))
    return (sys.executable, str(folder / "agent.py"), str(folder / "body.json"), str(times))


def test_an_agent_is_wrapped_by_one_command(
    tmp_path: Path, provider: Provider, surroundings: dict[str, str]
) -> None:
    body = _conversation() | {"unheard_of": 1.50}
    account = tmp_path / "account.json"

    command = (*AGORA, "--account", str(account), "--", *asked(tmp_path, body, 2))
    ran = subprocess.run(
        command, env=surroundings, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count('"ok"') == 2
    path, headers, arrived = provider.arrived[0]
    assert path == "/v1/chat/completions?beta=1"
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["x-unheard-of"] == "Value"
    sent, got = json.loads(json.dumps(body)), json.loads(arrived)
    assert len(json.dumps(got.pop("messages"))) < len(json.dumps(sent.pop("messages")))
    assert got == sent
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("agora:")]
    assert "2 calls" in line
    assert "2 edited" in line
    assert "by gpt-4.1" in line
    assert json.loads(account.read_text())["calls"] == 2
    assert list((tmp_path / "tmp").iterdir()) == []
    assert KEY not in ran.stderr + account.read_text()


STATUS = """
import json, os, subprocess, sys, time
subprocess.run([sys.executable, *sys.argv[1:]], check=True)
program = "from agora.cli import main; main()"
until = time.monotonic() + 60
while time.monotonic() < until:  # An answer reaches the agent before it is counted.
    said = subprocess.run([sys.executable, "-P", "-c", program, "statusline"], input="{}",
                          capture_output=True, text=True, check=True).stdout
    if "2 calls" in said:
        break
print(said)
"""
"""An agent that shows a status line, as Claude Code does: by a command in its own surroundings."""


def test_the_status_line_of_a_wrapped_agent_has_the_figures_of_its_session(
    tmp_path: Path, provider: Provider, surroundings: dict[str, str]
) -> None:
    (tmp_path / "status.py").write_text(STATUS)
    asking = asked(tmp_path, _conversation(), 2)[1:]

    figures = tmp_path / "account.json"

    told = ("--account", str(figures), "--", sys.executable, str(tmp_path / "status.py"))
    ran = subprocess.run(
        (*AGORA, *told, *asking),
        env=surroundings,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
    )

    assert ran.returncode == 0, ran.stderr
    (line,) = [line for line in ran.stdout.splitlines() if line.startswith("agora:")]
    assert line == status(Account(**json.loads(figures.read_text())), None)
    assert line.endswith("2 calls, 2 edited · 0% cached")


def test_in_shadow_every_byte_arrives_as_it_was_sent(
    tmp_path: Path, provider: Provider, surroundings: dict[str, str]
) -> None:
    command = (*AGORA, "--shadow", "--", *asked(tmp_path, _conversation(), 2))
    ran = subprocess.run(
        command, env=surroundings, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )

    assert ran.returncode == 0, ran.stderr
    sent = (tmp_path / "body.json").read_bytes()
    assert [body for _, _, body in provider.arrived] == [sent, sent]
    assert "would be edited" in ran.stderr


def test_a_gateway_that_is_killed_between_two_calls_is_not_noticed_by_the_agent(
    tmp_path: Path, provider: Provider, surroundings: dict[str, str]
) -> None:
    command = (*AGORA, *asked(tmp_path, _conversation(), 2), "wait")
    process = subprocess.Popen(
        command,
        env=surroundings,
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "ok" in process.stdout.readline()
    (gateway,) = [
        pid
        for pid in children_of(process.pid)
        if b"agora.wrapping.child" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    # An answer reaches the agent before it is counted.
    (metrics,) = (tmp_path / "tmp").glob("agora-wrap-*/metrics")
    until = time.monotonic() + 60
    while read_account(metrics).calls < 1 and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(gateway, signal.SIGKILL)
    out, said = process.communicate("\n", timeout=120)

    assert process.returncode == 0, said
    assert "ok" in out
    first, second = (body for _, _, body in provider.arrived)
    assert first == second
    assert "2 calls" in said
    assert "the gateway was restarted 1 time" in said


def test_settings_with_a_mistake_start_nothing(
    tmp_path: Path, provider: Provider, surroundings: dict[str, str]
) -> None:
    (tmp_path / "agora.toml").write_text("[compression]\nkeep_ratoi = 1\n")

    ran = subprocess.run(
        (*AGORA, *asked(tmp_path, {})),
        env=surroundings,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert ran.returncode == 1
    assert "keep_ratoi is not a setting (did you mean keep_ratio or keep_tools?)" in ran.stderr
    assert provider.arrived == []


def test_a_misspelt_agent_is_not_found_and_the_nearest_is_named(run: Run) -> None:
    result = run("wrap", "cluade")

    assert result.exit_code == 127
    assert result.stderr == "agora: cluade was not found (did you mean claude?)\n"


@pytest.mark.parametrize(("name", "code"), [("no-such-agent", 127), ("./plain", 126)])
def test_what_cannot_be_run_has_the_code_that_shells_give_it(
    name: str, code: int, tmp_path: Path, surroundings: dict[str, str]
) -> None:
    (tmp_path / "plain").write_text("text")

    ran = subprocess.run(
        (*AGORA, name), env=surroundings, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )

    assert ran.returncode == code
    assert ran.stderr.startswith(f"agora: {name} ")


def test_an_agent_that_cannot_go_through_runs_without_and_is_said_to(
    tmp_path: Path, surroundings: dict[str, str]
) -> None:
    script = tmp_path / "claude"
    script.write_text('#!/bin/sh\necho "$ANTHROPIC_BASE_URL"; exit 4\n')
    script.chmod(0o755)
    surroundings |= {"CLAUDE_CODE_USE_BEDROCK": "1", "PATH": f"{tmp_path}:/usr/bin:/bin"}

    ran = subprocess.run(
        (*AGORA, "claude"), env=surroundings, capture_output=True, text=True, timeout=60
    )

    assert (ran.returncode, ran.stdout) == (4, "\n")
    assert "runs without a gateway" in ran.stderr
    assert "Amazon Bedrock" in ran.stderr


class _Limiting(_Answering):
    """Bills by a cache, and tells how full a window is in which a read weighs .1 of a write."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        assert isinstance(self.server, Provider)
        self.server.arrived.append((self.path, {}, body))
        number = len(self.server.arrived)
        read, written, output = 4_000 + 900 * number, 500 + number * 7919 % 4_000, number * 31 % 700
        load = sum(
            0.1 * (4_000 + 900 * n) + 500 + n * 7919 % 4_000 + 4 * (n * 31 % 700)
            for n in range(1, number + 1)
        )
        details = {"cached_tokens": read, "cache_write_tokens": written}
        usage = {
            "prompt_tokens": read + written,
            "completion_tokens": output,
            "prompt_tokens_details": details,
        }
        said = json.dumps({"choices": [], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(said)))
        self.send_header("anthropic-ratelimit-unified-5h-utilization", f"{load / 4e5:.3f}")
        self.send_header("anthropic-ratelimit-unified-5h-reset", "1790814600")
        self.end_headers()
        self.wfile.write(said)


def test_the_quota_of_a_session_and_the_weight_of_a_cached_token_are_told(
    tmp_path: Path, provider: Provider, surroundings: dict[str, str]
) -> None:
    provider.RequestHandlerClass = _Limiting
    figures = tmp_path / "account.json"
    command = (*AGORA, "--account", str(figures), "--", *asked(tmp_path, _conversation(), 40))

    done = subprocess.run(
        command, env=surroundings, cwd=tmp_path, capture_output=True, text=True, timeout=240
    )

    assert done.returncode == 0, done.stderr
    quota = json.loads(figures.read_text())["quota"]
    assert quota["used"]["5h"] > 0.05
    weight = quota["weight"]
    assert weight["low"] <= 0.1 <= weight["high"]
    assert "of the 5-hour quota used, where a cached token counts as 0." in done.stderr
    kept = tmp_path / ".local" / "state" / "agora" / "quota.jsonl"
    assert len(kept.read_text().splitlines()) == 40


def test_where_reads_are_free_in_the_quota_nothing_is_edited_and_that_is_said(
    tmp_path: Path, provider: Provider, surroundings: dict[str, str]
) -> None:
    kept = tmp_path / ".local" / "state" / "agora" / "quota.jsonl"
    kept.parent.mkdir(parents=True)
    load = 0
    with kept.open("w") as out:
        for n in range(1, 80):
            read, written = 9_000 + n * 4001 % 50_000, 500 + n * 7919 % 4_000
            load += written
            told = {"unified-5h-utilization": str(load / 3e5), "unified-5h-reset": "1"}
            line = {"fresh": 0, "read": read, "written": written, "output": 0, "told": told}
            out.write(json.dumps(line) + "\n")
    body = _conversation()
    command = (*AGORA, "--", *asked(tmp_path, body, 2))

    done = subprocess.run(
        command, env=surroundings, cwd=tmp_path, capture_output=True, text=True, timeout=240
    )

    assert done.returncode == 0, done.stderr
    assert "agora: not editing: in your plan's quota a cached token counts as at most" in (
        done.stderr
    )
    assert all(json.loads(sent) == json.loads(json.dumps(body)) for _, _, sent in provider.arrived)


def test_the_ceiling_that_is_asked_for_reaches_the_session(
    monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    seen = []

    def session(*given: Any) -> int:
        seen.append(given[-1].compression)
        return 0

    monkeypatch.setattr(command, "_session", session)

    assert run("wrap", "--ceiling", "1.25", "true").exit_code == 0
    assert run("wrap", "true").exit_code == 0
    assert seen == [{"ceiling": 1.25}, {}]
    wrong = run("wrap", "--ceiling", "0.9", "true")
    assert wrong.exit_code == 2
    assert "--ceiling" in wrong.stderr


def test_tools_that_are_named_reach_the_session(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    seen = []

    def session(*given: Any) -> int:
        seen.append(given[-1].compression)
        return 0

    monkeypatch.setattr(command, "_session", session)
    kept = ("--keep-tool", "read_policy", "--keep-tool", "rules")
    known = ("--changing-tool", "ship", "--reading-tool", "peek")

    assert run("wrap", *kept, *known, "true").exit_code == 0
    lists = {"keep_tools": ["read_policy", "rules"], "changing_tools": ["ship"]}
    assert seen == [{**lists, "reading_tools": ["peek"]}]
    wrong = run("wrap", "--changing-tool", "ship", "--reading-tool", "ship", "true")
    assert wrong.exit_code == 2
    assert "both name ship" in wrong.stderr

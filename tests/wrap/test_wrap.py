"""`agora wrap` as its users have it: a command around an agent, before a provider on loopback."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="the extra wrap is not installed")

from agora.service import Account
from harness.processes import children_of
from tests.wrap.session import (
    AGORA,
    KEY,
    WRAP,
    Provider,
    agent,
    history,
    providing,
    run,
    surroundings,
)


@pytest.fixture
def provider() -> Iterator[Provider]:
    with providing() as made:
        yield made


@pytest.fixture
def environment(tmp_path: Path, provider: Provider) -> dict[str, str]:
    return surroundings(tmp_path, provider.url)


def proxies_of(wrap: int) -> list[int]:
    """Return the proxy's process under an `agora wrap`."""
    return [
        pid
        for pid in children_of(wrap)
        if b"agora.wrapping.child" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def counted(folder: Path) -> int:
    """Return how many calls the account of a running session has."""
    with suppress(ValueError):
        (path,) = (folder / "tmp").glob("agora-wrap-*/account.json")
        return Account.load(path).calls
    return 0


def is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_an_agent_is_wrapped_by_one_command(
    tmp_path: Path, provider: Provider, environment: dict[str, str]
) -> None:
    body, account, log = history(24), tmp_path / "account.json", tmp_path / "log"

    options = ("--json", str(account), "--log", str(log))
    ran = run((*WRAP, *options, "--", *agent(tmp_path, [body, body])), tmp_path, environment)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count('"ok"') == 2
    path, headers, arrived = provider.arrived[0]
    assert path == "/v1/chat/completions?beta=1"
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["x-unheard-of"] == "Value"
    assert not any("agora" in name for name in headers)
    sent, got = json.loads(json.dumps(body)), json.loads(arrived)
    assert len(json.dumps(got.pop("messages"))) < len(json.dumps(sent.pop("messages"))) / 2
    assert got == sent
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("agora:")]
    assert line.startswith("agora: 2 calls, 2 sent shortened · $")
    assert "at gpt-4.1 prices, about $" in line
    assert json.loads(account.read_text())["calls"] == 2
    assert list((tmp_path / "tmp").iterdir()) == []
    assert KEY not in ran.stderr + account.read_text() + log.read_text()


def cleared(body: dict[str, Any], until: int) -> dict[str, Any]:
    """Return a request whose client has cleared its first results itself."""
    gone = {"content": "[cleared]"}
    messages = [
        {**message, **gone} if n < until and message["role"] == "tool" else message
        for n, message in enumerate(body["messages"])
    ]
    return {**body, "messages": messages}


@pytest.mark.parametrize(
    ("kill_after", "cleared_at"), [(None, 99), (24, 99), (None, 25)], ids=["", "killed", "cleared"]
)
def test_what_it_claims_to_have_saved_is_what_the_bills_differ_by(
    tmp_path: Path, kill_after: int | None, cleared_at: int
) -> None:
    bodies = [cleared(history(n), 12 if n > cleared_at else 0) for n in range(1, 41)]
    with providing() as direct:
        ran = run(agent(tmp_path, bodies), tmp_path, surroundings(tmp_path, direct.url))
        assert ran.stdout.count('"ok"') == 40
    account = tmp_path / "account.json"
    more = () if kill_after is None else (str(kill_after),)
    with providing() as wrapped:
        command = (*WRAP, "--json", str(account), "--", *agent(tmp_path, bodies, *more))
        process = subprocess.Popen(
            command,
            env=surroundings(tmp_path, wrapped.url),
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if kill_after is not None:
            until = time.monotonic() + 120
            while counted(tmp_path) <= kill_after and time.monotonic() < until:
                time.sleep(0.02)
            os.kill(proxies_of(process.pid)[0], signal.SIGKILL)
        out, line = process.communicate("\n", timeout=240)

    assert process.returncode == 0, line
    assert out.count('"ok"') == 40
    figures = json.loads(account.read_text())
    assert figures["calls"] == 40
    assert figures["edited"] > 20
    assert figures["restarts"] == (kill_after is not None)
    assert figures["dollars"] == pytest.approx(wrapped.dollars)
    true = direct.dollars - wrapped.dollars
    assert figures["saved"] == pytest.approx(true, rel=0.05)
    assert f"about ${int(figures['saved'] * 100) / 100:.2f} saved" in line


def test_a_proxy_that_is_killed_is_there_again_and_ends_with_the_session(
    tmp_path: Path, provider: Provider, environment: dict[str, str]
) -> None:
    body = history(24)
    process = subprocess.Popen(
        (*WRAP, *agent(tmp_path, [body, body], "0")),
        env=environment,
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "ok" in process.stdout.readline()
    until = time.monotonic() + 60
    while counted(tmp_path) < 1 and time.monotonic() < until:
        time.sleep(0.02)
    (first,) = proxies_of(process.pid)
    assert KEY.encode() not in Path(f"/proc/{first}/environ").read_bytes()
    os.kill(first, signal.SIGKILL)
    while proxies_of(process.pid) in ([], [first]) and time.monotonic() < until:
        time.sleep(0.02)
    (second,) = proxies_of(process.pid)
    out, said = process.communicate("\n", timeout=120)

    assert process.returncode == 0, said
    # The connection waited for the next process instead of being refused.
    assert "ok" in out
    assert "again" not in out
    first_body, second_body = (arrived for _, _, arrived in provider.arrived)
    assert first_body == second_body
    assert "agora: 2 calls, 2 sent shortened" in said
    assert "the proxy was restarted 1 time" in said
    assert not is_alive(second)


def test_the_proxy_ends_when_wrap_is_killed(
    tmp_path: Path, provider: Provider, environment: dict[str, str]
) -> None:
    command = (*WRAP, *agent(tmp_path, [history(24)], "0"))
    process = subprocess.Popen(
        command, env=environment, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    (proxy,) = proxies_of(process.pid)

    process.kill()
    process.communicate(timeout=60)

    until = time.monotonic() + 30
    while is_alive(proxy) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_alive(proxy)


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
    tmp_path: Path, provider: Provider, environment: dict[str, str]
) -> None:
    (tmp_path / "status.py").write_text(STATUS)
    figures = tmp_path / "account.json"
    body = history(24)
    asking = agent(tmp_path, [body, body])[1:]

    shown = ("--json", str(figures), "--", sys.executable, str(tmp_path / "status.py"))
    ran = run((*WRAP, *shown, *asking), tmp_path, environment)

    assert ran.returncode == 0, ran.stderr
    (line,) = [line for line in ran.stdout.splitlines() if line.startswith("agora:")]
    account = json.loads(figures.read_text())
    assert f"{account['cached_tokens'] / account['prompt_tokens']:.0%} cached" in line
    assert "2 calls, 2 shortened" in line


def test_in_shadow_every_byte_arrives_as_it_was_sent(
    tmp_path: Path, provider: Provider, environment: dict[str, str]
) -> None:
    body = history(24)
    # A busy machine delays what would have been saved; nobody waits for it.
    (tmp_path / "agora.toml").write_text("[limits]\ndeadline_ms = 100000\n")

    ran = run((*WRAP, "--shadow", "--", *agent(tmp_path, [body, body])), tmp_path, environment)

    assert ran.returncode == 0, ran.stderr
    assert [arrived for _, _, arrived in provider.arrived] == [json.dumps(body).encode()] * 2
    assert "agora: 2 calls · $" in ran.stderr
    assert "shortening 2 would have" in ran.stderr


def test_a_provider_that_does_not_answer_is_named_with_the_cause(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    environment["OPENAI_BASE_URL"] = "http://127.0.0.1:9/v1"

    ran = run((*WRAP, *agent(tmp_path, [history(2)] * 2)), tmp_path, environment)

    cause = "no answer from 127.0.0.1:9: connection refused"
    assert cause in ran.stdout
    assert ran.stderr == f"agora: 2 calls · 2 without an answer (last: {cause})\n"


def test_requests_go_through_the_users_proxy_and_the_agent_around_it(
    tmp_path: Path, provider: Provider, environment: dict[str, str]
) -> None:
    environment |= {"http_proxy": provider.url, "OPENAI_BASE_URL": "http://far.test/v1"}

    ran = run((*WRAP, *agent(tmp_path, [history(1)])), tmp_path, environment)

    assert '"ok"' in ran.stdout
    assert [path for path, _, _ in provider.arrived] == [
        "http://far.test/v1/chat/completions?beta=1"
    ]


def test_settings_are_read_and_the_command_line_comes_before_them(
    tmp_path: Path, provider: Provider, environment: dict[str, str]
) -> None:
    del environment["OPENAI_BASE_URL"]
    (tmp_path / "agora.toml").write_text(
        f'[compression]\nmin_tokens = 1000000\n[upstreams]\nopenai = "{provider.url}"\n'
    )
    options = ("--tool", "read=keep")
    command = (*WRAP, *options, *agent(tmp_path, [history(24)]))

    ran = run(command, tmp_path, environment)

    assert '"ok"' in ran.stdout
    assert [path for path, _, _ in provider.arrived] == ["/v1/chat/completions?beta=1"]
    assert "1 unchanged (1 too short)" in ran.stderr


def test_tools_of_the_command_line_are_kept(
    tmp_path: Path, provider: Provider, environment: dict[str, str]
) -> None:
    body = history(24)

    ran = run((*WRAP, "--tool", "read=keep", *agent(tmp_path, [body])), tmp_path, environment)

    assert ran.returncode == 0, ran.stderr
    assert provider.arrived[0][2] == json.dumps(body).encode()


def test_settings_with_a_mistake_start_nothing(
    tmp_path: Path, provider: Provider, environment: dict[str, str]
) -> None:
    (tmp_path / "agora.toml").write_text("[compression]\nkeep_ratoi = 1\n")

    ran = run((*WRAP, *agent(tmp_path, [{}])), tmp_path, environment)

    assert ran.returncode == 1
    assert "keep_ratoi is not a setting (did you mean keep_ratio" in ran.stderr
    assert provider.arrived == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--tool", "ship"), "'ship' is not NAME=KIND"),
        (("--tool", "ship=reads", "--tool", "ship=changes"), "ship has two kinds"),
    ],
)
def test_options_that_make_no_sense_start_nothing(
    options: tuple[str, ...], problem: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    ran = run((*WRAP, *options, "true"), tmp_path, environment)

    assert ran.returncode == 2
    assert problem in ran.stderr


def test_an_unknown_option_before_the_agent_is_named(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    ran = run((*WRAP, "--keep-ratio", "0.4", "claude"), tmp_path, environment)

    assert ran.returncode == 2
    assert "No such option" in ran.stderr
    assert "--keep-ratio" in ran.stderr


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("cluade", 127, "was not found (did you mean claude?)"),
        ("zzz", 127, "was not found"),
        ("./plain", 126, "cannot be run"),
    ],
)
def test_what_cannot_be_run_has_the_code_that_shells_give_it(
    name: str, code: int, words: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    (tmp_path / "plain").write_text("text")

    ran = run((*WRAP, name), tmp_path, environment)

    assert ran.returncode == code
    assert ran.stderr == f"agora: {name} {words}\n"


def test_an_agent_that_cannot_go_through_runs_without_and_is_said_to(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    script = tmp_path / "claude"
    script.write_text('#!/bin/sh\necho "$ANTHROPIC_BASE_URL"; exit 4\n')
    script.chmod(0o755)
    environment |= {"CLAUDE_CODE_USE_BEDROCK": "1", "PATH": f"{tmp_path}:/usr/bin:/bin"}

    ran = run((*WRAP, "claude"), tmp_path, environment)

    assert (ran.returncode, ran.stdout) == (4, "\n")
    assert ran.stderr.startswith("agora: Claude Code runs without AGORA: ")
    assert "Amazon Bedrock" in ran.stderr


def test_the_share_of_the_quota_that_a_session_used_is_told(
    tmp_path: Path, provider: Provider, environment: dict[str, str]
) -> None:
    provider.quota = 0.3
    command = (*WRAP, *agent(tmp_path, [history(1)] * 5))

    ran = run(command, tmp_path, environment)

    assert "4.0% of the 5-hour quota used" in ran.stderr


def test_the_help_names_every_agent(tmp_path: Path, environment: dict[str, str]) -> None:
    ran = run((*AGORA, "wrap", "--help"), tmp_path, environment)

    assert "mini-swe-agent" in ran.stdout

import json
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="the extra wrap is not installed")

# Private: a date that is not today.
from agora.wrapping.doctor import age_of_prices
from tests.wrap.session import AGORA, run, surroundings

Findings = dict[str, dict[str, Any]]


def examined(folder: Path, *arguments: str, **environment: str) -> tuple[int, Findings]:
    """Return the exit code of `agora doctor --json` and its findings by what they are about."""
    plain = surroundings(folder, "http://unused.test")
    del plain["OPENAI_BASE_URL"]
    path = {"PATH": f"{folder}:/usr/bin:/bin"}
    command = (*AGORA, "doctor", "--json", *arguments)
    ran = run(command, folder, {**plain, **path, **environment})
    assert ran.returncode in (0, 1), ran.stderr
    return ran.returncode, {one["what"]: one for one in json.loads(ran.stdout)}


def fake_agent(folder: Path, name: str, said: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{said}'\n")
    path.chmod(0o755)


def test_a_request_comes_through_and_agents_that_are_installed_are_looked_at(
    tmp_path: Path,
) -> None:
    fake_agent(tmp_path, "claude", "2.1.325 (Claude Code)")
    fake_agent(tmp_path, "codex", "no number")

    code, found = examined(tmp_path)

    assert code == 1
    assert found["test"]["state"] == "ok"
    assert "came through shortened" in found["test"]["found"]
    assert found["Claude Code"]["found"] == "2.1.325"
    changes = found["Claude Code"]["changes"]
    assert "ANTHROPIC_BASE_URL=http://127.0.0.1:PORT/0" in changes
    assert any("ENABLE_TOOL_SEARCH" in line for line in changes if line.startswith("note"))
    assert found["Codex"]["state"] == "problem"
    assert "opencode" not in found
    assert all(one["remedy"] for one in found.values() if one["state"] == "problem")


def test_without_an_agent_there_is_one_note(tmp_path: Path) -> None:
    code, found = examined(tmp_path, PATH="/usr/bin:/bin")

    assert code == 0
    assert found["agents"]["state"] == "note"
    assert "claude, codex" in found["agents"]["found"]


def test_one_agent_can_be_asked_for_and_has_to_be_there(tmp_path: Path) -> None:
    fake_agent(tmp_path, "claude", "2.1.325 (Claude Code)")

    code, found = examined(tmp_path, "claude")
    missing_code, missing = examined(tmp_path, "codex")

    assert (code, "Codex" in found) == (0, False)
    assert missing_code == 1
    assert missing["Codex"]["remedy"] == "install it with: npm install -g @openai/codex"
    misspelt = run((*AGORA, "doctor", "cluade"), tmp_path, surroundings(tmp_path, ""))
    assert misspelt.returncode == 2


def test_settings_with_a_mistake_are_a_problem(tmp_path: Path) -> None:
    (tmp_path / "agora.toml").write_text("nothing = 1\n")

    code, found = examined(tmp_path, PATH="/nowhere")

    assert code == 1
    assert "nothing is not a setting" in found["settings"]["found"]
    assert "test" not in found


@pytest.mark.parametrize(
    ("today", "state"),
    [(date(2000, 1, 1), "problem"), (date(2100, 1, 1), "note")],
)
def test_old_prices_and_a_wrong_clock_are_seen(today: date, state: str) -> None:
    assert age_of_prices(today).state == state


def test_what_the_environment_has_in_the_way_is_named(tmp_path: Path) -> None:
    proxies = {"HTTPS_PROXY": "socks5://p:1", "OPENAI_BASE_URL": "http://127.0.0.1:8787/v1"}

    ran = run(
        (*AGORA, "doctor"), tmp_path, {**surroundings(tmp_path, ""), "PATH": "/bin", **proxies}
    )

    assert ran.returncode == 1
    assert "✗ proxy: HTTPS_PROXY is a SOCKS proxy" in ran.stdout
    assert "NO_PROXY=127.0.0.1,localhost" in ran.stdout
    assert "· address: OPENAI_BASE_URL points to this machine" in ran.stdout
    assert "✓ test:" in ran.stdout
    assert sys.prefix not in ran.stdout

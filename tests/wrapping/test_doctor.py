import json
import os
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner

from agora.cli.doctor import doctor
from agora.wrapping import doctor as examined
from agora.wrapping.doctor import Finding, examine


def looked_at(tmp_path: Path, **environment: str) -> dict[str, Finding]:
    own = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return {f.what: f for f in examine({**own, **environment}, tmp_path, tmp_path)}


def fake_agent(folder: Path, name: str, said: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{said}'\n")
    path.chmod(0o755)


def test_a_request_comes_through_and_every_agent_is_looked_for(tmp_path: Path) -> None:
    fake_agent(tmp_path, "claude", "2.1.325 (Claude Code)")
    fake_agent(tmp_path, "codex", "no number")

    found = looked_at(tmp_path, PATH=f"{tmp_path}:/usr/bin:/bin")

    assert found["gateway"].state == "ok"
    assert "came through shortened" in found["gateway"].found
    assert found["Claude Code"].found == "2.1.325"
    assert "ANTHROPIC_BASE_URL=http://127.0.0.1:PORT" in found["Claude Code"].changes
    assert found["Codex"].state == "problem"
    assert "npm install" in found["opencode"].remedy
    assert all(one.remedy for one in found.values() if one.state == "problem")


def test_one_agent_can_be_asked_for_and_has_to_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_agent(tmp_path, "claude", "2.1.325 (Claude Code)")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    there = CliRunner().invoke(doctor, ["claude"])
    missing = CliRunner().invoke(doctor, ["codex"])
    misspelt = CliRunner().invoke(doctor, ["cluade"])
    live = CliRunner().invoke(doctor, ["claude", "--live"])

    assert there.exit_code == 0, there.output
    assert "✓ Claude Code: 2.1.325" in there.output
    assert "Codex" not in there.output
    assert missing.exit_code == 1
    assert (
        "✗ Codex: not found\n    → install it with: npm install -g @openai/codex" in missing.output
    )
    assert misspelt.exit_code == 2
    assert "'claude'" in misspelt.output
    assert live.exit_code == 2


def test_settings_with_a_mistake_are_a_problem(tmp_path: Path) -> None:
    (tmp_path / "agora.toml").write_text("nothing = 1\n")

    found = looked_at(tmp_path, PATH="/nowhere")

    assert found["settings"].state == "problem"
    assert "gateway" not in found


@pytest.mark.parametrize(
    ("today", "state"),
    [(date(2000, 1, 1), "problem"), (date(2100, 1, 1), "note")],
)
def test_old_prices_and_a_wrong_clock_are_seen(today: date, state: str) -> None:
    assert examined._prices(today).state == state


def test_what_the_environment_has_in_the_way_is_named(tmp_path: Path) -> None:
    found = list(
        examined._environment(
            {
                "HTTPS_PROXY": "socks5://p:1",
                "OPENAI_BASE_URL": "http://127.0.0.1:8787/v1",
            }
        )
    )

    assert [one.state for one in found] == ["ok", "problem", "note"]


def test_findings_are_printed_for_people_and_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    findings = [Finding("a", "ok", "[b]"), Finding("c", "problem", "d", "e", ("f",))]
    monkeypatch.setattr("agora.cli.doctor.examine", lambda *_, **__: iter(findings))

    people = CliRunner().invoke(doctor)
    machine = CliRunner().invoke(doctor, ["--json"])

    assert people.exit_code == machine.exit_code == 1
    assert people.output == "✓ a: [b]\n✗ c: d\n    f\n    → e\n"
    assert [one["what"] for one in json.loads(machine.output)] == ["a", "c"]

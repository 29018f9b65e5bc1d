import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agora
from agora.wrapping import doctor as examined
from agora.wrapping.doctor import Finding, examine
from agora.wrapping.report import bundle
from agora.wrapping.settings import read
from tests.cli.conftest import Run, run
from tests.wrapping.test_doctor import fake_agent

__all__ = ["run"]
# What stands before it keeps a drawn text from being a word that a report has anyway.
PRIVATE = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=40).map(
    lambda text: f"zq7{text}"
)
"""A key or a piece of a prompt, whatever it looks like."""


def texts(value: Any) -> Iterator[str]:
    """Yield every text in a value of JSON."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from texts(one)
    elif isinstance(value, str):
        yield value


def settings_with(private: str) -> str:
    """Return a settings file that has a text in every place where people put one."""
    said = json.dumps(private, ensure_ascii=False)
    return f"""
{said} = {said}
api_key = {said}
[compression]
mode = "shadow"
keep_ratio = 0.4
keep_tools = [{said}]
key = {said}
[compression.{said}]
port = 1
[headers]
forward = ["authorization", {said}]
[[upstreams]]
name = {said}
base_url = {json.dumps("https://" + private + ".example/v1", ensure_ascii=False)}
formats = ["openai", {said}]
[prices.{said}]
input = 123456789
"""


@given(private=PRIVATE)
def test_no_key_and_no_prompt_gets_into_a_report_wherever_it_stands(private: str) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        fake_agent(folder, "claude", "2.1.325")
        fake_agent(folder, "codex", "0.1")
        (folder / "agora.toml").write_text(settings_with(private), encoding="utf-8")
        broken = Finding("gateway", "problem", f"does not start: {private}", f"look at {private}")
        patch.setattr(examined, "_through", lambda *_: broken)
        patch.setattr(examined, "_version", lambda path, _: f"2.1.325-{private}")
        environment = {
            "PATH": name,
            "ANTHROPIC_API_KEY": private,
            "ANTHROPIC_BASE_URL": f"https://{private}.example",
            "OPENAI_BASE_URL": f"http://me:{private}@127.0.0.1:1/v1",
            "HTTPS_PROXY": f"socks5://{private}@proxy.example",
            "CODEX_HOME": f"/{private}",
            private.replace("=", ""): private,
        }
        tables = read(folder / "agora.toml")
        findings = [*examine(environment, folder / private.replace("/", ""), folder)]
        strange = Finding(private, "problem", private, private, (f"{private}={private}", private))
        found = bundle(tables, environment, [*findings, strange, broken])

    leaked = [text for text in texts(found) if private in text or "zq7" in text]
    assert leaked == []
    assert "123456789" not in json.dumps(found)


def test_what_helps_is_in_a_report() -> None:
    tables = {
        "compression": {"mode": "shadow", "keep_ratio": 0.4},
        "upstreams": [{"base_url": "https://mine.example", "formats": ["openai"]}],
    }
    claude = Finding("Claude Code", "ok", "2.1.325", "", ("ANTHROPIC_BASE_URL=http://a:1", "x=y"))
    no_version = Finding("Codex", "problem", "/home/me/codex does not print its version")
    port = Finding("port", "ok", "8484, of agora serve, is free")

    found = bundle(tables, {"OPENAI_API_KEY": "sk-1"}, [claude, no_version, port])

    assert found["agora"] == agora.__version__
    assert found["packages"]["click"]
    assert found["settings"] == {
        "compression": {"mode": "shadow", "keep_ratio": 0.4},
        "upstreams": [{"base_url": "<text>", "formats": ["openai"]}],
    }
    assert found["environment"] == ["OPENAI_API_KEY"]
    assert [(one["what"], one["found"], one["changes"]) for one in found["doctor"]] == [
        ("Claude Code", "2.1.325", ["ANTHROPIC_BASE_URL"]),
        ("Codex", "<text>", []),
        ("port", "8484, of agora serve, is free", []),
    ]


def test_the_command_writes_a_file_and_reads_settings_with_a_mistake(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-proj-madeup0000000000")
    (tmp_path / "agora.toml").write_text('[compression]\nkeep_ratoi = 1\nkey = "sk-123456"\n')

    written = run("report")
    (tmp_path / "agora.toml").write_text("no toml sk-123456")
    printed = run("report", "--out", "-")

    assert written.exit_code == printed.exit_code == 0, written.output
    text = (tmp_path / "agora-report.json").read_text()
    assert json.loads(text)["settings"]["compression"] == {
        "<name 0>": "<value>",
        "<name 1>": "<value>",
    }
    assert "agora-report.json" in written.stdout
    assert json.loads(printed.stdout)["settings"] == "unreadable"
    assert "agora doctor says why" in printed.stderr
    assert "sk-" not in text + written.output + printed.output

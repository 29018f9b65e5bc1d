import json
from pathlib import Path

import pytest

import agora
from agora.cli.demo import recorded
from tests.cli.conftest import Run

LARGEST = 200_000


def test_the_demo_writes_a_session_and_two_pages_into_an_empty_folder(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    result = run("demo")

    assert result.exit_code == 0, result.output
    written = {file.name for file in (tmp_path / "agora-demo").iterdir()}
    assert written == {"session.json", "explain.html", "replay.html"}
    assert "AGORA would have saved" in result.stdout


def test_the_recorded_session_is_legal_small_and_long_enough_to_be_edited() -> None:
    session = json.loads(recorded())

    assert len(recorded()) <= LARGEST
    assert agora.validate(session["messages"], format="openai") == []
    assert agora.compress(session["messages"], model=session["model"]).reason == "compressed"


def test_the_recorded_session_names_no_machine() -> None:
    text = recorded().decode()

    assert not [place for place in ("/opt/", "/work/", "/root/") if place in text]

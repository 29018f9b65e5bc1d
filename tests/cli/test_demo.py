import json
from pathlib import Path

import pytest

import agora
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


@pytest.fixture
def session(run: Run, tmp_path: Path) -> str:
    """Return the session as it is written."""
    run("demo", str(tmp_path))
    return (tmp_path / "session.json").read_text("utf-8")


def test_the_recorded_session_is_legal_small_and_long_enough_to_be_edited(session: str) -> None:
    body = json.loads(session)

    assert len(session) <= LARGEST
    assert agora.validate(body["messages"], format="openai") == []
    assert agora.compress(body["messages"], model=body["model"]).reason == "compressed"


def test_the_recorded_session_names_no_machine(session: str) -> None:
    assert not [place for place in ("/opt/", "/work/", "/root/") if place in session]

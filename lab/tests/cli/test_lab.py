from pathlib import Path

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("bm25s", reason="WebShop needs the extra `environments`")
pytest.importorskip("Stemmer", reason="WebShop needs the extra `environments`")
pytest.importorskip("rapidfuzz", reason="WebShop needs the extra `environments`")

from agora_lab.cli.lab import lab
from agora_lab.envs.data import DataError, data_file
from agora_lab.episodes import read_episodes


@pytest.fixture(autouse=True)
def _data() -> None:
    try:
        data_file("webshop/items_shuffle_1000.json", origin="princeton-nlp/WebShop")
    except DataError as error:
        pytest.skip(str(error))


def run(*args: object) -> Result:
    return CliRunner().invoke(lab, [str(arg) for arg in args])


def play(out: Path, *args: object) -> Result:
    return run("play", "--env", "webshop", "--tasks", 4, "--out", out, *args)


def test_episodes_are_played_shown_resumed_and_reported(tmp_path: Path) -> None:
    assert play(tmp_path).exit_code == 0
    before = sorted(map(str, read_episodes(tmp_path)))
    assert play(tmp_path).exit_code == 0

    assert sorted(map(str, read_episodes(tmp_path))) == before
    listed = run("show", tmp_path).output.splitlines()
    assert len(listed) == 4
    task = listed[0].split()[-1]
    assert "reward" in run("show", tmp_path, task).output
    assert "[SYSTEM]" in run("show", tmp_path, task, "--step", 1).output
    assert "webshop" in run("report", tmp_path).output


def test_the_papers_experiment_is_one_command(tmp_path: Path) -> None:
    args = ("--envs", "webshop", "--tasks", 2, "--methods", "none", "--methods", "floor")
    result = run("paper", *args, "--out", tmp_path)

    assert result.exit_code == 0, result.output
    for part in ("Table 1", "Table 2", "scripted", "paper", str(tmp_path / "report")):
        assert part in result.output
    assert (tmp_path / "report" / "report.html").is_file()
    assert max(len(one.moves) for one in read_episodes(tmp_path)) <= 30


def test_a_method_shortens_what_is_shown(tmp_path: Path) -> None:
    assert play(tmp_path, "--method", "floor", "--steps", 8).exit_code == 0

    episode = next(iter(read_episodes(tmp_path)))

    assert episode.moves[-1].tokens_sent < episode.moves[-1].tokens_whole


def test_an_environment_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "unknown environment 'mars'" in run("play", "--env", "mars", "--out", tmp_path).output

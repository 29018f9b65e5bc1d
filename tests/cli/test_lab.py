from pathlib import Path

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("bm25s", reason="WebShop needs the extra `environments`")
pytest.importorskip("Stemmer", reason="WebShop needs the extra `environments`")
pytest.importorskip("rapidfuzz", reason="WebShop needs the extra `environments`")

from agora.cli.lab import lab
from agora.lab.environments.data import DataError, data_file
from agora.lab.episodes.run import read_episodes


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


def test_episodes_are_played_shown_and_gone_on_with(tmp_path: Path) -> None:
    said = play(tmp_path, "--shard", "0/2")
    assert said.exit_code == 0, said.output
    assert "2 episodes" in said.output
    said = play(tmp_path, "--shard", "1/2")
    assert "4 episodes" in said.output
    before = sorted(episode.to_json() for episode in read_episodes(tmp_path))

    assert play(tmp_path, "--shard", "1/2").exit_code == 0

    assert sorted(episode.to_json() for episode in read_episodes(tmp_path)) == before
    listed = run("show", tmp_path).output.splitlines()
    assert len(listed) == 4
    task = listed[0].split()[-1]
    assert "reward" in run("show", tmp_path, task).output
    assert "[SYSTEM]" in run("show", tmp_path, task, "--step", 1).output


def test_a_method_shortens_what_is_shown(tmp_path: Path) -> None:
    assert play(tmp_path, "--method", "floor", "--steps", 8).exit_code == 0

    episode = next(iter(read_episodes(tmp_path)))

    assert episode.moves[-1].tokens_sent < episode.moves[-1].tokens_whole


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--method", "magic"), "no method 'magic'"),
        (("--method", "hiagent"), "skipped"),
        (("--shard", "2/2"), "not I/N"),
    ],
)
def test_what_cannot_be_played_says_why(tmp_path: Path, args: tuple[str, ...], said: str) -> None:
    result = play(tmp_path, *args)

    assert result.exit_code != 0
    assert said in result.output


def test_an_environment_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "no environment 'mars'" in run("play", "--env", "mars", "--out", tmp_path).output


def test_an_episode_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "there is no episode" in run("show", tmp_path, "nothing").output

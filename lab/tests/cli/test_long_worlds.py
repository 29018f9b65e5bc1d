"""Long conversations by the command: played, gone on with, shown and reported."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agora_lab.cli.lab import lab
from agora_lab.envs.data import DataError, data_file
from agora_lab.episodes import read_episodes

STEPS = {"desk": 24, "shop_orders": 48}
"""Long enough for several requests, and short enough to be quick."""


@pytest.fixture(params=["desk", "shop_orders"])
def world(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if name == "shop_orders":
        for package in ("bm25s", "Stemmer", "rapidfuzz"):
            pytest.importorskip(package, reason="WebShop needs the extra `environments`")
        try:
            data_file("webshop/items_shuffle_1000.json", origin="princeton-nlp/WebShop")
        except DataError as error:
            pytest.skip(str(error))
    return name


def run(*args: object) -> Result:
    return CliRunner().invoke(lab, [str(arg) for arg in args])


def play(world: str, out: Path, *args: object) -> Result:
    fixed = ("--split", "validation", "--tasks", 2, "--steps", STEPS[world], "--out", out)
    return run("play", "--env", world, *fixed, *args)


def test_a_long_conversation_is_played_gone_on_with_and_shown(world: str, tmp_path: Path) -> None:
    said = play(world, tmp_path)
    assert said.exit_code == 0, said.output
    before = sorted(map(str, read_episodes(tmp_path)))
    assert len(before) == 2

    assert play(world, tmp_path).exit_code == 0

    assert sorted(map(str, read_episodes(tmp_path))) == before
    first = next(iter(read_episodes(tmp_path)))
    assert len(first.moves) == STEPS[world]
    assert all(move.valid for move in first.moves)
    # What is called and what is said are told apart.
    assert {move.called for move in first.moves} == {True, False}
    shown = run("show", tmp_path, first.task, "--step", STEPS[world]).output
    assert "[TOOL]" in shown
    assert first.moves[-2].answer in shown


def test_a_sliding_window_shortens_a_long_conversation_and_leaves_a_marker(
    world: str, tmp_path: Path
) -> None:
    said = play(world, tmp_path, "--method", "sliding_window", "--tasks", 1)
    assert said.exit_code == 0, said.output

    [episode] = read_episodes(tmp_path)

    last = episode.moves[-1]
    assert last.tokens_sent < last.tokens_whole
    assert "step(s) elided" in run("show", tmp_path, episode.task, "--step", STEPS[world]).output
    reported = run("report", tmp_path)
    assert reported.exit_code == 0, reported.output
    assert world in reported.output

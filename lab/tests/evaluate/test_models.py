"""Experiments with a language model behind an endpoint that checks keys and bills."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from lab.tests.agents.provider import Provider

from agora_lab.cli.lab import lab
from agora_lab.episodes import read_episodes
from agora_lab.jsonl import read_lines

WORLD = "lab.tests.evaluate.remembering:WORLD"
PRICES = ("--dollars-per-million", "2", "8")


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-ours")
    with Provider(keys={"sk-ours"}) as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
        yield provider


def play(provider: Provider, out: Path, *args: str) -> Result:
    command = ["play", "--env", WORLD, "--backbone", "openai:m", "--steps", "4", "--tasks", "3"]
    where = ["--base-url", provider.base_url, "--out", str(out)]
    return CliRunner().invoke(lab, [*command, *where, *args])


def test_a_model_is_asked_with_the_key_of_the_environment_which_is_written_nowhere(
    provider: Provider, tmp_path: Path
) -> None:
    result = play(provider, tmp_path, "--method", "none", "--method", "floor")

    assert result.exit_code == 0, result.output
    episodes = list(read_episodes(tmp_path))
    assert len(episodes) == 6
    assert all(move.input_tokens and move.output_tokens for e in episodes for move in e.moves)
    assert {asked["temperature"] for asked in provider.bodies} == {0}
    assert not any(b"sk-ours" in file.read_bytes() for file in tmp_path.iterdir())


def test_a_cap_ends_a_run_and_a_higher_one_resumes_it(provider: Provider, tmp_path: Path) -> None:
    capped = play(provider, tmp_path, "--max-dollars", "0.02", *PRICES)

    assert capped.exit_code == 1
    assert "the cap of $0.02 is reached" in capped.output
    assert provider.billed <= 0.02
    before = len(list(read_episodes(tmp_path)))

    assert play(provider, tmp_path, "--max-dollars", "10", *PRICES).exit_code == 0

    assert before < len(list(read_episodes(tmp_path))) == 3
    assert list(read_lines(tmp_path / "failures.jsonl"))

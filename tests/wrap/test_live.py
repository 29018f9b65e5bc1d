"""`agora doctor --live` against a provider that refuses what is illegal and bills from a cache."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("aiohttp", reason="the extra wrap is not installed")

from harness.agents.drivers import ANTHROPIC_KEY, OPENAI_KEY
from harness.agents.record import read_requests
from harness.agents.repository import make_repository
from harness.agents.session import free_ports, process, wait_for
from tests.wrap.session import AGORA, providing, run, surroundings


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("stage")
    make_repository(folder / "repository")
    (port,) = free_ports(1)
    command = (
        *(sys.executable, "-m", "harness.agents.stage", "--record", str(folder)),
        *("--provider", str(port), "--repository", str(folder / "repository"), "--steps", "1"),
    )
    with process(command, folder / "stage.log"):
        wait_for(port)
        yield f"http://127.0.0.1:{port}", folder


@pytest.mark.parametrize(
    ("name", "key", "base", "more"),
    [
        ("ANTHROPIC", ANTHROPIC_KEY, "", ()),
        ("ANTHROPIC", ANTHROPIC_KEY, "", ("--model", "claude-sonnet-4-5", "--max-cents", "9")),
        ("OPENAI", OPENAI_KEY, "/v1", ()),
    ],
)
def test_an_edit_is_accepted_and_cached_as_predicted(
    name: str,
    key: str,
    base: str,
    more: tuple[str, ...],
    tmp_path: Path,
    stage: tuple[str, Path],
) -> None:
    url, folder = stage
    before = len(read_requests(folder / "provider"))
    environment = surroundings(tmp_path, "")
    environment |= {f"{name}_API_KEY": key, f"{name}_BASE_URL": f"{url}{base}"}

    ran = run((*AGORA, "doctor", "--live", *more), tmp_path, environment)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    calls = ("whole", "continued", "shortened", "shortened, continued")
    assert [line.split(":")[0] for line in ran.stdout.splitlines()] == [
        f"✓ {call}" for call in (*calls, "cost")
    ]
    assert key not in ran.stdout + ran.stderr
    sizes = [len(one.body) for one in read_requests(folder / "provider")[before:]]
    assert len(sizes) == 4
    assert sizes[2] < sizes[0] < sizes[1]


def test_nothing_is_sent_that_could_cost_more_than_is_allowed(
    tmp_path: Path, stage: tuple[str, Path]
) -> None:
    url, folder = stage
    before = len(read_requests(folder / "provider"))
    environment = surroundings(tmp_path, url) | {"OPENAI_API_KEY": OPENAI_KEY}

    ran = run((*AGORA, "doctor", "--live", "--max-cents", "0.1"), tmp_path, environment)

    assert ran.returncode == 1
    assert "--max-cents" in ran.stdout
    assert len(read_requests(folder / "provider")) == before


def test_without_a_key_it_says_which(tmp_path: Path) -> None:
    ran = run((*AGORA, "doctor", "--live"), tmp_path, surroundings(tmp_path, ""))

    assert ran.returncode == 1
    assert "set ANTHROPIC_API_KEY or GEMINI_API_KEY or OPENAI_API_KEY" in ran.stdout


def test_a_provider_that_caches_nothing_is_a_problem(tmp_path: Path) -> None:
    with providing() as provider:
        provider.cache.sheet = replace(provider.cache.sheet, read=1.0, write=1.0)
        environment = surroundings(tmp_path, provider.url) | {"OPENAI_API_KEY": OPENAI_KEY}
        ran = run((*AGORA, "doctor", "--live"), tmp_path, environment)

    assert ran.returncode == 1
    assert "✗ continued: accepted" in ran.stdout
    assert "0 cached" in ran.stdout

"""The command that checks properties by seed sees what is broken, and goes on where it stopped."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from agora.adapters import ADAPTERS, FORMATS
from agora.adapters.base import Parsed, Rendered
from agora.adapters.openai_chat import OpenAIChat
from agora.core.renditions.markers import Markers
from agora.core.renditions.rendition import Rendition
from harness.properties.checks import PROPERTIES
from harness.properties.draw import drawn
from harness.properties.tally import (
    CHUNK,
    Chunk,
    append,
    check_chunk,
    missing,
    read,
    sources,
    totals,
)

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("format_name", FORMATS)
def test_every_property_holds_for_the_first_seeds(format_name: str) -> None:
    chunk = check_chunk(format_name, 0, 40)

    assert chunk.violations == ()
    assert chunk.histories == 40
    # Histories of which nothing can be elided would show nothing.
    assert chunk.shortened >= 10


def test_a_seed_gives_the_same_case_again_and_its_neighbour_another() -> None:
    first, again, other = (drawn("gemini", seed) for seed in (3, 3, 4))

    assert first.history == again.history
    assert first.history.recipe == again.history.recipe
    assert first.setup.pins == again.setup.pins
    assert first.history.recipe != other.history.recipe


def test_a_renderer_that_drops_a_tool_result_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(OpenAIChat):
        def render(
            self, parsed: Parsed, renditions: Mapping[int, Rendition], markers: Markers
        ) -> Rendered:
            rendered = super().render(parsed, renditions, markers)
            last = max(
                (at for at, m in enumerate(rendered.messages) if m["role"] == "tool"), default=None
            )
            if last is None:
                return rendered
            keep = [at for at in range(len(rendered.messages)) if at != last]
            return replace(
                rendered,
                messages=[rendered.messages[at] for at in keep],
                positions=tuple(rendered.positions[at] for at in keep),
            )

    monkeypatch.setitem(ADAPTERS, "openai", Forgetful())

    chunk = check_chunk("openai", 0, 40)

    assert chunk.histories == 40
    assert len(chunk.violations) > 5
    found = chunk.violations[0]
    assert found.format == "openai"
    assert found.property in PROPERTIES
    assert f"seed {found.seed}" in str(found)
    alone = check_chunk("openai", found.seed, 1)
    assert alone.violations[0] == found


def test_whatever_a_check_raises_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object, **__: object) -> Rendered:
        raise RecursionError("too deep")

    monkeypatch.setattr("harness.properties.checks.agora.validate", explode)

    chunk = check_chunk("react", 0, 3)

    assert {violation.seed for violation in chunk.violations} == {0, 1, 2}
    assert all("too deep" in violation.error for violation in chunk.violations)


def test_a_run_that_was_stopped_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "chunks.jsonl"
    now = sources()
    wanted = [
        ("openai", 0, CHUNK),
        ("openai", CHUNK, 100),
        ("react", 0, CHUNK),
        ("react", CHUNK, 100),
    ]
    assert list(missing(("openai", "react"), CHUNK + 100, ())) == wanted
    done = Chunk(format="openai", first_seed=0, histories=CHUNK, sources=now, shortened=7)
    append(path, done)
    append(path, replace(done, format="react", sources="other code"))
    with path.open("a", encoding="utf-8") as file:
        file.write('{"format": "react", "first_')  # Killed while it wrote.

    assert list(missing(("openai", "react"), CHUNK + 100, read(path, now))) == wanted[1:]
    append(path, replace(done, format="react"))
    assert [chunk.format for chunk in read(path, now)] == ["openai", "react"]
    assert totals([*read(path, now), replace(done, histories=100)])["openai"].histories == CHUNK


def test_the_command_writes_totals_and_does_nothing_twice(tmp_path: Path) -> None:
    out, chunks = tmp_path / "out.json", tmp_path / "chunks.jsonl"
    command = [sys.executable, "-m", "benchmarks.properties", "--histories", "12"]
    command += ["--format", "react", "--out", str(out), "--chunks", str(chunks)]
    for _ in range(2):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text(encoding="utf-8"))

    assert found["violations"] == 0
    assert found["formats"]["react"]["histories"] == 12
    assert len(chunks.read_text(encoding="utf-8").splitlines()) == 1
    assert found["properties"] == list(PROPERTIES)


def test_the_command_refuses_to_run_without_assertions() -> None:
    command = [sys.executable, "-O", "-m", "benchmarks.properties", "--histories", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode
    assert "python -O" in done.stderr

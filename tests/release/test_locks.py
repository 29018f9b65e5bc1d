import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = ROOT / "locks"
DEV = ("cli", "testing", "gateway", "telemetry")
GROUPS = ("dev", "oracles", "docs")


def entries(lock: Path) -> Iterator[tuple[str, str]]:
    """Yield each pinned package with what stands below it."""
    text = "\n".join(
        line for line in lock.read_text(encoding="utf-8").splitlines() if not _comment(line)
    )
    for entry in re.split(r"\n(?=\S)", text):
        if entry.strip():
            name, _, rest = entry.partition("==")
            yield name.strip().lower().replace("_", "-"), rest


def _comment(line: str) -> bool:
    return line.lstrip().startswith("#")


@pytest.mark.parametrize("name", ["dev.txt", "release.txt"])
def test_every_package_of_a_lock_has_one_version_and_hashes(name: str) -> None:
    found = dict(entries(LOCKS / name))

    assert found
    assert [package for package, rest in found.items() if "--hash=sha256:" not in rest] == []


@pytest.mark.parametrize("name", ["dev.txt", "release.txt"])
def test_a_lock_names_no_host(name: str) -> None:
    text = (LOCKS / name).read_text(encoding="utf-8")

    assert "://" not in text
    assert "--index" not in text


def test_the_lock_for_development_holds_everything_that_is_asked_for() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    asked = [settings["project"]["optional-dependencies"][extra] for extra in DEV]
    asked += [settings["dependency-groups"][group] for group in GROUPS]
    wanted = {re.split(r"[<>=!;\[ ]", line)[0].lower() for lines in asked for line in lines}

    assert wanted - dict(entries(LOCKS / "dev.txt")).keys() == set(), "run: just locks"


def test_the_lock_for_a_release_holds_what_the_workflow_calls() -> None:
    locked = dict(entries(LOCKS / "release.txt")).keys()

    assert {"build", "hatchling", "cyclonedx-bom"} <= locked

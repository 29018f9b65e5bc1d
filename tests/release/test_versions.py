"""One version, wherever it stands, and a changelog that opens with what breaks."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import agora

ROOT = Path(__file__).parents[2]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def project(folder: str) -> Any:
    file = ROOT / folder / "pyproject.toml"
    if not file.exists():
        pytest.skip("the lab is not here: this is the source of agora-context alone")
    return tomllib.loads(file.read_text(encoding="utf-8"))["project"]


def newest() -> str:
    """Return the changelog's section on the version that this is."""
    return CHANGELOG.split("\n## ")[1]


def test_the_package_its_lab_and_the_changelog_name_one_version() -> None:
    version = agora.__version__

    assert project(".")["version"] == version
    assert newest().split()[0] in (version, "Unreleased")
    assert project("lab")["version"] == version
    assert f"agora-context[cli]=={version}" in project("lab")["dependencies"]


def test_every_image_of_the_gateway_that_is_named_carries_the_version() -> None:
    files = [*(ROOT / "deploy").rglob("*.yaml"), ROOT / "docs" / "guides" / "kubernetes.md"]
    tags = [
        tag
        for file in files
        for tag in re.findall(
            r"(?:agora-gateway:|newTag: )(\d[\w.]*)", file.read_text(encoding="utf-8")
        )
    ]

    assert tags
    assert set(tags) == {agora.__version__}


def test_what_breaks_comes_first_and_stands_nowhere_else() -> None:
    first, *others = newest().split("\n### ")[1:]

    assert first.startswith("What breaks")
    marks = ("**Changed:", "**Removed", "**Gone:", "**Settings renamed:", "**Modules moved:")
    assert [
        line for part in others for line in part.splitlines() if line[2:].startswith(marks)
    ] == []


def test_no_line_of_the_changelog_is_there_twice() -> None:
    lines = [line for line in newest().splitlines() if line.startswith("- ")]

    assert sorted(line for line in set(lines) if lines.count(line) > 1) == []


def test_the_way_from_the_last_version_is_ten_lines() -> None:
    page = (ROOT / "docs" / "migrate.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")][1:]

    assert len(rows) == 10
    assert page.startswith("# Move from 0.2 to 0.3\n") == agora.__version__.startswith("0.3.")


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "docs/versions.md"])
def test_where_one_looks_for_a_release_it_says_that_there_is_none(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")

    assert re.search(r"[Nn]o (release|version) has been (made|published)", text)

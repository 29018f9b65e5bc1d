"""The version that the package reports is the one of the project file and of the images."""

import re
import tomllib
from pathlib import Path

import agora

ROOT = Path(__file__).parents[2]


def test_the_package_reports_the_version_of_its_project_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert project["version"] == agora.__version__


def test_every_image_that_a_manifest_names_carries_the_version() -> None:
    texts = [file.read_text(encoding="utf-8") for file in (ROOT / "deploy").rglob("*.yaml")]
    tags = {tag for text in texts for tag in re.findall(r"agora-filter:(\d[\w.]*)", text)}

    assert tags <= {agora.__version__}

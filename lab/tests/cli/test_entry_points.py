import importlib.util
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from click.testing import CliRunner

from agora.cli.group import GROUP, agora

DOCS = Path(__file__).parents[3] / "docs"
COMMANDS = ("lab", "label", "train")


@pytest.fixture(autouse=True)
def _installed() -> None:
    if "lab" not in entry_points(group=GROUP).names:
        pytest.skip("agora-lab is not installed: pip install -e lab")


def test_the_commands_of_the_lab_are_commands_of_agora() -> None:
    listed = CliRunner().invoke(agora, ["--help"]).output

    for command in COMMANDS:
        assert f"\n  {command} " in listed
        assert CliRunner().invoke(agora, [command, "--help"]).exit_code == 0


def test_the_reference_of_its_commands_is_what_the_commands_say() -> None:
    spec = importlib.util.spec_from_file_location("make_cli", DOCS / "make_cli.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    assert module.LAB.read_text(encoding="utf-8") == module.lab_page(), (
        "run: python docs/make_cli.py"
    )

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

import agora

# Private: the group of entry points by which others add commands.
from agora.cli import group, main
from tests.cli.conftest import Run


def test_help_lists_the_commands_in_one_line_each(run: Run) -> None:
    result = run("--help")

    assert result.exit_code == 0
    for command in ("compress", "explain"):
        assert f"\n  {command} " in result.stdout


def test_the_version_is_the_packages(run: Run) -> None:
    assert run("--version").stdout == f"agora, version {agora.__version__}\n"


def test_an_unknown_command_is_refused(run: Run) -> None:
    result = run("shorten")

    assert result.exit_code == 2
    assert "No such command 'shorten'" in result.stderr


def test_a_misspelt_command_is_refused_with_the_nearest_one(run: Run) -> None:
    result = run("explian", "log.json")

    assert result.exit_code == 2
    assert "No such command 'explian' (did you mean explain" in result.stderr


def test_every_command_explains_itself(run: Run) -> None:
    for command in ("compress", "explain"):
        result = run(command, "--help")
        assert result.exit_code == 0
        assert "--keep-ratio" in result.stdout


def test_help_loads_no_command_and_importing_the_package_loads_no_click() -> None:
    program = (
        "import sys, agora.cli; assert 'click' not in sys.modules\n"
        "from agora.cli.group import agora\n"
        "agora(['--help'], standalone_mode=False)\n"
        "assert 'agora.cli.compress' not in sys.modules\n"
        "assert 'rich.console' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_the_entry_point_runs_the_group_and_without_the_extra_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["agora", "--version"])
    with pytest.raises(SystemExit) as done:
        main()
    assert done.value.code == 0
    assert capsys.readouterr().out.startswith("agora, version")

    monkeypatch.setitem(sys.modules, "rich", None)
    with pytest.raises(SystemExit) as refused:
        main()
    assert refused.value.code == 1
    assert capsys.readouterr().err == "agora needs an extra: pip install '.[cli]' (in a checkout)\n"


@pytest.mark.parametrize("command", ["lab", "label", "train"])
def test_a_command_of_the_lab_says_what_to_install_when_it_is_not(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr(group, "entry_points", lambda group: ())

    result = run(command, "--help")

    assert result.exit_code == 1
    assert result.stderr == (
        f"Error: `agora {command}` is part of another package: "
        "pip install './lab' (in a checkout)\n"
    )
    assert f"\n  {command} " not in run("--help").stdout


def test_another_package_can_add_a_command_and_cannot_replace_ours(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = (
        EntryPoint("weigh", "tests.cli.added:weigh", group.GROUP),
        EntryPoint("compress", "tests.cli.added:weigh", group.GROUP),
    )
    monkeypatch.setattr(group, "entry_points", lambda group: points)

    assert run("weigh").stdout == "weighed\n"
    assert "Added by tests.cli.added." in run("--help").stdout
    assert "--keep-ratio" in run("compress", "--help").stdout

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

WITHOUT = "-dac_override,-dac_read_search"
"""What lets root read everything; without it, root is refused like anybody else."""
REQUEST = '{"messages": [{"role": "user", "content": "hi"}]}\n'

pytestmark = pytest.mark.skipif(os.name == "nt", reason="modes of folders are those of POSIX")


def bound(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `agora` as somebody whom the modes of files bind."""
    command = [sys.executable, "-m", "agora.cli", *arguments]
    if os.geteuid() == 0:
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            pytest.skip("root may read everything, and setpriv (util-linux) is not here")
        command = [setpriv, f"--bounding-set={WITHOUT}", f"--inh-caps={WITHOUT}", *command]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Path]:
    """A log, beside a folder that may not be listed and one that may only be listed."""
    modes = {"shut": 0o000, "listed": 0o400, "kept": 0o500}
    (tmp_path / "open.jsonl").write_text(REQUEST)
    for name, mode in modes.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "log.jsonl").write_text(REQUEST)
        (tmp_path / name).chmod(mode)
    yield tmp_path
    for name in modes:
        (tmp_path / name).chmod(0o700)


def test_replay_names_every_folder_it_may_not_read_and_replays_the_rest(logs: Path) -> None:
    done = bound("replay", str(logs))

    assert f"{logs / 'shut'} cannot be read: Permission denied" in done.stdout
    assert f"{logs / 'listed' / 'log.jsonl'} cannot be read: Permission denied" in done.stdout
    assert "2 records could not be read" in done.stdout
    assert "2 trajectories" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("command", ["replay", "compress", "explain"])
def test_a_folder_nobody_can_read_is_an_error_in_words(command: str, logs: Path) -> None:
    done = bound(command, str(logs / "shut"))

    assert done.returncode == 2
    assert "is not readable" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["compress", "explain"])
def test_a_bundle_nobody_can_read_is_named(command: str, logs: Path) -> None:
    done = bound(command, str(logs / "open.jsonl"), "--scorer", str(logs / "shut"))

    assert done.returncode in (1, 2)
    assert "shut" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments", [("replay", "--html"), ("replay", "--json"), ("explain", "--html")]
)
def test_a_folder_nobody_can_write_to_is_named(arguments: tuple[str, str], logs: Path) -> None:
    command, option = arguments
    page = logs / "kept" / "page"
    done = bound(command, str(logs / "open.jsonl"), option, str(page))

    assert (done.returncode, done.stderr) == (1, f"Error: {page}: Permission denied\n")


def test_a_configuration_nobody_can_read_is_named(logs: Path) -> None:
    pytest.importorskip("msgspec")
    done = bound("proxy", str(logs / "shut" / "settings.toml"))

    assert done.returncode == 1
    assert "settings.toml: " in done.stderr
    assert "Permission denied" in done.stderr
    assert "Traceback" not in done.stderr

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agora_lab.journal import BusyError, Journal, read_lines


def test_what_was_added_is_read_back_and_half_a_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    journal = Journal(path)
    journal.add(b"one")
    journal.close()
    with path.open("ab") as file:
        file.write(b"half a l")

    assert list(read_lines(path)) == [b"one\n"]
    again = Journal(path)
    again.add(b"two")
    again.sync()
    again.close()
    again.close()

    assert list(read_lines(path)) == [b"one\n", b"two\n"]


def test_a_file_without_a_whole_line_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"x" * 200_000)
    Journal(path).close()

    assert path.read_bytes() == b""


def test_a_file_has_one_writer_until_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    holds = "import sys; from agora_lab.journal import Journal; from pathlib import Path; "
    holds += "j = Journal(Path(sys.argv[1])); print(flush=True); sys.stdin.read()"
    other = subprocess.Popen(
        [sys.executable, "-c", holds, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    other.stdout.readline()
    with pytest.raises(BusyError, match="another process"):
        Journal(path)
    other.kill()
    other.communicate()

    Journal(path).close()


def test_a_line_that_does_not_fit_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lines"
    journal = Journal(path)
    journal.add(b"one")
    write = os.write

    def full(handle: int, data: bytes) -> int:
        if len(data) < 4:
            raise OSError(28, "no space")
        return write(handle, data[:3])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="no space"):
        journal.add(b"three")
    monkeypatch.undo()
    journal.close()

    assert list(read_lines(path)) == [b"one\n"]

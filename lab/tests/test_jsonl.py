import subprocess
import sys
from pathlib import Path

import pytest

from agora_lab.jsonl import BusyError, append, open_lines, read_lines

HOLDER = """
import sys
from pathlib import Path
from agora_lab.jsonl import append, open_lines
file = open_lines(Path(sys.argv[1]))
append(file, {"by": "holder"})
file.write(b"half a l")
file.flush()
print("ready", flush=True)
sys.stdin.read()
"""


def test_lines_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    values = [{"text": "caf\u00e9 \ud800\n"}, [], 1.5]
    with open_lines(path) as file:
        for value in values:
            append(file, value)

    assert list(read_lines(path)) == values
    assert list(read_lines(tmp_path / "absent")) == []


def test_one_process_writes_at_a_time_and_a_killed_one_leaves_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    with pytest.raises(BusyError, match="another process"):
        open_lines(path)
    assert list(read_lines(path)) == [{"by": "holder"}]

    holder.kill()
    holder.communicate()
    with open_lines(path, wait_s=10) as file:
        append(file, 2)
    assert list(read_lines(path)) == [{"by": "holder"}, 2]

"""Free memory goes back to the system."""

import subprocess
import sys

import pytest

PROGRAM = """
from pathlib import Path
from agora.gateway.heap import give_back_large_blocks

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

if {settled}:
    assert give_back_large_blocks()
# The first block that is given back teaches the C library to keep the others.
del (first := [b"x" * (30 << 20)])[:]
blocks, between = [], []
for _ in range(40):
    blocks.append(b"x" * (1 << 20))
    between.append(b"x" * (4 << 10))
del blocks
print(resident() >> 20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_blocks_of_a_megabyte_leave_the_process_when_they_are_free() -> None:
    kept, given_back = (
        int(subprocess.check_output([sys.executable, "-c", PROGRAM.format(settled=settled)]))
        for settled in (False, True)
    )
    assert given_back < kept - 20

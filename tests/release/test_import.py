import statistics
import subprocess
import sys

import pytest

SPENT = """
import time
before = time.process_time()
import {module}
print(time.process_time() - before)
"""
MOST = 25
"""Times as long as `import json`: 12 at best and 17 as a median of 15 were measured, on a shared
machine where that takes 8 ms."""


def spent(module: str) -> float:
    done = subprocess.run(
        [sys.executable, "-I", "-c", SPENT.format(module=module)],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


@pytest.mark.timing
def test_importing_agora_takes_a_small_multiple_of_importing_json() -> None:
    pairs = [(spent("agora"), spent("json")) for _ in range(9)]

    assert statistics.median(ours / theirs for ours, theirs in pairs) <= MOST

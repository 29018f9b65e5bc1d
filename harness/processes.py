"""Child processes, as the kernel lists them."""

from pathlib import Path


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started: each of its threads has its own."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for of in tasks for child in of.read_text(encoding="ascii").split()]

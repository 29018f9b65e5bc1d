"""Functions that tests run on Ray: in a module that its processes can import."""

import os
import time
from pathlib import Path

import ray


def square(number: int) -> int:
    return number * number


def node_of(_: int) -> str:
    time.sleep(0.5)
    return str(ray.get_runtime_context().get_node_id())


def fails_on_three(number: int) -> int:
    if number == 3:
        raise ValueError("three is not wanted")
    return number


def dies(_: int) -> None:
    os._exit(1)


def dies_once(file: str) -> str:
    """Leave a file behind and kill the process; a second run finds the file and returns."""
    if Path(file).exists():
        return "second"
    Path(file).touch()
    os._exit(1)


def waits_for(file: str) -> str:
    """Note the node in a file, and return when a second file appears."""
    with Path(f"{file}.nodes").open("a") as notes:
        notes.write(ray.get_runtime_context().get_node_id() + "\n")
    while not Path(file).exists():
        time.sleep(0.1)
    return str(ray.get_runtime_context().get_node_id())

"""Splits recorded tasks into halves: choices are made on one, figures on the other.

Choices and training use the validation half only. A half is a function of names alone, so every
tool agrees on it.
"""

import hashlib
import re
from typing import Literal

Half = Literal["validation", "test"]
HALVES: tuple[Half, ...] = ("validation", "test")

_REPOSITORY = re.compile(r"([A-Za-z0-9_.-]+__[A-Za-z0-9_.-]+?)-[0-9]+")
_NUMBERED_BY_FILE = frozenset(["intercode"])
"""Sources whose files number their tasks alike, though they are different tasks."""


def half_of(source: str, group: str) -> Half:
    """Return the half of a group of tasks, by its name alone.

    >>> half_of("airline", "0") == half_of("airline", "0")
    True
    """
    drawn = hashlib.blake2b(f"{source}|{group}".encode("utf-8", "replace"), digest_size=8).digest()
    return "validation" if drawn[0] % 2 == 0 else "test"


def group_of(source: str, task: str, recording: str = "") -> str:
    """Return the group that must be on one side of a split: the repository, or else the task.

    The last two parts of a path, as in ALFWorld, name the game.

    >>> group_of("coding", "django__django-11099"), group_of("airline", "3")
    ('django__django', '3')
    >>> group_of("intercode", "3", "sql.json:4")
    'sql.json:3'
    """
    found = _REPOSITORY.fullmatch(task)
    if found:
        return found[1]
    if source in _NUMBERED_BY_FILE:
        return f"{recording.partition(':')[0]}:{task}"
    return "/".join(task.split("/")[-2:])

"""Worlds in which agents act: each the real thing, behind one protocol."""

import importlib

from agora.lab.environments.base import Environment, Outcome, Start, World

__all__ = ["NAMES", "Environment", "Outcome", "Start", "World", "world"]

NAMES = ("alfworld", "scienceworld", "webshop")


def world(name: str) -> World:
    """Return the world of that name; what it needs is imported now and not before.

    Raises:
        ValueError: there is none of that name.
    """
    if name not in NAMES:
        raise ValueError(f"there is no environment {name!r}; there are {', '.join(NAMES)}")
    found = importlib.import_module(f"agora.lab.environments.{name}").WORLD
    assert isinstance(found, World)  # noqa: S101
    return found

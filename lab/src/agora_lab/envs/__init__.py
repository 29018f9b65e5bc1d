"""Environments in which agents act, behind one protocol."""

import importlib
from typing import Any

from agora_lab.envs.base import Environment, Outcome, Start, World

__all__ = ["NAMES", "Environment", "Outcome", "Start", "World", "imported", "world"]

NAMES = (
    "alfworld",
    "chains",
    "desk",
    "scienceworld",
    "shop_orders",
    "webshop",
)


def world(name: str) -> World:
    """Return the world with that name, or the one at `package.module:WORLD`.

    Its dependencies are imported only now.

    Raises:
        ValueError: The name is unknown.
    """
    if ":" in name:
        found = imported(name)
        if not isinstance(found, World):
            raise ValueError(f"{name!r} is not a World")
        return found
    if name not in NAMES:
        raise ValueError(f"unknown environment {name!r}; use one of {', '.join(NAMES)}")
    found = importlib.import_module(f"agora_lab.envs.{name}").WORLD
    assert isinstance(found, World)  # noqa: S101
    return found


def imported(name: str) -> Any:
    """Return the object at `package.module:NAME`.

    Raises:
        ValueError: It does not exist.
    """
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"{name!r} cannot be imported: {error}; use package.module:NAME"
        ) from error

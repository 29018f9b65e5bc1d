"""Readers: one deterministic program per environment that acts only on what the prompt says.

A reader is a test instrument. It keeps no memory of its own and asks the
environment nothing, so an action that changes when a step is left out needed
that step. It says nothing about a language model's taste.
"""

import importlib
from typing import Protocol

from agora_lab.agents.base import Answer, BackboneError, Messages, prompt_text

__all__ = ["NAMES", "Reader", "ReaderBackbone", "claims", "reader"]

NAMES = (
    "alfworld",
    "chains",
    "desk",
    "scienceworld",
    "shop_orders",
    "webshop",
)


class Reader(Protocol):
    """Decides on the next action from the text of a prompt."""

    def act(self, prompt: str) -> str:
        """Return the action that the prompt calls for."""
        ...


class ReaderBackbone:
    """A reader in the place of a language model."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def answer(self, messages: Messages) -> Answer:
        """Return the reader's action; it is sure of it and costs nothing."""
        return Answer(text=self._reader.act(prompt_text(messages)))


def claims(name: str, task: str) -> bool:
    """Tell whether a reader says that it can do a task at all.

    A reader that knows some kinds of tasks only has `CLAIMED`, the beginnings
    of their ids up to the slash; the others claim every task.
    """
    claimed = getattr(importlib.import_module(f"{__name__}.{name}"), "CLAIMED", None)
    return claimed is None or task.partition("/")[0] in claimed


def reader(name: str) -> ReaderBackbone:
    """Return the reader for the environment of that name.

    Raises:
        BackboneError: There is none.
    """
    if name not in NAMES:
        raise BackboneError("scripted", f"has no reader for {name!r}, only {', '.join(NAMES)}")
    return ReaderBackbone(importlib.import_module(f"{__name__}.{name}").READER)

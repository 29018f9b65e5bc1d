"""Readers: one deterministic program per environment that acts only on the text of the prompt.

A reader keeps no memory and asks the environment nothing. So an action that changes when a step is
left out needed that step. Readers do not show how a language model would act.
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
        """Return the reader's action."""
        return Answer(text=self._reader.act(prompt_text(messages)))


def claims(name: str, task: str) -> bool:
    """Return True if the reader of an environment has a plan for a task.

    A module with `CLAIMED`, the beginnings of task ids up to the slash, plays only those.
    """
    claimed = getattr(importlib.import_module(f"{__name__}.{name}"), "CLAIMED", None)
    return claimed is None or task.partition("/")[0] in claimed


def reader(name: str) -> ReaderBackbone:
    """Return the reader of an environment.

    Raises:
        BackboneError: The environment has no reader.
    """
    if name not in NAMES:
        raise BackboneError("scripted", f"has no reader for {name!r}, only {', '.join(NAMES)}")
    return ReaderBackbone(importlib.import_module(f"{__name__}.{name}").READER)

"""The whole history at every call: the baseline of every other contender."""

from collections.abc import Callable
from typing import Any

TITLE = "everything"
OURS = True
SETTINGS: dict[str, dict[str, Any]] = {"default": {}}


def prepare(settings: dict[str, Any]) -> Callable[..., Any]:  # noqa: ARG001 - it has none
    """Return the hook."""
    return lambda messages, _about: messages

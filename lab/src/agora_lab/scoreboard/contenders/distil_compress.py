"""distil's compress_messages(), from the released package."""

import importlib
import os
import tempfile
from collections.abc import Callable
from typing import Any

TITLE = "distil compress_messages()"
SOURCE = "distil-llm on PyPI: the library's documented entry for one's own agent"
PACKAGES = ("distil-llm==1.58.0",)
PURE = True
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "verbatim (nothing behind a handle)": {"verbatim": True},
}


def prepare(settings: dict[str, Any]) -> Callable[..., Any]:
    """Return the hook. Its restore store goes to a temporary folder."""
    os.environ["HOME"] = os.environ["DISTIL_HOME"] = tempfile.mkdtemp()
    compress_messages = importlib.import_module("distil.api").compress_messages

    def edit(messages: list[dict[str, Any]], _about: dict[str, Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = compress_messages(messages, **settings).messages
        return found

    return edit

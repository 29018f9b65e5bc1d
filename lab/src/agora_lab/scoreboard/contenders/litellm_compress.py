"""LiteLLM's compress(), from the released package."""

import importlib
from collections.abc import Callable
from typing import Any

TITLE = "LiteLLM compress()"
SOURCE = "docs.litellm.ai/docs/completion/prompt_compression; 100k is the interception's example"
PACKAGES = ("litellm==1.106.2",)
PURE = True
SETTINGS: dict[str, dict[str, Any]] = {
    "default: trigger 200k": {},
    "trigger 100k": {"compression_trigger": 100_000},
}


def prepare(settings: dict[str, Any]) -> Callable[..., Any]:
    """Return the hook. The tool that restores removed text is not billed."""
    compress = importlib.import_module("litellm.compression.compress").compress

    def edit(messages: list[dict[str, Any]], about: dict[str, Any]) -> list[dict[str, Any]]:
        result = compress(messages=messages, model=about["model"], **settings)
        if result.get("compression_skipped_reason"):
            return messages
        found: list[dict[str, Any]] = result["messages"]
        return found

    return edit

"""The newest N tool results stay, older ones are masked, in batches down to half."""

from collections.abc import Callable
from typing import Any

TITLE = "newest N results, batched"
SOURCE = "after Lindenbauer et al. 2025 (arXiv 2508.21433) and qwen-code#8464 (half watermark)"
KEEPS = True
SETTINGS = {"N=10": {"keep": 10}, "N=5": {"keep": 5}}
MASK = "[old tool result left out]"


def prepare(settings: dict[str, int]) -> Callable[..., Any]:
    """Return the hook: when twice N results are whole, all but the newest N are masked."""
    keep = settings["keep"]

    def edit(messages: list[dict[str, Any]], _about: dict[str, Any]) -> list[dict[str, Any]]:
        results = [
            at for at, m in enumerate(messages) if m["role"] == "tool" and m["content"] != MASK
        ]
        if len(results) < 2 * keep:
            return messages
        masked = set(results[:-keep])
        return [{**m, "content": MASK} if at in masked else m for at, m in enumerate(messages)]

    return edit

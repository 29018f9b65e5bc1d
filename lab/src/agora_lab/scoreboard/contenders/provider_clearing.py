"""Anthropic's context editing, by its documented rules: old results cleared on the server."""

from collections.abc import Callable
from typing import Any

from agora import EstimatedTokens

TITLE = "Anthropic's tool clearing"
SOURCE = "platform.claude.com/docs/en/build-with-claude/context-editing, read November 2026"
SETTINGS: dict[str, dict[str, Any]] = {
    "default: trigger 100k, keep 3": {"trigger": 100_000, "keep": 3, "at_least": 0},
    "the page's example: 30k, keep 3, clear_at_least 5k": {
        "trigger": 30_000,
        "keep": 3,
        "at_least": 5_000,
    },
    "100k, keep 3, clear_at_least 20k": {"trigger": 100_000, "keep": 3, "at_least": 20_000},
}
CLEARED = "[tool result cleared]"
_COUNT = EstimatedTokens().count


def prepare(settings: dict[str, int]) -> Callable[..., Any]:
    """Return the hook. Cleared results stay cleared until the trigger is passed again.

    Open questions of the page are read in the cheaper way; it counts the provider's own tokens.
    """
    cleared: set[str] = set()
    sizes: dict[str, int] = {}

    def size(text: str) -> int:
        if text not in sizes:
            sizes[text] = _COUNT(text)
        return sizes[text]

    def edit(messages: list[dict[str, Any]], about: dict[str, Any]) -> list[dict[str, Any]]:
        results = [m for m in messages if m["role"] == "tool"]
        whole = about["prompt_tokens"][about["number"]]
        gone = sum(size(m["content"]) for m in results if m["tool_call_id"] in cleared)
        if whole - gone * about["scale"] > settings["trigger"]:
            old = [m for m in results[: -settings["keep"]] if m["tool_call_id"] not in cleared]
            tokens = sum(size(m["content"]) for m in old) * about["scale"]
            if old and tokens >= settings["at_least"]:
                cleared.update(m["tool_call_id"] for m in old)
        return [
            {**m, "content": CLEARED} if m.get("tool_call_id") in cleared else m for m in messages
        ]

    return edit

"""The system text, the task and the newest turns that fit; older turns go, at every call."""

from collections.abc import Callable
from typing import Any

from agora import EstimatedTokens

TITLE = "sliding window"
SOURCE = "the rule of thumb that most frameworks document; our own few lines"
SETTINGS = {"32k tokens": {"tokens": 32_000}, "64k tokens": {"tokens": 64_000}}
_COUNT = EstimatedTokens().count


def prepare(settings: dict[str, int]) -> Callable[..., Any]:
    """Return the hook."""
    sizes: dict[int, int] = {}

    def size(message: dict[str, Any]) -> int:
        key = id(message)
        if key not in sizes:
            sizes[key] = _COUNT(f"{message['content']} {message.get('tool_calls', '')}")
        return sizes[key]

    def edit(messages: list[dict[str, Any]], _about: dict[str, Any]) -> list[dict[str, Any]]:
        first = next((at for at, m in enumerate(messages) if m["role"] == "assistant"), 0)
        room = settings["tokens"] - sum(map(size, messages[:first]))
        start = len(messages)
        for at in range(len(messages) - 1, first - 1, -1):
            room -= size(messages[at])
            if room < 0:
                break
            if messages[at]["role"] != "tool":
                start = at
        return messages if start <= first else messages[:first] + messages[start:]

    return edit

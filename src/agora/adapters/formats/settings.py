"""What bodies say of thinking, in the shape that Anthropic gave it."""

from collections.abc import Callable, Mapping
from typing import Any


def thinking_setting(*path: str) -> Callable[[Mapping[str, Any]], bool | None]:
    """Return what reads whether thinking is on from a setting at a place of a body.

    >>> thinking_setting("thinking")({"thinking": {"type": "disabled"}})
    False
    >>> thinking_setting("thinking")({}) is None
    True
    """

    def thinks(body: Mapping[str, Any]) -> bool | None:
        setting: Any = body
        for name in path:
            setting = setting.get(name) if isinstance(setting, Mapping) else None
        return setting.get("type") != "disabled" if isinstance(setting, dict) else None

    return thinks

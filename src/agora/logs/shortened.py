"""Detect recorded prompts that AGORA had already shortened, by the markers in their messages."""

import re
from typing import Any

_HEAD = re.compile(
    r"\[steps? \d{1,9}(?:-\d{1,9})?(?:: result)? removed"
    r"(?: by the context compressor\b| #[0-9a-f]{4}\b)"
)
"""How the markers and notes of `core.forms` begin that say who wrote them."""
_LINE = re.compile(r"\d{1,9} ")
_OPEN = "[step"


def shows_markers(messages: Any) -> bool:
    """Return True if a text in the messages is a marker, or ends with one.

    A text that merely quotes a marker, such as a page of documentation, has more text after it.

    >>> note = "[step 3: result removed by the context compressor] date=2024-05-20"
    >>> shows_markers([{"role": "tool", "content": note}])
    True
    >>> shows_markers([{"role": "user", "content": f"What does {note!r} mean?"}])
    False
    """
    waiting = [messages]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            if _OPEN in value and _ends_with_marker(value):
                return True
        elif isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)
    return False


def _ends_with_marker(text: str) -> bool:
    if _HEAD.match(text):
        return True
    start = text.rfind(f"\n{_OPEN}") + 1
    if not start or not _HEAD.match(text, start):
        return False
    _, *lines = text[start:].rstrip().split("\n")
    return all(map(_LINE.match, lines))

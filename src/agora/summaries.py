"""Recognise the call in which an agent has its own conversation summarised.

When its window fills up, an agent sends its history with a request for a summary, and continues
from the answer alone. A summary of a shortened history would lose the full text for good, so this
call goes out whole. Each agent words the request in its own way and always the same, at the start
of a line of the last message. The same words elsewhere, in a tool result or an earlier message,
are not a request.
"""

import re
from collections.abc import Sequence
from typing import Any

OWN_SUMMARY = "own_summary"
"""The reason of such a call."""
_HEAD_CHARACTERS = 4_000
"""How far into a text the request begins at the latest: some put notes on tools before it."""
_REQUESTS = re.compile(
    r"^[ \t]*(?:"
    # Claude Code: /compact and automatic compaction, of all or of the recent part.
    r"Your task is to create a detailed summary of (?:the|this|our) (?:RECENT portion of the )?conv"
    # Codex, when it compacts by a prompt of its own.
    r"|You are performing a CONTEXT CHECKPOINT COMPACTION"
    # Gemini CLI and Qwen Code; the second one checks the first answer.
    r"|First, reason in your scratchpad\. Then, generate the (?:updated )?<state_snapshot>"
    r"|Critically evaluate the <state_snapshot>"
    # opencode, newer and older versions.
    r"|(?:Create a new|Update the) anchored summary (?:from|below|using)"
    r"|Provide a detailed (?:prompt for continuing|but concise summary of) our conversation above"
    # pi.
    r"|The messages above are a conversation to summarize"
    r"|The messages above are NEW conversation messages to incorporate"
    # OpenHands.
    r"|You are maintaining a context-aware state summary"
    r")",
    re.MULTILINE,
)
_TRIGGER = "compaction_trigger"
"""The item by which Codex asks the provider to compact all before it."""


def asks_for_summary(messages: Sequence[Any]) -> bool:
    """Return True if the last message, in any format, asks for a summary of all others.

    >>> asks_for_summary([{"role": "user", "content": "Summarise the README."}])
    False
    """
    for message in reversed(messages):
        if not isinstance(message, dict):
            return False
        if message.get("type") == _TRIGGER:
            return True
        role = message.get("role")
        if role == "user":
            return any(_REQUESTS.search(text[:_HEAD_CHARACTERS]) for text in _texts(message))
        # System text may follow the request; anything else means that the agent continued.
        if role not in ("system", "developer"):
            return False
    return False


def _texts(message: dict[str, Any]) -> list[str]:
    """Return the user's texts in a message; tool results beside them are not the user's."""
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [
        part["text"]
        for part in parts
        if isinstance(part, dict) and isinstance(part.get("text"), str)
    ]

"""Recognises the calls in which an agent summarises its own conversation, which must be sent whole.

When its window fills up, an agent sends its history once more with a request for a summary and
goes on from the answer alone. A summary of a compressed history would be a summary of markers, and
the full text would be lost for good. Each agent words that request in its own way and always the
same; it opens a line near the start of the last thing that is said. Looked for there and nowhere
else: the same words in a tool result, or in an earlier message, are not a request.
"""

import re
from collections.abc import Sequence
from typing import Any

OWN_SUMMARY = "own_summary"
"""The reason of a body that is an agent's own compaction call."""
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
    # opencode, now and before.
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
_WORDS = (
    b"detailed summary of ",
    b"CHECKPOINT COMPACTION",
    b"state_snapshot",
    b"anchored summary",
    b"our conversation above",
    b"The messages above are",
    b"context-aware state summary",
    b"compaction_trigger",
)
"""A body without any of these asks for no summary: a look at its bytes saves reading it."""
_TRIGGER = "compaction_trigger"
"""The item by which Codex asks the provider to compact what stands before it."""


def may_ask(body: bytes, start: int, end: int) -> bool:
    """Tell whether these bytes could ask for a summary, without reading them.

    >>> may_ask(b'[{"role":"user","content":"hi"}]', 0, 32)
    False
    """
    return any(body.find(words, start, end) >= 0 for words in _WORDS)


def asks_for_summary(messages: Sequence[Any]) -> bool:
    """Tell whether the last thing said in messages of any format asks to summarise them all.

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
    """Return what the user says in a message; results next to it are not the user's."""
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [
        part["text"]
        for part in parts
        if isinstance(part, dict) and isinstance(part.get("text"), str)
    ]

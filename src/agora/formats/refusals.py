"""Refusals read: the rule on message histories that a provider's error text names."""

import re
from functools import cache

from agora.formats.registry import formats

BINDING_RULES = frozenset({"A17", "A22"})
"""Refused thinking: the same request is accepted without it."""
_OTHER_WORDS = {
    "invalid `signature` in `thinking` block": "A17",
    "invalid `data` in `redacted_thinking` block": "A17",
    "exceeds the number of tooluse blocks of previous turn": "A2",
    "expected toolresult blocks at messages": "A1",
    "a conversation must start with a user message": "A7",
    "the text field in the contentblock object": "A11",
    "the content field in the message object": "A11",
    "cache_control cannot be set for empty text blocks": "A11",
    "not the same number of function calls and responses": "M1",
    "more tool responses than tool calls": "M2",
    "missing `reasoning_content` field in the assistant message": "O7",
    "could not decrypt the provided encrypted_content": "R9",
    "missing a thought_signature in functioncall parts": "G9",
}
"""Words of refusals that no rule's sentence has: another provider's for the same rule, and rules
that only a provider can check."""
_HOLE = re.compile(r"\{[^{}]*\}")
_LEAST_CHARACTERS = 20


def names_history_rule(refusal: bytes) -> str:
    """Return the code of the rule on message histories that a refusal names, or nothing.

    >>> names_history_rule(b'{"error": {"message": "messages: text content blocks must be'
    ...     b' non-empty"}}')
    'A11'
    >>> names_history_rule(b'{"error": {"message": "Invalid API key"}}')
    ''
    """
    text = _plain(refusal.decode("utf-8", "replace"))
    for fragment, code in _fragments():
        if fragment in text:
            return code
    return ""


@cache
def _fragments() -> tuple[tuple[str, str], ...]:
    """Return the longest fixed part of each rule's sentence, the longest first."""
    fragments = dict(_OTHER_WORDS)
    for format in formats():
        for rule in format.rules:
            fragment = max((_plain(part).strip() for part in _HOLE.split(rule.sentence)), key=len)
            if len(fragment) >= _LEAST_CHARACTERS:
                fragments.setdefault(fragment, rule.code)
    return tuple(sorted(fragments.items(), key=lambda pair: -len(pair[0])))


def _plain(text: str) -> str:
    return text.replace('\\"', '"').replace("\\u0060", "`").lower()

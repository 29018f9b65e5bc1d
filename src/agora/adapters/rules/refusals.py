"""Refusals read: which rule on message histories a provider's error text names."""

import re
from functools import cache

from agora.adapters.rules.catalogue import CATALOGUE

BINDING_RULES = frozenset({"A17", "A22"})
"""Thinking that is refused: the same request is accepted without it."""


def names_history_rule(refusal: bytes) -> str:
    """Return the code of the rule on message histories that a refusal names, or nothing.

    >>> names_history_rule(b'{"error": {"message": "messages: text content blocks must be'
    ...     b' non-empty"}}')
    'A11'
    >>> names_history_rule(b'{"error": {"message": "Invalid API key"}}')
    ''
    """
    said = _plain(refusal.decode("utf-8", "replace"))
    for fragment, code in _fragments():
        if fragment in said:
            return code
    return ""


_HOLE = re.compile(r"\{[^{}]*\}")
_LEAST_CHARACTERS = 20


@cache
def _fragments() -> tuple[tuple[str, str], ...]:
    """Return the longest fixed part of each rule's text, the longest first."""
    found: dict[str, str] = {}
    for code, rule in CATALOGUE.items():
        if rule.family == "shape":
            continue
        fragment = max((_plain(part).strip() for part in _HOLE.split(rule.says)), key=len)
        if len(fragment) >= _LEAST_CHARACTERS:
            found.setdefault(fragment, code)
    return tuple(sorted(found.items(), key=lambda pair: -len(pair[0])))


def _plain(text: str) -> str:
    return text.replace('\\"', '"').replace("\\u0060", "`").lower()

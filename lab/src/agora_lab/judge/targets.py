"""Which part of a target message is the action, and which part of that was needed from the past."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agora_lab.judge.calls import calls_of
from agora_lab.names import joins

Span = tuple[int, int]
ACTION = "action"
NEEDED = "needed"
_BLOCK = re.compile(r"```[a-z]*\n(.*?)\n?```", re.DOTALL)


def marks(
    target: str, message: Mapping[str, Any], needed: Sequence[str], spans: Sequence[Span]
) -> list[str]:
    """Return the mark of each token of a target, given as a span of its text.

    The action is the argument values of calls, the text of the last code block of an agent
    that writes one, or the whole of what it says. A token that lies partly in it counts.
    """
    actions = action_spans(target, message)
    names = [
        (start, end)
        for name in needed
        for start, end in occurrences(name, target)
        if any(a <= start and end <= b for a, b in actions)
    ]
    return [
        NEEDED if _meets(span, names) else ACTION if _meets(span, actions) else "" for span in spans
    ]


def action_spans(target: str, message: Mapping[str, Any]) -> list[Span]:
    """Return the place of the action in the target's text."""
    calls = calls_of(message)
    if not calls:
        blocks = list(_BLOCK.finditer(target))
        return [blocks[-1].span(1)] if blocks else [(0, len(target))]
    found: list[Span] = []
    at = 0
    for call in calls:
        # As templates write it: like json.dumps, characters beyond ASCII as they are.
        text = json.dumps(call.arguments, ensure_ascii=False)
        start = target.find(text, at)
        if start >= 0:
            found += [(start + a, start + b) for a, b in _values(call.arguments, 0)]
            at = start + len(text)
    return found


def _values(value: Any, at: int) -> Iterator[Span]:
    """Yield the places of the values in a JSON text that begins at `at`; strings without quotes."""
    if isinstance(value, dict):
        at += 1
        for key, inner in value.items():
            at += len(json.dumps(key, ensure_ascii=False)) + 2
            yield from _values(inner, at)
            at += len(json.dumps(inner, ensure_ascii=False)) + 2
    elif isinstance(value, list):
        at += 1
        for inner in value:
            yield from _values(inner, at)
            at += len(json.dumps(inner, ensure_ascii=False)) + 2
    else:
        text = json.dumps(value, ensure_ascii=False)
        quoted = 1 if isinstance(value, str) else 0
        if len(text) > 2 * quoted:
            yield at + quoted, at + len(text) - quoted


def occurrences(name: str, text: str) -> Iterator[Span]:
    """Yield the places of a name in a text as a whole word.

    >>> list(occurrences("HAT1", "HAT12, HAT1."))
    [(7, 11)]
    """
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        before, after = text[start - 1 : start], text[end : end + 1]
        if not (joins(before) and joins(name[0])) and not (joins(after) and joins(name[-1])):
            yield start, end
        start = text.find(name, start + 1)


def _meets(span: Span, spans: Sequence[Span]) -> bool:
    return any(span[0] < end and start < span[1] for start, end in spans)

"""A few lines of an edited request, as the agent's model gets them."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from harness.agents.analysis import Pair
from harness.agents.wire import history_of

_MARKER = re.compile(r"\[steps? \d+(?:-\d+)?(?:: result)? elided")
_PATH = re.compile(r"/[\w./-]*?/repository(?=/)")
"""Where the made-up repository was on the machine that ran the session."""
_WIDTH = 150
_LINES = 3


def excerpt(exchanges: Sequence[Pair]) -> str:
    """Return the longest marker of the last edited request, cut short; empty if none was edited."""
    edited = [exchange for exchange in exchanges if exchange.edited]
    if not edited or edited[-1].billed is None:
        return ""
    last, sent = edited[-1].billed, edited[-1].sent
    history = history_of(last.route, last.json or {})
    found = [
        (text[match.start() :], place)
        for message in history
        for place, text in _texts(message, str(message.get("role") or message.get("type")))
        if (match := _MARKER.search(text))
    ]
    if not found:
        return ""
    text, place = max(found, key=lambda pair: len(pair[0]))
    before = len(history_of(sent.route, sent.json or {}))
    lines = [_cut(_PATH.sub("", line)) for line in text.splitlines()]
    more = [f"… {len(lines) - _LINES} more lines"] if len(lines) > _LINES else []
    head = (
        f"{before} messages, {len(sent.body):,} bytes → {len(history)} messages, "
        f"{len(last.body):,} bytes; in {place}:"
    )
    return "\n".join([head, *lines[:_LINES], *more])


def _texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield every text in a message with where it stands."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, place)
    elif isinstance(value, dict):
        kind = value.get("type")
        for key, inner in value.items():
            step = kind if key in ("content", "text", "output") and kind else key
            named = place if step in ("content", "parts", "message") else f"{place} > {step}"
            yield from _texts(inner, named)


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1].rstrip() + "…"

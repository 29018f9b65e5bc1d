"""Rows of a conversation compressed in place: as many come back as were sent.

Some callers hold messages back, and put what comes back into the places of what they sent: they
cannot take a shorter list. So the results of elided steps are replaced where they stand. What is
elided is decided as always, by whole steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agora.compressor import Compressor
from agora.core.compression import Compression
from agora.core.elide import SkeletonMarkers
from agora.core.tokens import EstimatedTokens, TokenCounter

Row = Mapping[str, Any]
_TASK = {"role": "user", "content": "-"}
"""Stands for a task that the caller held back."""


@dataclass(frozen=True, slots=True)
class CompressedRows:
    """As many rows as were sent, and the account of them."""

    rows: list[Any]
    compression: Compression
    tokens_before: int
    tokens_after: int

    @property
    def changed(self) -> bool:
        """Whether anything was elided."""
        return self.tokens_after < self.tokens_before


def is_partial(messages: Sequence[Any]) -> bool:
    """Tell whether results came without the calls that they answer.

    >>> is_partial([{"role": "tool", "tool_call_id": "a", "content": "12 files"}])
    True
    """
    return any(_is_result(row) and not known for row, known in _paired(messages))


def compress_rows(
    compressor: Compressor, rows: Sequence[Any], *, model: str | None = None, tools: object = None
) -> CompressedRows:
    """Return the rows with the results of elided steps replaced, each in its place.

    Args:
        compressor: decides.
        rows: chat completions messages. Assistant messages may be missing: each result whose call
            is not there is taken for a step of its own.
        model: the model that the conversation goes to, for its prices.
        tools: the request's tools, where they are known.

    """
    chat, places = _completed(rows)
    compression = compressor.compress(chat, format="openai", model=model, tools=tools)
    counter: TokenCounter = compressor.counter or EstimatedTokens()
    before = after = compression.tokens_before
    new = list(rows)
    if compression.changed:
        markers = SkeletonMarkers()
        lines = {d.number: d.skeleton for d in compression.decisions if d.outcome == "elided"}
        for at, row in enumerate(rows):
            number = abs(compression.owners[places[at]])
            text = row.get("content") if number in lines and _is_result(row) else None
            if not isinstance(text, str):
                continue
            mark = markers.mask(number, lines[number])
            saved = counter.count(text) - counter.count(mark)
            if saved > 0:
                new[at] = {**row, "content": mark}
                after -= saved
    return CompressedRows(new, compression, before, after)


def _completed(rows: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """Return the rows as a whole conversation, and where each of them stands in it."""
    chat: list[Any] = []
    places: list[int] = []
    if not rows or not isinstance(rows[0], dict) or rows[0].get("role") in ("tool", "assistant"):
        chat.append(_TASK)
    for row, known in _paired(rows):
        if _is_result(row) and not known:
            name = row.get("name")
            function = {"name": name if isinstance(name, str) and name else "tool"}
            call = {"id": row.get("tool_call_id"), "type": "function"}
            call["function"] = {**function, "arguments": "{}"}
            chat.append({"role": "assistant", "content": None, "tool_calls": [call]})
        places.append(len(chat))
        chat.append(row)
    return chat, places


def _paired(rows: Sequence[Any]) -> list[tuple[Any, bool]]:
    """Return each row with whether, if it is a result, its call came before it."""
    called: set[object] = set()
    found = []
    for row in rows:
        own = isinstance(row, dict)
        found.append((row, own and _hashable(row.get("tool_call_id")) in called))
        for call in (row.get("tool_calls") or ()) if own else ():
            if isinstance(call, dict):
                called.add(_hashable(call.get("id")))
    return found


def _hashable(value: object) -> object:
    return value if isinstance(value, str) else None


def _is_result(row: Any) -> bool:
    return isinstance(row, dict) and row.get("role") == "tool"

"""Compress rows of a conversation in place: as many come back as were sent.

Some callers withhold messages and put the returned rows into the places of their own, so they
cannot take a shorter list. The results of shortened steps are replaced in place, and rows older
than the edit lose thinking that the model would refuse. The decision is by whole steps, as always.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agora.compressor import Compressor
from agora.core.binding import binds
from agora.core.compression import Compression, FallbackLevel, Reason
from agora.core.markers import tag_of
from agora.core.tokens import EstimatedTokens, TokenCounter
from agora.formats import format_named
from agora.formats.thinking import thinks, without_thinking

Row = Mapping[str, Any]
_CHAT = format_named("openai")
_TASK = {"role": "user", "content": "-"}
"""Placeholder for a task that the caller withheld."""


@dataclass(frozen=True, slots=True)
class CompressedRows:
    """The rows, as many as were sent, and their account."""

    rows: list[Any]
    compression: Compression
    tokens_before: int
    tokens_after: int
    thinking: int = 0
    """How many rows lost their thinking."""

    @property
    def changed(self) -> bool:
        """True if anything was shortened or removed."""
        return self.tokens_after < self.tokens_before or self.thinking > 0


def is_partial(messages: Sequence[Any]) -> bool:
    """Return True if some results came without their calls.

    >>> is_partial([{"role": "tool", "tool_call_id": "a", "content": "12 files"}])
    True
    """
    return any(_is_result(row) and not known for row, known in _paired(messages))


def compress_rows(
    compressor: Compressor, rows: Sequence[Any], *, model: str | None = None, tools: object = None
) -> CompressedRows:
    """Return the rows with the results of elided steps replaced, each in its place.

    Args:
        compressor: Decides on each step.
        rows: chat completions messages. Assistant messages may be missing: each result whose call
            is not there is taken for a step of its own. On a model that binds thinking to the
            prefix nothing is replaced then, since missing messages may think: it would be refused
            after a change, and only the caller could remove it.
        model: the model that the conversation goes to, for its prices and its thinking.
        tools: the request's tools, where they are known.

    """
    told = compressor.binds_thinking
    if (binds(model) if told is None else told) and is_partial(rows):
        return _left_alone(compressor, rows)
    chat, places = _completed(rows)
    compression = compressor.compress(chat, format="openai", model=model, tools=tools)
    counter: TokenCounter = compressor.counter or EstimatedTokens()
    before = after = compression.tokens_before
    new = list(rows)
    thinking = 0
    trajectory = compression.trajectory
    if compression.changed and trajectory is not None:
        thinking = _take_thinking(new, places, compression)
        tag, first = tag_of(trajectory.task, trajectory.steps[0]), 0
        elided = {d.number: d.form for d in compression.decisions if d.form}
        for at, row in enumerate(rows):
            number = abs(compression.owners[places[at]])
            form = elided.get(number) if _is_result(row) else None
            text = row.get("content")
            if form is None or not isinstance(text, str):
                continue
            mark = compressor.markers(tag=tag, first=first or number).note(number, form.result)
            saved = counter.count(text) - counter.count(mark)
            if saved > 0:
                new[at] = {**row, "content": mark}
                first = first or number
                after -= saved
    return CompressedRows(new, compression, before, after, thinking)


def _take_thinking(rows: list[Any], places: Sequence[int], compression: Compression) -> int:
    """Remove the thinking that the compressor removed, and all of the elided rows.

    Return how many rows lost their thinking.
    """
    if compression.trajectory is not None and not compression.trajectory.bound:
        return 0
    sent = dict(zip(compression.positions, compression.messages, strict=True))
    count = 0
    for at, row in enumerate(rows):
        if thinks(row) and not thinks(sent.get(places[at])):
            [rows[at]] = without_thinking([row]).messages
            count += 1
    return count


def _left_alone(compressor: Compressor, rows: Sequence[Any]) -> CompressedRows:
    counter: TokenCounter = compressor.counter or EstimatedTokens()
    tokens = counter.count(json.dumps(rows, ensure_ascii=False, default=str))
    compression = Compression(
        messages=rows,
        reason=Reason.NOTHING_TO_ELIDE,
        fallback_level=FallbackLevel.UNTOUCHED,
        tokens_before=tokens,
        tokens_after=tokens,
        format="openai",
        detail="assistant messages were held back, and the model binds its thinking to the prefix",
    )
    return CompressedRows(list(rows), compression, tokens, tokens)


def _completed(rows: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """Return the rows as a whole conversation, and the place of each row in it."""
    chat: list[Any] = []
    places: list[int] = []
    if not rows or not isinstance(rows[0], dict) or rows[0].get("role") in ("tool", "assistant"):
        chat.append(_TASK)
    for row, known in _paired(rows):
        if _is_result(row) and not known:
            name = row.get("name")
            name = name if isinstance(name, str) and name else "tool"
            [call_id] = _CHAT.result_ids(row) or [""]
            chat.append(_CHAT.step_messages(call_id, name, {}, "")[0])
        places.append(len(chat))
        chat.append(row)
    return chat, places


def _paired(rows: Sequence[Any]) -> list[tuple[Any, bool]]:
    """Pair each row with True if it is a result with its call before it."""
    calls: set[str] = set()
    pairs = []
    for row in rows:
        is_message = isinstance(row, dict)
        pairs.append((row, is_message and not calls.isdisjoint(_CHAT.result_ids(row))))
        calls.update(_CHAT.call_ids(row) if is_message else ())
    return pairs


def _is_result(row: Any) -> bool:
    return isinstance(row, dict) and row.get("role") == "tool"

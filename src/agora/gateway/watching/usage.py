"""What a provider says a call cost, read from its answer as it passes by.

The answer is never held back or changed. Its beginning and its end are looked at, since that is
where usage stands: in the last event of a stream (in Anthropic's first one the prompt's share), and
behind the content in a body. An answer that was compressed on its way is unpacked on the side.
"""

import json
import zlib
from collections import deque
from typing import Any

from agora.adapters.lifetimes import written_1h
from agora.gateway.watching.bill import Billed

_HEAD = 8 << 10
_TAIL = 32 << 10
_TRIM = 64 << 10
"""From here on what is before the end is let go of: not at every piece, most of them are small."""
_UNPACKED_MOST = 64 << 20
_MARK = b'"usage"'
_GEMINI_MARK = b'"usageMetadata"'
_decoder = json.JSONDecoder()


class UsageReader:
    """Takes in the pieces of one answer and says at the end what it cost.

    >>> reader = UsageReader()
    >>> reader.feed(b'{"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2, ')
    >>> reader.feed(b'"prompt_tokens_details": {"cached_tokens": 4}}}')
    >>> reader.billed()
    Billed(fresh=5, read=4, written=0, output=2, written_1h=None)
    """

    __slots__ = ("_head", "_inflate", "_lost", "_size", "_tail", "_unpacked")

    def __init__(self, encoding: bytes = b"") -> None:
        """Start with the answer's content encoding; of one that is not known nothing is read."""
        encoding = encoding.strip().lower()
        self._inflate = zlib.decompressobj(47) if encoding in (b"gzip", b"deflate") else None
        self._lost = encoding not in (b"", b"identity", b"gzip", b"deflate")
        self._head = b""
        self._tail: deque[bytes] = deque()
        self._size = 0
        self._unpacked = 0

    def feed(self, piece: bytes) -> None:
        """Take in the next piece."""
        if self._lost:
            return
        if self._inflate is not None:
            try:
                piece = self._inflate.decompress(piece)
            except zlib.error:
                self._lost = True
                return
            self._unpacked += len(piece)
            self._lost = self._unpacked > _UNPACKED_MOST
        self._tail.append(piece)
        self._size += len(piece)
        if self._size > _TRIM:
            self._trim()

    def _trim(self) -> None:
        while self._size - len(self._tail[0]) >= _TAIL:
            gone = self._tail.popleft()
            self._size -= len(gone)
            if len(self._head) < _HEAD:
                self._head += gone[: _HEAD - len(self._head)]

    def billed(self) -> Billed | None:
        """Return the tokens that were reported, None where nothing was."""
        if self._lost:
            return None
        tail = b"".join(self._tail)
        final = _usage(tail, last=True)
        if not self._head and tail.count(_mark(tail)) < 2:
            return _billed(final) if final else None
        first = _usage(self._head + tail[: _HEAD - len(self._head)], last=False)
        said = {**(first or {}), **{k: v for k, v in (final or {}).items() if v is not None}}
        return _billed(said) if said else None


def _usage(text: bytes, *, last: bool) -> dict[str, Any] | None:
    """Return the first or the last usage object in `text`.

    Within a JSON string a quotation mark is escaped, so that what a model
    says about usage is never taken for it.
    """
    mark = _mark(text)
    at = text.rfind(mark) if last else text.find(mark)
    while at >= 0:
        value = text[at + len(mark) :].lstrip(b" \t\r\n")
        if value.startswith(b":"):
            try:
                found, _ = _decoder.raw_decode(value[1:].decode("utf-8", "replace").lstrip())
            except (ValueError, RecursionError):
                found = None
            if isinstance(found, dict):
                return found
        at = text.rfind(mark, 0, at) if last else text.find(mark, at + 1)
    return None


def _mark(text: bytes) -> bytes:
    return _GEMINI_MARK if _GEMINI_MARK in text else _MARK


def _billed(said: dict[str, Any]) -> Billed:
    if "prompt_tokens" in said or "completion_tokens" in said:
        prompt, output = _count(said, "prompt_tokens"), _count(said, "completion_tokens")
        details = said.get("prompt_tokens_details")
        read = _count(details, "cached_tokens") or _count(said, "prompt_cache_hit_tokens")
        return _of_prompt(prompt, read, _count(details, "cache_write_tokens"), output)
    if "promptTokenCount" in said:
        # Gemini counts what it thought apart from what it said.
        output = _count(said, "candidatesTokenCount") + _count(said, "thoughtsTokenCount")
        read = _count(said, "cachedContentTokenCount")
        return _of_prompt(_count(said, "promptTokenCount"), read, 0, output)
    if "inputTokens" in said:
        return Billed(
            fresh=_count(said, "inputTokens"),
            read=_count(said, "cacheReadInputTokens"),
            written=_count(said, "cacheWriteInputTokens"),
            output=_count(said, "outputTokens"),
            written_1h=written_1h(said),
        )
    output = _count(said, "output_tokens")
    details = said.get("input_tokens_details")
    if isinstance(details, dict):
        read, written = _count(details, "cached_tokens"), _count(details, "cache_write_tokens")
        return _of_prompt(_count(said, "input_tokens"), read, written, output)
    return Billed(
        fresh=_count(said, "input_tokens"),
        read=_count(said, "cache_read_input_tokens"),
        written=_count(said, "cache_creation_input_tokens"),
        output=output,
        written_1h=written_1h(said),
    )


def _of_prompt(prompt: int, read: int, written: int, output: int) -> Billed:
    """Return the tokens where the prompt's count has all of them: read, written and fresh."""
    return Billed(fresh=max(0, prompt - read - written), read=read, written=written, output=output)


def _count(said: object, name: str) -> int:
    value = said.get(name) if isinstance(said, dict) else None
    return value if type(value) is int and value > 0 else 0

"""Usage read from an answer while it passes, without holding it back.

Only its beginning and its end are kept. That is where usage is: in the last event of a stream (for
Anthropic the prompt's part is in the first one), and behind the content of a body. An answer that
was compressed on its way is inflated on the side.
"""

import json
import re
import zlib
from collections import deque
from typing import Any

from agora.formats.usage import Usage, read_usage

_READABLE = ("gzip", "deflate", "identity")
"""Encodings of answers in which usage can be read."""
_HEAD = 8 << 10
_TAIL = 32 << 10
_TRIM = 64 << 10
"""The middle is dropped at this size and not at every piece, since most are small."""
_MAX_INFLATED = 64 << 20
_MARKS = (b'"usageMetadata"', b'"usage"')
_decoder = json.JSONDecoder()
_STRING = rb'\s*:\s*"((?:[^"\\]|\\.)*)"'
_ID = re.compile(rb'"(?:id|call_id|toolUseId)"' + _STRING)
_TEXT = re.compile(rb'"(text|content|delta)"' + _STRING)
_MAX_IDS, _MAX_TEXT = 64, 16 << 10


class UsageStream:
    """Takes the pieces of one answer and gives its usage at the end.

    >>> stream = UsageStream()
    >>> stream.feed(b'{"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2, ')
    >>> stream.feed(b'"prompt_tokens_details": {"cached_tokens": 4}}}')
    >>> stream.usage()
    Usage(uncached=5, read=4, written=0, output=2, written_1h=None, dollars=None, reasoning=0)
    """

    __slots__ = (
        "_head",
        "_ids",
        "_inflate",
        "_inflated",
        "_lost",
        "_size",
        "_tail",
        "_text_size",
        "_texts",
        "ended",
    )

    def __init__(self, encoding: str = "") -> None:
        """Start with the answer's content encoding; an unknown one is not read."""
        encoding = encoding.strip().lower()
        self._inflate = zlib.decompressobj(47) if encoding in ("gzip", "deflate") else None
        self._lost = encoding not in ("", "identity", "gzip", "deflate")
        self._head = b""
        self._tail: deque[bytes] = deque()
        self._size = self._inflated = 0
        self._ids: list[bytes] = []
        self._texts: dict[bytes, list[bytes]] = {}
        self._text_size = 0
        self.ended = False
        """True after the last event of a stream: a client may leave then."""

    def feed(self, piece: bytes) -> None:
        """Take the next piece."""
        if self._lost:
            return
        if self._inflate is not None:
            try:
                piece = self._inflate.decompress(piece)
            except zlib.error:
                self._lost = True
                return
            self._inflated += len(piece)
            self._lost = self._inflated > _MAX_INFLATED
        if not self.ended:
            # Inlined for speed: this runs for every event of every answer.
            self.ended = (
                b"data: [DONE]" in piece
                or b'"message_stop"' in piece
                or b'"response.completed"' in piece
                or b'"response.incomplete"' in piece
            )
        self._note_words(piece)
        self._tail.append(piece)
        self._size += len(piece)
        if self._size > _TRIM:
            self._trim()

    def usage(self) -> Usage | None:
        """Return the usage that was reported, or None."""
        if self._lost:
            return None
        tail = b"".join(self._tail)
        last = _find(tail, last=True)
        beginning = self._head + tail[: max(0, _HEAD - len(self._head))]
        first = _find(beginning, last=False)
        fields = {**(first or {}), **{k: v for k, v in (last or {}).items() if v is not None}}
        return read_usage(fields) if fields else None

    def words(self) -> list[str]:
        """Return words by which the answer is recognised in a later request: ids and texts."""
        texts = [b"".join(parts) for parts in self._texts.values()]
        texts += [max(parts, key=len) for parts in self._texts.values()]
        words = []
        for word in {*self._ids, *texts}:
            try:
                words.append(str(json.loads(b'"%b"' % word)))
            except ValueError:
                continue
        return words

    def _note_words(self, piece: bytes) -> None:
        if b'"id"' in piece or b'_id"' in piece or b'"toolUseId"' in piece:
            self._ids += _ID.findall(piece)[: _MAX_IDS - len(self._ids)]
        if self._text_size < _MAX_TEXT:
            for name, text in _TEXT.findall(piece):
                self._texts.setdefault(name, []).append(text)
                self._text_size += len(text)

    def _trim(self) -> None:
        while self._size - len(self._tail[0]) >= _TAIL:
            gone = self._tail.popleft()
            self._size -= len(gone)
            if len(self._head) < _HEAD:
                self._head += gone[: _HEAD - len(self._head)]


def readable_encodings(accepted: str) -> str:
    """Return an `accept-encoding` header without the encodings in which usage cannot be read.

    >>> readable_encodings("gzip, br;q=0.5"), readable_encodings("zstd")
    ('gzip', 'identity')
    """
    encodings = [one.strip() for one in accepted.split(",")]
    kept = [one for one in encodings if one.partition(";")[0].lower() in _READABLE]
    return ", ".join(kept) or "identity"


def _find(text: bytes, *, last: bool) -> dict[str, Any] | None:
    """Return the first or the last usage object in a text.

    A quotation mark within a JSON string is escaped, so a model's own text about usage is never
    mistaken for it.
    """
    mark = next((mark for mark in _MARKS if mark in text), None)
    if mark is None:
        return None
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

"""Messages by content: digests of their prefixes, and edits as they were written."""

import marshal
import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from agora.core.request import Request
from agora.formats.cache_ttl import MARKS, without_marks
from agora.formats.registry import find_format

_MARKS = frozenset({*MARKS})
_MARK_WORD = b"cache"
"""A part of each mark for a cache."""
_DIGEST_BYTES = 16
_MARSHAL = 2
"""The last version of the format in which equal values always have the same bytes."""
_BEGINNING = ("thinking", "output_config", "reasoning", "reasoning_effort", "tool_choice")
"""Fields of a body by which a provider's cache starts anew, besides model, system and tools."""
_NONCE = re.compile(rb"\bcch=[0-9a-f]+")
"""Changes at every call in the line that Claude Code puts before its system text; its provider
leaves that out of the comparison."""
_NONCE_LINE = b"x-anthropic-billing-header"
_TEXT_CHARACTERS = 4_000
_NOT_PLAIN = (ValueError, RecursionError)


class Rewrite(NamedTuple):
    """An edit as it was written: the caller's first messages, and the messages sent for them."""

    until: int
    """How many of the caller's messages it replaces."""
    pieces: tuple[tuple[int, Any], ...]
    """For each message that is sent its place among the caller's, and its new value; None where
    it is the caller's own."""
    key: bytes
    """A digest that identifies the edit, without the cache marks in its messages."""
    size: int
    """About how many bytes it takes."""

    def of(self, messages: Sequence[Any]) -> tuple[list[Any], tuple[int, ...]]:
        """Return the messages with this edit, and the place of each among the caller's."""
        new = [messages[at] if message is None else message for at, message in self.pieces]
        places = (*(at for at, _ in self.pieces), *range(self.until, len(messages)))
        return [*new, *messages[self.until :]], places

    def for_later(self) -> "Rewrite":
        """Return the edit for later calls, without this call's cache marks."""
        pieces = tuple((at, None if new is None else without_marks(new)) for at, new in self.pieces)
        return self._replace(pieces=pieces)


def rewrite_of(own: Sequence[Any], new: Sequence[Any], places: Sequence[int]) -> Rewrite | None:
    """Return the edit that makes `new` of a caller's own messages; None if nothing was changed.

    Messages that were not changed are the same objects in both.
    """
    tail = 0
    most = min(len(own), len(new))
    while tail < most and new[-1 - tail] is own[-1 - tail]:
        tail += 1
    if tail == len(own) == len(new):
        return None
    pieces = tuple(
        (at, None if message is own[at] else message)
        for message, at in zip(new[: len(new) - tail], places, strict=False)
    )
    chain = sha256(b"%d" % (len(own) - tail))
    size = 0
    for at, message in pieces:
        data = b"" if message is None else _bytes_of(without_marks(message))
        chain.update(b"\0%d " % at + data)
        size += 120 + len(data)
    return Rewrite(len(own) - tail, pieces, chain.digest()[:_DIGEST_BYTES], size)


def digests_of(messages: Sequence[Any], seed: str = "") -> list[bytes]:
    """Return a digest after each message, of it and all before it, that names a prompt's prefix.

    Cache marks are not part of it, since clients move them along. Neither is the spelling of
    a single text as a list of one block, which clients use for a message with a mark.

    Raises:
        ValueError: A message holds something that JSON has no word for.
    """
    chain = sha256(seed.encode("utf-8", "surrogatepass"))
    digests = []
    try:
        for message in messages:
            chain.update(_message_bytes(message))
            digests.append(chain.digest()[:_DIGEST_BYTES])
    except RecursionError as error:
        raise ValueError("a message is nested too deeply") from error
    return digests


def beginning_of(request: Request) -> int:
    """Return a digest of all that precedes the messages or decides how they are cached."""
    body = request.body if isinstance(request.body, dict) else {}
    more = [body.get(name) for name in _BEGINNING]
    parts = [request.model, request.system, request.tools, request.thinking, more]
    try:
        data = _bytes_of(parts)
    except _NOT_PLAIN:
        # Tools may be functions of the caller's program.
        return int.from_bytes(sha256(repr(parts).encode("utf-8", "replace")).digest()[:7]) or 1
    if _MARK_WORD in data:
        data = _bytes_of([_deeply_unmarked(part) for part in parts])
    if _NONCE_LINE in data:
        data = _NONCE.sub(b"", data)
    return int.from_bytes(sha256(data).digest()[:7]) or 1


def answer_marks(format: str, messages: Any) -> frozenset[bytes]:
    """Return marks of the first answer among messages: its calls, or else its text.

    `messages` may also be the body of a provider's answer, or a list of its words.
    """
    found = find_format(format)
    if found is None:
        return frozenset()
    if isinstance(messages, dict):
        messages = found.answer(messages) or [messages]
    ids: set[str] = set()
    texts: list[str] = []
    for message in messages if isinstance(messages, list | tuple) else ():
        if isinstance(message, str):
            ids.add(message)
            continue
        if not isinstance(message, dict) or not found.is_agent(message):
            break
        ids.update(found.call_ids(message))
        texts += texts_in(message)
    words = ids or {"".join(texts)}
    words = {word.strip()[:_TEXT_CHARACTERS] for word in words} - {""}
    return frozenset(sha256(word.encode("utf-8", "surrogatepass")).digest()[:8] for word in words)


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts in a message or in a part of one, in their order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from texts_in(part)
    elif isinstance(value, dict):
        for name in ("content", "parts", "text"):
            yield from texts_in(value.get(name))


def _message_bytes(message: Any) -> bytes:
    data = _bytes_of(message)
    if not isinstance(message, dict):
        return data
    content = message.get("content")
    if isinstance(content, str) and not isinstance(message.get("output"), list):
        # A plain message has marks beside its text or nowhere: the text need not be searched.
        may_be_marked = not _MARKS.isdisjoint(message)
    else:
        may_be_marked = _MARK_WORD in data
    if may_be_marked:
        message = without_marks(message)
        data, content = _bytes_of(message), message.get("content")
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        block = content[0]
        if block.keys() == {"type", "text"} and block["type"] == "text":
            return _bytes_of({**message, "content": block["text"]})
    return data


def _bytes_of(value: Any) -> bytes:
    try:
        return marshal.dumps(value, _MARSHAL)
    except ValueError:
        return marshal.dumps(_plain(value), _MARSHAL)


def _plain(value: Any) -> Any:
    """Return a value without subclasses of JSON's types, such as the texts of LangChain."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, dict):
        return {_plain(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value) if isinstance(value, int) else float(value)
    return value


def _deeply_unmarked(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_deeply_unmarked(item) for item in value]
    if isinstance(value, dict):
        return {name: _deeply_unmarked(v) for name, v in value.items() if name not in _MARKS}
    return value

"""A request body, read only as far as an edit needs; what is not edited keeps its bytes."""

import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from agora.formats.cache_ttl import MARKS, without_marks
from agora.formats.thinking import THINKING_WORDS, thinks, without_thinking
from agora.service.routes import Route

_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array = msgspec.json.Decoder(list[msgspec.Raw])
encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Raised for a body that is not JSON, is nested too deeply, or has no list of messages."""
_MARKS = frozenset(MARKS)
_MARK_WORDS = tuple(mark.encode() for mark in MARKS)


class _Named(msgspec.Struct):
    model: str = ""


_named = msgspec.json.Decoder(_Named)
_MODEL_FIRST = re.compile(rb'\s*\{\s*"model"\s*:\s*"([A-Za-z0-9._:/@-]{1,128})"')
"""Most clients write it first; to look through all of a long body takes a while."""


class Piece(NamedTuple):
    """One message as it is sent: which of the client's it is, and its new text if it has one."""

    position: int
    text: bytes | None = None


class Edit(NamedTuple):
    """A prefix of the client's messages and how it is written; what follows goes out as it is."""

    until: int
    """How many of the client's messages it replaces."""
    pieces: tuple[Piece, ...]
    key: bytes
    """A digest that tells it from other edits, whatever marks for a cache its texts carry."""

    def for_later(self) -> "Edit":
        """Return it as later calls continue it: the marks of this call would be stale there."""
        return self._replace(
            pieces=tuple(Piece(at, _unmarked_text(text)) for at, text in self.pieces)
        )


class Prompt(NamedTuple):
    """A body: its fields, and its messages one by one, as bytes."""

    body: bytes
    fields: dict[str, msgspec.Raw]
    field: str
    """The name of the field with the messages."""
    messages: list[msgspec.Raw]

    def written(self, edit: Edit | None, dead: int = 0) -> tuple[bytes, int]:
        """Return the body with an edit, and how many thinking blocks were taken out beside it.

        `dead` is how many of the client's first messages go without their thinking.
        """
        pieces: Iterable[Piece] = edit.pieces if edit else ()
        texts = [self._text(piece) for piece in pieces]
        positions = [piece.position for piece in pieces]
        until = edit.until if edit else 0
        texts += self.messages[until:]
        positions += range(until, len(self.messages))
        blocks = 0
        for at, position in enumerate(positions):
            if position >= dead:
                break
            texts[at], lost = _without_thinking(texts[at])
            blocks += lost
        if edit is None and not blocks:
            return self.body, 0
        array = msgspec.Raw(b"[%b]" % b",".join(texts))
        return encode({**self.fields, self.field: array}), blocks

    def _text(self, piece: Piece) -> bytes | msgspec.Raw:
        return self.messages[piece.position] if piece.text is None else piece.text


def read(body: bytes, route: Route) -> Prompt:
    """Return a body read.

    Raises:
        UNREADABLE: it is not a JSON object with a list of messages.
    """
    fields, field = _object.decode(body), route.fields.messages
    if field not in fields:
        raise msgspec.DecodeError(f"there is no field {field}")
    return Prompt(body, fields, field, _array.decode(fields[field]))


def model_in(body: bytes) -> str:
    """Return the model that a body names, or an empty text.

    >>> model_in(b'{"messages": [], "model": "gpt-5"}')
    'gpt-5'
    """
    if first := _MODEL_FIRST.match(body):
        return first[1].decode()
    try:
        return _named.decode(body).model
    except (*UNREADABLE, msgspec.ValidationError):
        return ""


def edit_of(own: Sequence[Any], new: Sequence[Any], positions: Sequence[int]) -> Edit | None:
    """Return the edit that makes `new` of a client's own messages; None if nothing was changed.

    Messages that were not changed are the same objects in both.
    """
    tail = 0
    most = min(len(own), len(new))
    while tail < most and new[-1 - tail] is own[-1 - tail]:
        tail += 1
    if tail == len(own) == len(new):
        return None
    pieces = tuple(
        Piece(at, None if message is own[at] else encode(message))
        for message, at in zip(new[: len(new) - tail], positions, strict=False)
    )
    until = len(own) - tail
    key = blake2b(b"%d" % until, digest_size=16)
    for at, text in pieces:
        key.update(b"\0%d " % at + (_unmarked_text(text) or b""))
    return Edit(until, pieces, key.digest())


def digests_of(owner: str, messages: Iterable[Any]) -> list[bytes]:
    """Return a digest after each message, of it and all before it, that names a prompt's prefix.

    Marks for a cache are no part of it, since clients move them along. Neither is the spelling of
    a single text as a list of one block, which clients use for a message with a mark.
    """
    chain = blake2b(owner.encode(), digest_size=16)
    digests = []
    for message in messages:
        chain.update(encode(_plain(message)))
        digests.append(chain.digest())
    return digests


def _unmarked_text(text: bytes | None) -> bytes | None:
    if text is None or not any(mark in text for mark in _MARK_WORDS):
        return text
    return encode(without_marks(decode(text)))


def _plain(message: Any) -> Any:
    if not isinstance(message, dict):
        return message
    content = message.get("content")
    if not isinstance(content, list) and "output" not in message and _MARKS.isdisjoint(message):
        return message
    message = without_marks(message)
    content = message.get("content")
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        block = content[0]
        if block.keys() == {"type", "text"} and block["type"] == "text":
            return {**message, "content": block["text"]}
    return message


def _without_thinking(text: bytes | msgspec.Raw) -> tuple[bytes | msgspec.Raw, int]:
    plain = bytes(text)
    if not any(word in plain for word in THINKING_WORDS):
        return text, 0
    message = decode(plain)
    if not thinks(message):
        return text, 0
    bare = without_thinking([message])
    return encode(bare.messages[0]), bare.blocks

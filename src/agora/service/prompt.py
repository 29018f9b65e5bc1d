"""Write a request body. Messages that an edit leaves alone keep their bytes."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from agora import Compression

_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array = msgspec.json.Decoder(list[msgspec.Raw])
encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Raised for a body that is not JSON, is nested too deeply, or has no list of messages."""


class _Named(msgspec.Struct):
    model: str = ""


_named = msgspec.json.Decoder(_Named)
_MODEL_FIRST = re.compile(rb'\s*\{\s*"model"\s*:\s*"([A-Za-z0-9._:/@-]{1,128})"')
"""Most clients write the model first; searching all of a long body takes a while."""


def written(body: bytes, field: str, own: Sequence[Any], compression: Compression) -> bytes:
    """Return a body with the messages of a compression in its `field`.

    `own` are the messages of the body; of these, the same objects keep their bytes.
    """
    if not compression.changed:
        return body
    fields = _object.decode(body)
    raw = _array.decode(fields[field])
    pairs = zip(compression.messages, compression.positions, strict=True)
    texts = [raw[at] if message is own[at] else encode(message) for message, at in pairs]
    return encode({**fields, field: msgspec.Raw(b"[%b]" % b",".join(texts))})


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

"""A JSON body as the client wrote it: where each value begins and ends, and edits between them.

Nothing is written again that was not edited. Numbers, white space, escapes and
the order of keys are the client's own.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from agora.errors import MissingExtraError

try:
    import msgspec
except ImportError as error:  # pragma: no cover - the extra is there when tests run
    raise MissingExtraError(__name__, "gateway") from error

Span = tuple[int, int]
_SPACE = b" \t\n\r"
_not_space = re.compile(rb"[^ \t\n\r]")
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array = msgspec.json.Decoder(list[msgspec.Raw])
_any = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode

Unreadable = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises when a text is not JSON, or nested beyond what the decoder takes."""


def decode(text: bytes | memoryview) -> Any:
    """Return the value of a JSON text.

    Raises:
        Unreadable: it is not JSON.
    """
    return _any.decode(text)


def encode(value: Any) -> bytes:
    """Return a value as JSON, without spaces."""
    return _encode(value)


def fields(text: bytes, start: int = 0, end: int | None = None) -> dict[str, Span] | None:
    """Return where the value of each field of a JSON object stands in `text`.

    The decoder says in one pass which bytes each value has; here only the
    commas, colons and names between them are read. None when there is any
    doubt: a field that stands there twice, an escape in a name, a text that is
    no object.

    >>> fields(b'{"model": "m", "n" : [1, 2] }')
    {'model': (10, 13), 'n': (21, 27)}
    >>> fields(b'{"n": 1, "n": 2}') is None
    True
    """
    end = len(text) if end is None else end
    at = _past_space(text, start, end)
    try:
        values = _object.decode(text if not start and end == len(text) else text[start:end])
    except Unreadable:
        return None
    found: dict[str, Span] = {}
    at += 1
    for name, raw in values.items():
        if found:
            at = _past_space(text, at, end)
            if text[at : at + 1] != b",":
                return None
            at += 1
        at = _past_space(text, at, end)
        quoted = b'"%b"' % name.encode()
        if not text.startswith(quoted, at):
            return None
        at = _past_space(text, at + len(quoted), end)
        if text[at : at + 1] != b":":
            return None
        at = _past_space(text, at + 1, end)
        value = memoryview(raw)
        if not text.startswith(value, at):
            return None
        found[name] = (at, at + len(value))
        at += len(value)
    at = _past_space(text, at, end)
    if text[at : at + 1] != b"}" or _past_space(text, at + 1, end) != end:
        return None
    return found


def elements(text: bytes, span: Span) -> list[Span] | None:
    """Return where each element of the JSON array at `span` stands; None if it is no array.

    >>> elements(b'[1, {"a": 2} ]', (0, 14))
    [(1, 2), (4, 12)]
    """
    start, end = span
    if text[start : start + 1] != b"[":
        return None
    try:
        values = _array.decode(memoryview(text)[start:end])
    except Unreadable:
        return None
    found: list[Span] = []
    at = start + 1
    for raw in values:
        at = _past_space(text, at, end)
        size = len(memoryview(raw))
        found.append((at, at + size))
        # After the element: white space, and a comma or the end of the array.
        at = _past_space(text, at + size, end) + 1
    return found


def _past_space(text: bytes, at: int, end: int) -> int:
    if at < end and text[at] not in _SPACE:
        return at
    found = _not_space.search(text, at, end)
    return found.start() if found else end


@dataclass(frozen=True, slots=True)
class Kept:
    """One message of the edited body: which of the client's it is, and its new text if it has."""

    position: int
    text: bytes | None = None


def splice(text: bytes, spans: Sequence[Span], kept: Sequence[Kept]) -> list[bytes]:
    """Return what stands from the first to the last element, with only the `kept` ones, in pieces.

    Neighbours that were not edited come as one slice, and each message takes
    along what stood before it. Join the pieces to get the text.

    >>> text = b'[1, 2,  3]'
    >>> b"".join(splice(text, [(1, 2), (4, 5), (8, 9)], [Kept(0), Kept(2, b"33")]))
    b'1,  33'
    """
    pieces: list[bytes] = []
    run_start = run_end = -1
    for place, keep in enumerate(kept):
        start, end = spans[keep.position]
        before = spans[keep.position - 1][1] if place else start
        if keep.text is None:
            if run_end == before and run_start >= 0:
                run_end = end
                continue
            if run_start >= 0:
                pieces.append(text[run_start:run_end])
            run_start, run_end = before, end
            continue
        if run_start >= 0:
            pieces.append(text[run_start:run_end])
            run_start = -1
        pieces += (text[before:start], keep.text)
        run_end = -1
    if run_start >= 0:
        pieces.append(text[run_start:run_end])
    return pieces


def rewrite(
    text: bytes, span: Span, old: Mapping[str, Any], new: Mapping[str, Any]
) -> bytes | None:
    """Return the JSON object at `span` with only those fields rewritten that changed in `new`.

    A field counts as the same when it is the same object. None when there is any doubt.

    >>> old = {"role": "tool", "n": 1.0, "content": "long"}
    >>> rewrite(b'{"role":"tool","n":1.0,"content":"long"}', (0, 40), old, {**old, "content": "-"})
    b'{"role":"tool","n":1.0,"content":"-"}'
    """
    changed = [name for name in new if name not in old or new[name] is not old[name]]
    if len(new) != len(old) or any(name not in old for name in changed):
        return None
    spans = fields(text, *span)
    if spans is None:
        return None
    pieces: list[bytes] = []
    at = span[0]
    for name, (start, end) in spans.items():
        if name in changed:
            pieces += (text[at:start], _encode(new[name]))
            at = end
    pieces.append(text[at : span[1]])
    return b"".join(pieces)


def insert(text: bytes, spans: Mapping[str, Span], edits: Iterable[tuple[str, bytes]]) -> bytes:
    """Return the body with the values of some of its fields replaced.

    >>> insert(b'{"a": 1, "b": 2}', {"a": (6, 7), "b": (14, 15)}, [("b", b"3")])
    b'{"a": 1, "b": 3}'
    """
    pieces: list[bytes] = []
    at = 0
    for (start, end), value in sorted((spans[name], value) for name, value in edits):
        pieces += (text[at:start], value)
        at = end
    pieces.append(text[at:])
    return b"".join(pieces)


_BRACKETS = bytes(set(range(256)) - set(b'[]{}"'))
_STEPS = bytes(1 if char in b"[{" else 255 for char in range(256))
"""One deeper at an opening bracket, and one up, as a signed byte, at a closing one."""
_SHALLOW = 8
"""Few bodies of clients are nested more deeply."""


def deeper_than(text: bytes, depth: int) -> bool:
    """Tell whether brackets outside of strings are nested more than `depth` deep.

    Works on any bytes, in linear time, and decodes nothing: what is too deep
    must be known before a decoder sees it.

    >>> deeper_than(b'{"a": [[["]]]"]]]}', 3), deeper_than(b'{"a": [[["]]]"]]]}', 4)
    (True, False)
    """
    if text.count(b"{") + text.count(b"[") <= depth:
        return False
    # Backslashes stand only in strings, where pairs of them come first.
    bare = text.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _BRACKETS)
    shape = b"".join(bare.split(b'"')[::2])
    if len(shape) - len(shape.lstrip(b"[{")) > depth:
        return True
    for _ in range(min(depth, _SHALLOW)):
        # Takes away the innermost pairs, and no pair that this makes innermost.
        less = shape.replace(b"{}", b"\0").replace(b"[]", b"\0").replace(b"\0", b"")
        if len(less) == len(shape):
            break
        shape, depth = less, depth - 1
    # What is left is counted one by one: taking away layer by layer takes time by the layer.
    return max(accumulate(memoryview(shape.translate(_STEPS)).cast("b")), default=0) > depth


def nested(value: Any, depth: int) -> bool:
    """Tell whether lists and objects are nested more than `depth` deep."""
    level = [value]
    for _ in range(depth):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return False
    return True


class _Model(msgspec.Struct):
    model: str | None = None


_model = msgspec.json.Decoder(_Model)


def model_of(text: bytes) -> str | None:
    """Return the model that a body names; None where it names none or is no JSON object.

    >>> model_of(b'{"messages": [], "model": "gpt-4o"}')
    'gpt-4o'
    """
    try:
        return _model.decode(text).model
    except (*Unreadable, msgspec.ValidationError):
        return None


_NAME = b'"model"'
_AT_THE_END = 16 << 10


def model_behind(text: bytes) -> str | None:
    """Return the model that a body names behind its messages, by a look at its end only.

    What follows the name closes exactly one object, so that the name stands
    in the outermost one: a tool's argument of that name is never taken for it.

    >>> model_behind(b'{"messages": [{"input": {"model": "no"}}], "model": "gpt-4o", "n": 1}')
    'gpt-4o'
    >>> model_behind(b'{"messages": [{"input": {"model": "no"}}], "n": 1}')
    """
    least = max(0, len(text) - _AT_THE_END)
    at = text.rfind(_NAME, least)
    if at <= least or text[at - 1] not in b", \t\n\r":
        return None
    return model_of(b"{" + text[at:])


_first_name = re.compile(rb'\s*\{\s*"model"\s*:\s*("[^"\\\x00-\x1f]{1,128}")')


def model_before(text: bytes) -> str | None:
    """Return the model if it is what a body begins with, by a look at its beginning only.

    >>> model_before(b'{"model": "gpt-4o", "messages": []}')
    'gpt-4o'
    """
    found = _first_name.match(text, 0, 512)
    try:
        return None if found is None else str(decode(found[1]))
    except Unreadable:
        return None

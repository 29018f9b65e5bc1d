"""Messages that are objects of an SDK: read as the JSON they stand for, handed back as they came.

No SDK is imported: an object is known by its `model_dump`, which is called as the SDKs do when they
send it, or by its `to_dict`.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from agora.core.compression import Compression
from agora.core.request import Request

_LEAVES = frozenset({str, int, float, bool, type(None)})
_LISTS = (list, tuple)
_DEPTH = 6
"""How far down objects are looked for: in the list, a message, its content, a block, the content of
a result, a block of that. Further down is what a tool was told or said."""


def plain(messages: Any) -> Any:
    """Return messages as dicts and lists: the argument itself where it holds no object.

    >>> class Answer:
    ...     def to_dict(self): return {"role": "assistant", "content": "done"}
    >>> plain([{"role": "user", "content": "Go."}, Answer()])
    [{'role': 'user', 'content': 'Go.'}, {'role': 'assistant', 'content': 'done'}]
    """
    return _plain(messages, _DEPTH) if _holds_object(messages, _DEPTH) else messages


def handed_back(compression: Compression, request: Request, own: Any) -> Compression:
    """Return the compression with the caller's own objects, where some were of an SDK."""
    if request.messages is own:
        return compression
    if not compression.changed:
        return replace(compression, messages=own)
    messages = restored(compression.messages, compression.positions, request.messages, own)
    return replace(compression, messages=messages)


def restored(
    written: Sequence[Any], positions: Sequence[int], read: Sequence[Any], own: Sequence[Any]
) -> list[Any]:
    """Return written messages with the caller's objects in them, wherever these stay as they were.

    One that was changed is made anew in its class. Where that cannot be, because the class is not
    pydantic's or does not take what was changed, it is the dict that was written: never less than
    what is to be sent.

    Args:
        written: made from `read`, what is unchanged in them being the very same dict.
        positions: where each of them stood among `read`.
        read: what `plain` made of `own`.
        own: the caller's messages.

    """
    return [_own(own[at], read[at], new) for at, new in zip(positions, written, strict=True)]


def _holds_object(value: Any, depth: int) -> bool:
    # One call for all values on a level: every request comes by here, and hardly one has objects.
    level = [value]
    while depth and level:
        below: list[Any] = []
        for one in level:
            kind = type(one)
            if kind is dict or isinstance(one, dict):
                below += one.values()
            elif kind is list or isinstance(one, _LISTS):
                below += one
            elif _dumped(one) is not one:
                return True
        level = [one for one in below if type(one) not in _LEAVES]
        depth -= 1
    return False


def _plain(value: Any, depth: int) -> Any:
    if type(value) in _LEAVES or not depth:
        return value
    if isinstance(value, dict):
        read = {key: _plain(one, depth - 1) for key, one in value.items()}
        return read if any(read[key] is not one for key, one in value.items()) else value
    if isinstance(value, _LISTS):
        items = [_plain(one, depth - 1) for one in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return _dumped(value)


def _dumped(value: Any) -> Any:
    """Return an object as its SDK would send it; the object itself if it cannot be read."""
    with suppress(Exception):
        read: Any = None
        if hasattr(value, "model_dump"):
            read = value.model_dump(
                mode="json",
                by_alias=True,
                exclude_unset=True,
                exclude=getattr(value, "__api_exclude__", None),
                warnings=False,
            )
        elif hasattr(value, "to_dict"):
            read = value.to_dict()
        if isinstance(read, dict):
            return read
    return value


def _own(own: Any, read: Any, new: Any) -> Any:
    if new is read:
        return own
    if read is own:
        return new
    if isinstance(own, dict):
        return {
            key: _own(own[key], read[key], one) if key in own else one for key, one in new.items()
        }
    if isinstance(own, _LISTS):
        return [_item(own, read, one) for one in new]
    return _of_class(type(own), new)


def _item(own: Sequence[Any], read: Sequence[Any], new: Any) -> Any:
    """Return what stands for one item of a list from which others may have been removed."""
    for mine, one in zip(own, read, strict=True):
        if new is one or _grew(one, new):
            return _own(mine, one, new)
    return new


def _grew(old: Any, new: Any) -> bool:
    """Tell whether an object has all that another has: a block may have got a breakpoint."""
    return isinstance(old, dict) and isinstance(new, dict) and old.items() <= new.items()


def _of_class(kind: Any, new: Any) -> Any:
    with suppress(Exception):
        made = kind.model_validate(new)
        if _dumped(made) == new:
            return made
    return new

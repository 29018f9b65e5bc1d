"""Messages that are objects of an SDK: read as JSON, and returned as the caller's own objects.

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
a result, a block of that. Below that are a tool's arguments and results."""


def to_dicts(messages: Any) -> Any:
    """Return messages as dicts and lists: the argument itself if it holds no object.

    >>> class Answer:
    ...     def to_dict(self): return {"role": "assistant", "content": "done"}
    >>> to_dicts([{"role": "user", "content": "Go."}, Answer()])
    [{'role': 'user', 'content': 'Go.'}, {'role': 'assistant', 'content': 'done'}]
    """
    return _to_dicts(messages, _DEPTH) if _holds_object(messages, _DEPTH) else messages


def with_sdk_objects(compression: Compression, request: Request, messages: Any) -> Compression:
    """Return the compression with the caller's own objects, if some of `messages` are an SDK's."""
    if request.messages is messages:
        return compression
    if not compression.changed:
        return replace(compression, messages=messages)
    objects = to_sdk_objects(
        compression.messages, compression.positions, request.messages, messages
    )
    return replace(compression, messages=objects)


def to_sdk_objects(
    written: Sequence[Any],
    positions: Sequence[int],
    dicts: Sequence[Any],
    messages: Sequence[Any],
) -> list[Any]:
    """Return written messages with the caller's objects wherever these stay as they were.

    A changed object is made anew in its class. If that fails, because the class is not pydantic's
    or refuses the change, the written dict stays.

    Args:
        written: Made from `dicts`; an unchanged value is the very same dict.
        positions: The place of each of them among `dicts`.
        dicts: The result of `to_dicts(messages)`.
        messages: The caller's messages.
    """
    return [_own(messages[at], dicts[at], new) for at, new in zip(positions, written, strict=True)]


def _holds_object(value: Any, depth: int) -> bool:
    # Level by level: every request passes here, and few have objects.
    level = [value]
    while depth and level:
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is dict or isinstance(item, dict):
                below += item.values()
            elif kind is list or isinstance(item, _LISTS):
                below += item
            elif _dumped(item) is not item:
                return True
        level = [item for item in below if type(item) not in _LEAVES]
        depth -= 1
    return False


def _to_dicts(value: Any, depth: int) -> Any:
    if type(value) in _LEAVES or not depth:
        return value
    if isinstance(value, dict):
        fields = {key: _to_dicts(item, depth - 1) for key, item in value.items()}
        return fields if any(fields[key] is not item for key, item in value.items()) else value
    if isinstance(value, _LISTS):
        items = [_to_dicts(item, depth - 1) for item in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return _dumped(value)


def _dumped(value: Any) -> Any:
    """Return an object as its SDK would send it; the object itself if it cannot be read."""
    with suppress(Exception):
        fields: Any = None
        if hasattr(value, "model_dump"):
            fields = value.model_dump(
                mode="json",
                by_alias=True,
                exclude_unset=True,
                exclude=getattr(value, "__api_exclude__", None),
                warnings=False,
            )
        elif hasattr(value, "to_dict"):
            fields = value.to_dict()
        if isinstance(fields, dict):
            # Some classes have their role as a default, which then counts as unset.
            role = getattr(value, "role", None)
            return {"role": role, **fields} if isinstance(role, str) else fields
    return value


def _own(original: Any, read: Any, new: Any) -> Any:
    if new is read:
        return original
    if read is original:
        return new
    if isinstance(original, dict):
        return {
            key: _own(original[key], read[key], item) if key in original else item
            for key, item in new.items()
        }
    if isinstance(original, _LISTS):
        return [_item(original, read, item) for item in new]
    return _of_class(type(original), new)


def _item(originals: Sequence[Any], read: Sequence[Any], new: Any) -> Any:
    """Return the object for one item of a list from which others may have been removed."""
    for original, item in zip(originals, read, strict=True):
        if new is item or _has_grown(item, new):
            return _own(original, item, new)
    return new


def _has_grown(old: Any, new: Any) -> bool:
    """Return True if a dict has all fields of another: a block may have got a breakpoint."""
    return isinstance(old, dict) and isinstance(new, dict) and old.items() <= new.items()


def _of_class(kind: Any, new: Any) -> Any:
    with suppress(Exception):
        made = kind.model_validate(new)
        if _dumped(made) == new:
            return made
    return new

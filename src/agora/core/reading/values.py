"""The values of a result that is data: JSON, or what Python prints."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from agora.core.reading.literals import Number, literals

_MOST_JSON = 400_000
_NESTED = (dict, list)
_DECODER = json.JSONDecoder(parse_float=Number, parse_int=Number)


class Values(NamedTuple):
    """The values of a text, numbers as they are written."""

    values: Sequence[Any] = ()
    whole: bool = False
    """Whether they are all of it, but for text behind JSON."""
    rest: str = ""
    """That text."""


NO_VALUES = Values()


def values_in(text: str) -> Values:
    """Return the values that a text is made of; none of one that is no data.

    >>> values_in('{"id": 7}')
    Values(values=[{'id': '7'}], whole=True, rest='')
    """
    opening = text.lstrip()[:1]
    if opening in ("{", "[") and len(text) <= _MOST_JSON:
        found, end = _json_values(text)
        if found or end == len(text):
            return Values(found, whole=True, rest=text[end:])
    printed = literals(text) if opening in ("{", "[", "(") else None
    if printed is None:
        return NO_VALUES
    # One value for each line: the rows of a table.
    values = printed.values if len(printed.values) == 1 else [list(printed.values)]
    return Values(values, whole=printed.whole)


def _json_values(text: str) -> tuple[list[Any], int]:
    """Return the JSON values that a text begins with, and where they end."""
    at = 0
    values: list[Any] = []
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text):
            return values, at
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return values, at
        if not isinstance(value, _NESTED):
            return values, at
        values.append(value)
        at = end

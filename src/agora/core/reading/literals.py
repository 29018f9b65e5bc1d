"""Read values as Python prints them: rows of a database, dictionaries, lists of names."""

import re
from typing import Any, NamedTuple

from agora.core.reading import READ_CHARACTERS

_MOST_DEPTH = 12
_OPENS = re.compile(
    r"""\s*+[\[({](?:\s{0,40}[\[({]){0,3}\s{0,40}"""
    r"""(?:[bBuU]?['"]|-?[0-9]|(?:None|True|False)\b|\w{1,30}(?:\.\w{1,30})?\()"""
)
"""How such a text begins: brackets, and in them at once a value. To see that it does not takes no
time, and most texts do not."""
# A group is never repeated possessively: see names.py.
_PLAIN = r"(?:[bBuU]?'[^'\\\n]*+'|[-+]?[0-9][0-9.eE+-]{0,40}+(?![\w.])|(?:None|True|False)\b)"
_PLAIN_ITEM = re.compile(_PLAIN)
_PIECE = re.compile(
    rf"""\s*+(?:(?P<row>[\[(]\s*+(?:{_PLAIN}\s*+,\s*+)*(?:{_PLAIN})?\s*+[\])])"""
    r"""|(?P<open>[\[({])|(?P<close>[\])}])|(?P<comma>,)|(?P<colon>:)"""
    r"""|[bBuU]?'(?P<single>[^'\\\n]*+(?:\\.[^'\\\n]*+)*)'"""
    r"""|[bBuU]?"(?P<double>[^"\\\n]*+(?:\\.[^"\\\n]*+)*)\""""
    r"""|(?P<number>[-+]?[0-9][0-9.eE+-]{0,40}+)(?![\w.])"""
    r"""|(?P<truth>True|False)\b|(?P<none>None)\b"""
    r"""|(?P<call>[A-Za-z_]\w{0,40}(?:\.\w{1,40})?)\()"""
)
_BRACKETS = ("[", "(", "{")
_CLOSED_BY = {"[": "]", "{": "}"}


class Number(str):
    """A number as it was written."""

    __slots__ = ()


class Truth(Number):
    """`True` or `False` as it was written."""

    __slots__ = ()


class Literals(NamedTuple):
    """The values of a text: lists, dictionaries, and strings and numbers as they were written."""

    values: tuple[Any, ...]
    whole: bool
    """Whether they are all of the text: a long output is cut off somewhere."""


class _Frame:
    """A bracket that is open, with what stands in it so far."""

    __slots__ = ("bracket", "items", "key", "keyed", "wants_value")

    def __init__(self, bracket: str) -> None:
        self.bracket = bracket
        self.items: list[Any] = []
        self.key: Any = None
        self.keyed: dict[str, Any] | None = None
        self.wants_value = True

    def add(self, value: Any) -> None:
        """Take in a value."""
        if self.key is None:
            self.items.append(value)
        else:
            self.keyed = self.keyed or {}
            self.keyed[self.key] = value
            self.key = None
        self.wants_value = False

    def separate(self, mark: str) -> bool:
        """Take in a comma or a colon; False where it cannot stand."""
        if self.wants_value or self.key is not None:
            return False
        if mark == ":":
            if self.bracket != "{" or not self.items or not isinstance(self.items[-1], str):
                return False
            self.key = self.items.pop()
        self.wants_value = True
        return True

    def value(self) -> Any:
        """Return what the brackets hold; of a call such as `UUID('5f2b')` what it was given."""
        if self.bracket in _BRACKETS:
            return self.items if self.keyed is None else self.keyed
        only = self.items[0] if len(self.items) == 1 else None
        return Number(only) if self.bracket == "Decimal" and isinstance(only, str) else only


def literals(text: str) -> Literals | None:
    """Return the values that a text is made of, or None if it is not such a text.

    A tuple and a set are lists here. A string with an escape in it is None, so that every string
    stands in the text as it is. Of a text that is cut off the values are what was complete, where
    that is at least two of a list. Nothing is evaluated; time is linear in what is read.

    >>> literals("[('car_makers',), ('car_names', 1)]")
    Literals(values=([['car_makers'], ['car_names', '1']],), whole=True)
    >>> literals("[see the list]") is None
    True
    """
    if not _OPENS.match(text):
        return None
    end = min(len(text), READ_CHARACTERS)
    values: list[Any] = []
    stack: list[_Frame] = []
    at = 0
    while piece := _PIECE.match(text, at, end):
        if not _take(piece, stack, values):
            break
        at = piece.end()
    if not stack and values and not text[at:].strip():
        return Literals(tuple(values), whole=True)
    if not values and stack and stack[0].bracket != "{":
        # One list, which is all of the text, is cut off: its items are the values.
        values = stack[0].items
        return Literals((values,), whole=False) if len(values) > 1 else None
    return Literals(tuple(values), whole=False) if len(values) > 1 else None


def _take(piece: re.Match[str], stack: list[_Frame], values: list[Any]) -> bool:
    """Take in a piece; False where it cannot stand."""
    kind = str(piece.lastgroup)
    found = piece[kind]
    if kind == "row" and found[-1] != _CLOSED_BY.get(found[0], ")"):
        return False
    if not stack:
        if kind == "row":
            values.append(_row(found))
        elif kind == "open":
            stack.append(_Frame(found))
        return kind in ("row", "open")
    frame = stack[-1]
    if kind == "row" and frame.wants_value:
        frame.add(_row(found))
        return True
    if kind in ("open", "call"):
        if frame.wants_value and len(stack) < _MOST_DEPTH:
            stack.append(_Frame(found))
            return True
        return False
    if kind == "close":
        if _CLOSED_BY.get(frame.bracket, ")") != found or frame.key is not None:
            return False
        stack.pop()
        if stack:
            stack[-1].add(frame.value())
        else:
            values.append(frame.value())
        return True
    if kind in ("comma", "colon"):
        return frame.separate(found)
    if not frame.wants_value:
        return False
    frame.add(_scalar(kind, found))
    return True


def _row(text: str) -> list[Any]:
    """Return what stands in brackets that hold nothing but plain values: most rows do."""
    return [_plain(item) for item in _PLAIN_ITEM.findall(text)]


def _plain(item: str) -> Any:
    if item[-1] == "'":
        return item[item.index("'") + 1 : -1]
    if item == "None":
        return None
    return Truth(item) if item in ("True", "False") else Number(item)


def _scalar(kind: str, found: str) -> Any:
    if kind == "number":
        return Number(found)
    if kind == "truth":
        return Truth(found)
    return None if kind == "none" or "\\" in found else found

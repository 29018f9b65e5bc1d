"""What a pure function said of a text, kept for a while in bounded memory."""

from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")

_ENTRY_CHARACTERS = 200
"""What an entry weighs beside its text, so that many short texts are not taken for nothing."""


class Memo(Generic[Result]):
    """A function of a text that remembers what it said, for so many characters of text.

    A trajectory comes back with one step more, so the same texts are read again
    and again. `functools.lru_cache` bounds how many are kept and not how large
    they are, and an observation may have megabytes. When the room is used up all
    is forgotten: that costs a second look now and then, and needs no lock.

    >>> upper = Memo(str.upper, 1_000)
    >>> upper("key 7")
    'KEY 7'
    """

    __slots__ = ("_compute", "_kept", "_most", "_used")

    def __init__(self, compute: Callable[[str], Result], most_characters: int) -> None:
        self._compute = compute
        self._most = most_characters
        self._kept: dict[str, Result] = {}
        self._used = 0

    def __call__(self, text: str) -> Result:
        """Return what the function says of `text`."""
        try:
            return self._kept[text]
        except KeyError:
            pass
        result = self._compute(text)
        weight = len(text) + _ENTRY_CHARACTERS
        if weight > self._most:
            return result
        if self._used + weight > self._most:
            self._kept = {}
            self._used = 0
        self._used += weight
        self._kept[text] = result
        return result

"""Reads a customer's instruction."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_LIMIT = re.compile(
    r",?(?: and)? price (?:lower|less) than \$?([0-9]{1,7}(?:\.[0-9]{1,4})?)(?: dollars)?"
)
_LONGEST_NAME = 32
_OPTION_NAME = re.compile(r"[a-z][a-z ]{0,24}")
_WORD = re.compile(r"[a-z0-9]+(?:[.'][a-z0-9]+)*")
_EMPTY = frozenset(
    "a an and are as at be but by can find for from has have i if im in into is it its looking me"
    " my need no of on or our please show so some such that the their then there these they this"
    " to want was we which will with would you your".split()
)
_ENDINGS = ("ing", "ies", "ed", "es", "ly", "s", "y", "e")
_SHORTEST_STEM = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The parts of an instruction."""

    kind: tuple[str, ...]
    """Stems of the words for the kind of product."""
    attributes: tuple[str, ...]
    """Each as its stems with a space between them."""
    options: tuple[str, ...]
    """Values to choose, as written."""
    limit: float | None
    query: str
    """The words worth searching for."""


def stems(text: str) -> tuple[str, ...]:
    """Return the stems of the meaningful words.

    >>> stems("Easy to carry bags")
    ('eas', 'carr', 'bag')
    """
    return tuple(_stem(word) for word in _WORD.findall(text.lower()) if word not in _EMPTY)


@lru_cache(maxsize=8192)
def _stem(word: str) -> str:
    word = word.removesuffix("'s")
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word[: -len(ending)]
    return word


@lru_cache(maxsize=64)
def read_wish(instruction: str) -> Wish:
    """Return the parts of an instruction; all words of any other text are its kind.

    >>> wish = read_wish("Find me light weight hand bags with gold zip for city trips"
    ...     " with color: red, and size: 9, and price lower than 40.00 dollars")
    >>> wish.attributes, wish.options, wish.limit
    (('light weight', 'gold zip', 'cit trip'), ('red', '9'), 40.0)
    """
    text = " ".join(instruction.split())
    limit = _LIMIT.search(text)
    if limit is not None:
        text = text[: limit.start()] + text[limit.end() :]
    head, options = _options(text)
    base, attributes = _attributes(head)
    return Wish(
        kind=tuple(dict.fromkeys(stems(base))),
        attributes=tuple(dict.fromkeys(attributes)),
        options=options,
        limit=None if limit is None else float(limit[1]),
        query=" ".join([head.removeprefix("Find me "), *options]),
    )


def _options(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the text before the options, and their values."""
    places: list[tuple[int, int]] = []
    at = text.find(": ")
    while at >= 0:
        reach = max(0, at - _LONGEST_NAME)
        start, name = max((text.rfind(joint, reach, at), joint) for joint in (" with ", ", and "))
        if start >= 0 and _OPTION_NAME.fullmatch(text, start + len(name), at):
            places.append((start, at + 2))
        at = text.find(": ", at + 2)
    if not places:
        return text, ()
    ends = [start for start, _ in places[1:]] + [len(text)]
    values = (text[begin:end].strip() for (_, begin), end in zip(places, ends, strict=True))
    return text[: places[0][0]], tuple(value for value in values if value)


def _attributes(head: str) -> tuple[str, list[str]]:
    """Return the words for the kind of product, and the attributes around them."""
    pieces = head.removeprefix("Find me ").replace(" for ", " with ").split(" with ")
    *before, base = pieces[0].split(", ")
    found = [*before, *_leading(base), *(one for piece in pieces[1:] for one in piece.split(", "))]
    return base, [" ".join(stems(one)) for one in found if stems(one)]


def _leading(base: str) -> Iterator[str]:
    """Yield the two words before the kind if they may be an attribute."""
    words = base.split()
    if len(words) > 2 and "&" not in words[:2] and not words[0].endswith("'s"):
        yield " ".join(words[:2])

"""Names and words as features count them: which there are, and how names are built."""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from string import ascii_lowercase, ascii_uppercase, digits
from sys import intern

from agora.core.reading import READ_CHARACTERS
from agora.core.reading.names import first_identifiers, listed, weight
from agora.core.reading.vocabulary import word_list

_LEAST_WEIGHT = 0.5
"""Plain words and names of people are counted too often to be worth their time (lab/notebook)."""
_LONGEST_WORD = 40
_ANY_WORD = re.compile(rf"\w{{3,{_LONGEST_WORD}}}")
_MOST_SHAPE = 40
_SIGNS = str.maketrans(digits + ascii_lowercase + ascii_uppercase, "0" * 10 + "a" * 26 + "A" * 26)
_TWICE = (("00", "0"), ("aa", "a"), ("AA", "A"))
_APART = str.maketrans(
    {sign: " " for sign in map(chr, range(128)) if not (sign.isalnum() or sign == "_")}
)
"""What parts words in ASCII."""


def names_of(text: str, most: int) -> tuple[str, ...]:
    """Return the first names of a text that are counted, in order of first appearance."""
    return _counted(listed(text[:READ_CHARACTERS]), most)


def first_names(text: str, most: int) -> tuple[str, ...]:
    """Return the same, for whoever remembers them: the rest of the text is not read."""
    return _counted(first_identifiers(text[:READ_CHARACTERS]), most)


def _counted(names: Iterable[str], most: int) -> tuple[str, ...]:
    return tuple(islice((name for name in names if weight(name) >= _LEAST_WEIGHT), most))


def kind_of_name(name: str) -> int:
    """Return whether a name is a code (0), a number or symbol (1) or a plain name (2)."""
    weighs = weight(name)
    return 0 if weighs == 1 else 1 if weighs >= 0.6 else 2


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text, in lower case, each once and in no order.

    They are kept with every step that is remembered: a set of them would take six times as much.
    """
    text = text[:READ_CHARACTERS]
    words: set[str] = set()
    if not text.isascii():
        # Line by line: one word of another script must not make all the others slow.
        lines = text.split("\n")
        text = "\n".join([line for line in lines if line.isascii()])
        for line in lines:
            if not line.isascii():
                words.update(_ANY_WORD.findall(line.lower()))
    text = text.lower()
    found = set(text.translate(_APART).split())
    if max(map(len, found), default=0) > _LONGEST_WORD:
        found = set(_ANY_WORD.findall(text))
    words.update([intern(word) for word in found if len(word) > 2])
    return tuple(words)


def shape(name: str) -> str:
    """Return how a name is built: runs of digits, small and capital letters, one sign each.

    >>> shape("HAT136"), shape("credit_card_8003957"), shape("2024-05-20")
    ('A0', 'a_a_0', '0-0-0')
    """
    return _runs(name[:_MOST_SHAPE].translate(_SIGNS))


# By signs and not by names: every id is new, but most are built like one before.
@lru_cache(maxsize=8192)
def _runs(signs: str) -> str:
    for twice, once in _TWICE:
        while twice in signs:
            signs = signs.replace(twice, once)
    return signs


_ERRORS = word_list("outcome", "errors")
_ERROR_CHARACTERS = 300


def tells_an_error(observation: str) -> int:
    """Return 1 if an observation begins like an error, otherwise 0: a feature of worth."""
    beginning = observation[:_ERROR_CHARACTERS].lower()
    return int(any(map(beginning.__contains__, _ERRORS)))

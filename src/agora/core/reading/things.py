"""The things that a plain text shows, and where in it they stand."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from agora.core.memo import Memo
from agora.core.reading import READ_OF_AN_ACTION
from agora.core.reading.names import MAX_NAME_WORDS, builds_sentences, too_common
from agora.core.reading.records import is_prose
from agora.core.reading.sentences import affirmed
from agora.core.reading.vocabulary import word_set

_MOST_THINGS = 240
_MOST_PLACES = 4
"""How many places of one thing in one text are told apart."""
_LEAST_CHARACTERS = 3
_MOST_CHARACTERS = 40
_MARK = re.compile(r"[,;:()\[\]|\t]|\.(?=[\s.]|$)")
"""Parts the things in a line."""
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
"""No numbers: `drawer 6` is a name that is told wherever it is new."""
_SAID = re.compile(r"[A-Za-z][A-Za-z'-]*|[^\s\w'-]+|\S")
_ARE = word_set("mentions", "are")
"""What follows these is what a thing is like, and no thing."""


class Shown(NamedTuple):
    """A thing in a text, and where it stands."""

    name: str
    under: str
    """What it is in, on or below, as its row says; nothing where the row begins with it."""
    opening: str
    """The first thing of the text, which is mostly what the text is about."""


def things_in(text: str) -> Mapping[str, tuple[Shown, ...]]:
    """Return all that a text could be said to show, by name in lower case; nothing of data."""
    found: dict[str, tuple[Shown, ...]] = {}
    if not is_prose(text):
        return found
    opening = ""
    for line in affirmed(text[:READ_OF_AN_ACTION]).splitlines():
        for name, under in _row(line):
            opening = opening or name
            one = Shown(name, under, opening)
            before = found.get(name.lower(), ())
            if len(before) < _MOST_PLACES and one not in before:
                found[name.lower()] = (*before, one)
        if len(found) >= _MOST_THINGS:
            break
    return found


def _row(line: str) -> Iterator[tuple[str, str]]:
    """Yield the things in a line with what each is under.

    >>> list(_row("a counter. On the counter is: a bowl (containing an apple), a cup."))
    [('counter', ''), ('bowl', 'counter'), ('apple', 'bowl'), ('cup', 'counter')]
    """
    under = ""
    outer: list[str] = []
    start = 0
    for mark in (*_MARK.finditer(line), None):
        name = _name(line[start : mark.start() if mark else len(line)])
        start = mark.end() if mark else start
        by = mark[0] if mark else ""
        if by == ":":
            # What a colon follows is a heading.
            under = name or under
        if name and name != under:
            yield name, under
        if by in ("[", "]"):
            # What stands beside brackets has no part in what is between them.
            under = ""
        elif by == "(":
            outer.append(under)
            under = name or under
        elif by == ")" and outer:
            under = outer.pop()


def _name(text: str) -> str:
    """Return the thing that a part of a sentence names, its last words, or nothing.

    >>> _name("a metal pot"), _name("In the cupboard is"), _name("which is turned off")
    ('metal pot', 'cupboard', '')
    """
    words = text.split()
    while words and builds_sentences(words[-1]):
        words.pop()
    first = next((at for at in range(len(words), 0, -1) if builds_sentences(words[at - 1])), 0)
    if first and words[first - 1].lower() in _ARE:
        return ""
    name = " ".join(words[first:])
    if not _LEAST_CHARACTERS <= len(name) <= _MOST_CHARACTERS or name not in text:
        return ""
    plain = len(words) - first <= MAX_NAME_WORDS and all(map(_WORD.fullmatch, words[first:]))
    return name if plain else ""


def _phrases(text: str) -> frozenset[str]:
    """Return every run of a few words in a text that could be the name of a thing.

    >>> sorted(_phrases("Put the metal pot on the table."))
    ['metal', 'metal pot', 'pot', 'table']
    """
    found: set[str] = set()
    run: list[str] = []
    for word in (*_SAID.findall(text[:READ_OF_AN_ACTION].lower()), "."):
        if _WORD.fullmatch(word) and not builds_sentences(word):
            run.append(word)
            continue
        for first in range(len(run)):
            last = min(len(run), first + MAX_NAME_WORDS)
            found.update(" ".join(run[first:end]) for end in range(first + 1, last + 1))
        run.clear()
    return frozenset(name for name in found if _telling(name))


phrases = Memo(_phrases, 1_000_000, name="phrases")
"""Every run of a few words in a text that could be the name of a thing, remembered for a while."""


def _telling(name: str) -> bool:
    return len(name) >= _LEAST_CHARACTERS and not all(map(too_common, name.split()))

"""What a plain text shows of the things that user and agent speak of, and where it shows them.

A text without keys and codes, such as the description of a room or a page, names things in common
words, and which of them matter cannot be told from the words alone. But what the user said and what
the agent did next can be looked for in it. Nothing that only the text says gets into a line this
way, except the heading that a thing stands under.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from agora.core.brought import Fact, is_prose
from agora.core.identifiers import MAX_NAME_WORDS, builds_sentences, too_common
from agora.core.memo import Memo
from agora.core.trajectory import Step
from agora.core.uses import action_text

_READ_CHARACTERS = 8_192
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
_ARE = frozenset({"is", "are", "was", "were", "be", "been"})
"""What follows these is what a thing is like, and no thing."""
_FEW, _PART = 3, 1 / 3
"""A thing that more texts show than these few, and than this part of them, tells nothing."""
_SPOKEN = 0.6
"""What a thing weighs that was spoken of."""
USED = 0.95
"""What one weighs that an action names: where it stood may be shown by nothing any more."""
_RECORDS = 1_000
"""Where the records of things begin, behind those of other facts."""


class Shown(NamedTuple):
    """A thing in a text, and where it stands."""

    name: str
    under: str
    """What it is in, on or below, as its row says; nothing where the row begins with it."""
    opening: str
    """The first thing of the text, which is mostly what the text is about."""


def _things(text: str) -> Mapping[str, tuple[Shown, ...]]:
    found: dict[str, tuple[Shown, ...]] = {}
    if not is_prose(text):
        return found
    opening = ""
    for line in text[:_READ_CHARACTERS].splitlines():
        for name, under in _row(line):
            opening = opening or name
            one = Shown(name, under, opening)
            before = found.get(name.lower(), ())
            if len(before) < _MOST_PLACES and one not in before:
                found[name.lower()] = (*before, one)
        if len(found) >= _MOST_THINGS:
            break
    return found


_shows = Memo(_things, 2_000_000, name="things")
"""All that a text could be said to show, by name, remembered for a while."""


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
    for word in (*_SAID.findall(text[:_READ_CHARACTERS].lower()), "."):
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


def spoken_of(steps: Sequence[Step], said: Set[str]) -> Mapping[int, Sequence[Fact]]:
    """Return by its number what the result of each step shows of the things that were said.

    To what was `said` comes what later actions name, where the text is the last to show it: of
    what they used, where it was.
    """
    shown = [_shows(step.observation) for step in steps]
    texts = sum(map(bool, shown))
    often = Counter(name for one in shown for name in one.keys() & said)
    telling = {name for name, times in often.items() if times <= max(_FEW, texts * _PART)}
    used = _used(steps, shown)
    found: dict[int, Sequence[Fact]] = {}
    for at, (step, one) in enumerate(zip(steps, shown, strict=True)):
        named = used.get(at, frozenset())
        facts = [
            fact
            for place, name in enumerate(one)
            if name in named or name in telling
            for thing in one[name]
            if (fact := _fact(thing, place, used=name in named, said=name in telling))
        ]
        if facts:
            found[step.number] = facts
    return found


def _used(
    steps: Sequence[Step], shown: Sequence[Mapping[str, Sequence[Shown]]]
) -> Mapping[int, Set[str]]:
    """Return by the place of its step what each text was the last to show before it was named."""
    last: dict[str, int] = {}
    used: dict[int, set[str]] = {}
    for at, (step, one) in enumerate(zip(steps, shown, strict=True)):
        said = action_text(step, characters=_READ_CHARACTERS) if last else ""
        for name in last.keys() & phrases(said):
            used.setdefault(last[name], set()).add(name)
        last.update(dict.fromkeys(one, at))
    return used


def _fact(thing: Shown, place: int, *, used: bool, said: bool) -> Fact | None:
    # That a thing was there is said by its use; under what it stood is not.
    weight = USED if used and thing.under else _SPOKEN if said else 0.0
    if not weight:
        return None
    text = "|".join(f'"{one}"' if " " in one else one for one in (thing.under, thing.name) if one)
    tells = f"{thing.opening} {thing.under} {thing.name}"
    return Fact(text, tells, _RECORDS + place, weight)

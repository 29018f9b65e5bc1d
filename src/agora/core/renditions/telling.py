"""What a note or a line tells of a result: the few facts that nothing else in the prompt has."""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from agora.core.memo import ENTRY_WEIGHT, Store
from agora.core.reading.observation import observe
from agora.core.reading.records import Fact

MOST_NAMES = 12
"""How many names a line gives at most: more is a wall of words."""
FEWER_NAMES = (2, 4, 8)
"""How many it gives where there is less room."""
_ABOUT = re.compile(r"[a-z]{4,}|[a-z]{0,8}[0-9][a-z0-9]{1,30}")
_ABOUT_BY_LINE = re.compile(rf'\n|^(?!")[^=\n]*=|{_ABOUT.pattern}', re.MULTILINE)
"""The same line by line, with a key as one word unless it is data itself, in quotes."""


@lru_cache(maxsize=16_384)
def words(text: str) -> frozenset[str]:
    """Return the words in a text that say what it is about, in lower case.

    >>> sorted(words("payment_id=gift_card_6276644"))
    ['6276644', 'card', 'gift', 'payment']
    """
    return frozenset(_ABOUT.findall(text.lower()))


class Told(NamedTuple):
    """The names of an observation that are given, and how much of all new ones they are."""

    text: str
    share: float
    names: int = 0


def told(
    found: Sequence[Fact],
    known: Set[str],
    *,
    said: Set[str] = frozenset(),
    asked: Set[str] = frozenset(),
    most: int = MOST_NAMES,
) -> Told:
    """Return the facts that nothing in `known` tells, the most telling first to be given.

    Of each record with a word in `asked`, one that was spoken of, the most telling fact counts
    twice. Facts stand in the order of the observation, those of a record together behind what
    identifies it, unless that is among the words in `said`.

    >>> from agora.core.reading.records import facts_in
    >>> cards = facts_in('[{"id": "card_6276", "balance": 113}, {"id": "card_7480", "balance": 6}]')
    >>> told(cards, set()).text
    'id=card_6276 balance=113; id=card_7480 balance=6'
    >>> told(cards, set(), most=2).text
    'id=card_6276,card_7480; +2'
    """
    return _Telling.of(found, _new(found, known, said), said=said, asked=asked).told(most)


_Places = tuple[int, ...]
_Ways = tuple[str, frozenset[str], frozenset[str], _Places, _Places, tuple[Fact, ...]]
_ways: Store[_Ways, tuple[Told, ...]]
_ways = Store(4_000_000, name="ways_to_tell")


def ways_to_tell(
    observation: str,
    known: Set[str],
    *,
    said: frozenset[str],
    asked: frozenset[str],
    codes: tuple[int, ...] = (),
    shown: tuple[Fact, ...] = (),
) -> tuple[Told, ...]:
    """Return what could be told of an observation: in few names, in more, in as many as may be.

    The facts at the places in `codes`, new ones, are told each time, and at first they alone.
    Those in `shown` come to what the observation itself says.
    Remembered for a while: between two edits the same is told of a step at every call.
    """
    found = (*observe(observation).facts, *shown)
    new = tuple(_new(found, known, said))
    key = (observation, said, asked, new, codes, shown)
    ways = _ways.get(key)
    if ways is None:
        telling = _Telling.of(found, new, said=said, asked=asked, sure=codes)
        many = telling.told(MOST_NAMES)
        fewest = telling.names_of(codes)
        counts = [*filter(None, [fewest]), *[most for most in FEWER_NAMES if most > fewest]]
        ways = (*[telling.told(most) for most in counts if most < many.names], many)
        texts = sum([len(told.text) for told in ways])
        _ways.put(key, ways, len(observation) + texts + ENTRY_WEIGHT)
    return ways


def _new(found: Sequence[Fact], known: Set[str], said: Set[str]) -> list[int]:
    """Return where the facts are that nothing in `known` and `said` tells, each once."""
    seen: set[str] = set()
    new: list[int] = []
    for at, fact in enumerate(found):
        tells = fact.tells
        if tells not in known and tells not in said and tells not in seen:
            new.append(at)
            seen.add(tells)
    return new


@dataclass(frozen=True, slots=True)
class _Telling:
    """The facts of an observation that are new, in the order in which they are given."""

    found: Sequence[Fact]
    ranked: Mapping[int, float]
    """Where they are, and what each is worth to be told: what comes first is likelier to be needed
    than its weight says."""
    naming: Mapping[int, int]
    """Which fact identifies each record, if one does and still has to be said."""

    @classmethod
    def of(
        cls,
        found: Sequence[Fact],
        new: Sequence[int],
        *,
        said: Set[str],
        asked: Set[str],
        sure: Sequence[int] = (),
    ) -> "_Telling":
        """Rank the facts that are new, those that are sure to be told first."""
        first = sorted(new, key=lambda at: -found[at].weight)
        if asked:
            # Of each record that was spoken of, what tells most comes first.
            leads = _leads(found, first, _spoken_of(found, asked))
            first.sort(key=lambda at: -found[at].weight * (2 if at in leads else 1))
        if sure:
            first.sort(key=lambda at: at not in sure)
        ranked = {at: found[at].weight / (1 + place / 8) for place, at in enumerate(first)}
        return cls(found, ranked, _identities(found, said))

    def names_of(self, places: Sequence[int]) -> int:
        """Return how many names it takes to give these facts, with what identifies each."""
        named = [self.naming.get(self.found[at].record, at) for at in places]
        return len({*places, *named})

    def told(self, most: int) -> Told:
        """Return the first of them, so that there are at most so many names."""
        if not self.ranked:
            return Told("", 1.0)
        taken: set[int] = set()
        for at in self.ranked:
            if len(taken) == most:
                break
            wanted = {at, self.naming.get(self.found[at].record, at)} - taken
            if len(taken) + len(wanted) <= most:
                taken |= wanted
        given = taken & self.ranked.keys()
        text = "; ".join(_grouped(self.found, sorted(taken)))
        if len(self.ranked) > len(given):
            text += f"; +{len(self.ranked) - len(given)}"
        # At most one: sums of the same numbers in another order differ in their last digit.
        share = min(1.0, sum([self.ranked[at] for at in given]) / sum(self.ranked.values()))
        return Told(text, share, len(taken))


def _spoken_of(found: Sequence[Fact], asked: Set[str]) -> set[int]:
    """Return the records that have one of the words in a fact."""
    at = 0
    records: set[int] = set()
    # All at once, a fact a line: to begin a search costs more than what is found in a name.
    for word in _ABOUT_BY_LINE.findall("\n".join([fact.text for fact in found]).lower()):
        if word == "\n":
            at += 1
        elif word in asked:
            records.add(found[at].record)
    return records


def _leads(found: Sequence[Fact], ranked: Sequence[int], spoken: Set[int]) -> set[int]:
    """Return the first of the ranked facts of each record that was spoken of."""
    leads: dict[int, int] = {}
    for at in ranked:
        if found[at].record in spoken:
            leads.setdefault(found[at].record, at)
    return set(leads.values())


def _identities(found: Sequence[Fact], said: Set[str]) -> dict[int, int]:
    """Return which fact identifies each record, if one does and still has to be said."""
    naming: dict[int, int] = {}
    for at, fact in enumerate(found):
        if fact.identifies:
            naming.setdefault(fact.record, at)
    return {record: at for record, at in naming.items() if found[at].tells not in said}


def _grouped(found: Sequence[Fact], places: Sequence[int]) -> Iterator[str]:
    """Yield the words of each record; bare names are one group, and so are ids of one key.

    The names of a list are one group with commas, those of a row have a bar between them.
    """
    groups: list[list[str]] = []
    listed: list[bool] = []
    last = None
    for at in places:
        fact = found[at]
        if fact.apart and fact.record == last:
            groups[-1][0] += f"|{fact.text}"
            continue
        bare = "=" not in fact.text and not fact.identifies and not fact.apart
        if not groups or (not bare and fact.record != last):
            groups.append([])
            listed.append(fact.apart)
        _join(groups[-1], fact.text)
        last = fact.record
    said: list[str] = []
    before = False
    for words, one_of_many in zip(groups, listed, strict=True):
        if one_of_many and before:
            # No space between the names of a list: side by side they could be read as a sentence.
            said[0] += f",{words[0]}"
            continue
        if len(words) == 1 and len(said) == 1 and _same_key(said[0], words[0]):
            _join(said, words[0])
            continue
        if said:
            yield " ".join(said)
        said, before = words, one_of_many
    yield " ".join(said)


def _join(words: list[str], text: str) -> None:
    """Add a word, or its value alone where the one before has the same key."""
    if words and _same_key(words[-1], text):
        words[-1] += f",{text.partition('=')[2]}"
    else:
        words.append(text)


def _same_key(before: str, text: str) -> bool:
    key, keyed, _ = text.partition("=")
    return bool(keyed) and before.partition("=")[0] == key and '"' not in before + text

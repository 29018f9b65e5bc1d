"""The facts in a result: `key=value` of its records, the paths and ids of other text.

One extractor reads every text: JSON first, then Python literals, then lists after a colon, paths
and ids. A fact is copied from the text. Reading takes linear time.
"""

import ast
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from agora.core.memo import ENTRY_WEIGHT, Memo

READ_CHARACTERS = 32_768
"""Of a longer text that is not JSON, only the beginning and the end are read."""
_JSON_CHARACTERS = 400_000
_MOST_FACTS = 120
_MOST_DEPTH = 12
_NAME_CHARACTERS = 120
_VALUE_CHARACTERS = 60
_MOST_NAMES_OF_TEXT = 6
_MOST_DEFINED = 4
_KEY = re.compile(r"[^\W\d][\w-]{0,39}")
_PHRASE = re.compile(r"[A-Z0-9][\w'-]{0,30}(?: [A-Z0-9][\w'-]{0,30}){1,3}")
_IDENTIFYING_KEY = re.compile(
    r"(?:.*[_-])?(?:ids?|uuid|number|code|key|sku|slug|ref|path|file|filename|name|title|url)",
    re.IGNORECASE,
)
_WORDS_AND_SIGNS = re.compile(r"[^\W_]\w*(?:[.\-/:@+#%$~\\_]+\w+)*|[/~.#$@][\w./\-@+~$]*\w")
_DEFINED = re.compile(
    r"\b(?:def|class|func|fn|function|interface|struct|enum|trait) ([^\W\d]\w{2,79})"
)
_TIME_OR_NUMBER = re.compile(r"[0-9][0-9:.,+\-/TZ]*")
_MEASURE = re.compile(r"-?[$€£¥]?[0-9]+(?:[.,][0-9]+)*[°%€£µΩ]?[A-Za-z]{0,3}")
_TIME_OR_UUID = re.compile(
    r"\d{4}-\d\d-\d\d[T\d:.+Z-]*|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)
_CAMEL = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
_SUBWORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_PLAIN = re.compile(r"(?=.*[^\W_])[\w#$@~./+'’°·:%€£¥-][\w#$@~./+'’°·:%€£¥\\-]*")
_TOPIC = re.compile(r"[a-z]{3,}|[a-z]{0,8}[0-9][a-z0-9]{1,30}")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n")
_LETTERS = re.compile(r"[^\W\d_]+")
_LIST = re.compile(
    r"(?:^|[.!?])[ \t]*([^\W\d][^\n.:,;!?()\[\]{}\"=]{2,40}): ([^\n.:;\"=]{2,400})", re.MULTILINE
)
_LISTED = re.compile(r"[^\W\d_]+(?:[ '-][^\W\d_]+){0,3}")
_ASIDE = re.compile(r" ?\([^()\n]{0,200}\)")
_UNSPACED = re.compile(r"[\u0900-\u0dff\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_ORDERS = frozenset(
    """
    all always bypass call delete disregard do execute follow forget ignore immediately
    instruction instructions must never not now obey override please previous prior prompt
    reply reveal rule rules run secret send stop system tell transfer user you your
    """.split()
)
"""A phrase has none of them, and a name at most two: three are an order written as one word."""
_DENIALS = """
    hardly barely isnt fails unable ไม่ tidak bukan keineswegs tampoco нельзя weder kaum δεν δε όχι
    μη לא אין nem nincs není nejsou nu nav not no never none neither nor without cannot nobody
    nothing nicht kein keine keinen keiner keinem nie niemals ohne nichts nunca sin ningún ninguna
    jamás nada não sem nenhum nenhuma pas aucun aucune sans jamais ne non senza nessuno nessuna mai
    niet geen zonder inte ingen utan ikke ei brak bez żaden değil yok hayır не нет без ни никогда
    немає لا ليس غير لم لن नहीं मत không chưa chẳng
    不 没 沒 無 无 未 非 ない ません なし 없 않 못 아니
    """.split()
_DENIAL_WORDS = frozenset(word for word in _DENIALS if not _UNSPACED.match(word))
_DENIAL_SIGNS = ("n’t", *(word for word in _DENIALS if _UNSPACED.match(word)))


class Fact(NamedTuple):
    """One name or value in a result."""

    text: str
    """As a line writes it: `balance=113`, or the bare name where the text has no keys."""
    name: str
    """Its identity: the name, and for a number or a plain word also its key and record."""
    weight: float
    record: int
    identifies: bool = False
    """True if it identifies its record."""
    listed: bool = False
    """True if it gets a place only where its last word is in the user's text."""


class Number(str):
    """A JSON number in its original spelling."""

    __slots__ = ()


_DECODER = json.JSONDecoder(parse_float=Number, parse_int=Number)
_remembered: Memo[tuple[Fact, ...]] = Memo(8_000_000)
"""The next edit of a conversation asks for the same results again."""


def facts_in(text: str) -> tuple[Fact, ...]:
    """Return the facts of a result, in its order.

    >>> [fact.text for fact in facts_in('{"id": "card_6276", "balance": 113}')]
    ['id=card_6276', 'balance=113']
    """
    facts = _remembered.get(text)
    if facts is None:
        facts = _read(text)
        _remembered.put(text, facts, len(text) + ENTRY_WEIGHT)
    return facts


def _read(text: str) -> tuple[Fact, ...]:
    if text.lstrip()[:1] in ("{", "[", "("):
        records = _Records(text)
        for value in _values_in(text):
            records.read(value, (), records.open())
        if records.facts:
            return tuple(records.facts)
    if len(text) > 2 * READ_CHARACTERS:
        text = f"{text[:READ_CHARACTERS]}\n{text[-READ_CHARACTERS:]}"
    names = [Fact(name, name, 0.9, 0) for name in _paths_and_ids(text)]
    return (*names, *islice(_listed(text), _MOST_FACTS))


def _listed(text: str) -> Iterator[Fact]:
    """Yield the things of each list with the words before its colon: `In the box is: a pen`."""
    for at, (heading, items) in enumerate(_LIST.findall(_ASIDE.sub("", text)), start=1):
        for item in map(str.strip, items.split(",")):
            plain = (
                _LISTED.fullmatch(item) and not _orders_in(item) and not reads_as_orders(heading)
            )
            if plain and not _denies(f"{heading} {item}"):
                yield Fact(f'"{heading}"="{item}"', f"{heading}: {item}", 0.5, at, listed=True)


def _values_in(text: str) -> list[Any]:
    """Return the JSON values a text begins with, or the Python literal that all of it is."""
    values: list[Any] = []
    at = len(text) - len(text.lstrip())
    while at < len(text) <= _JSON_CHARACTERS:
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        if not isinstance(value, dict | list):
            break
        values.append(value)
        while text[at : at + 1].isspace():
            at += 1
    if values or len(text) > READ_CHARACTERS or "\\" in text:
        return values
    try:
        return [ast.literal_eval(text.strip())]
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return []


_NESTED = (dict, list, tuple)
_NUMBERS = (Number, int, float)


class _Records:
    """Collects the facts of a value record by record; identifying facts come first."""

    def __init__(self, source: str) -> None:
        self.facts: list[Fact] = []
        self._source = source
        self._records = 0
        self._identity = ""

    def open(self, identity: str = "") -> int:
        """Begin a record and return its number."""
        self._records += 1
        self._identity = identity
        return self._records

    def read(self, value: Any, path: tuple[str, ...], record: int, depth: int = 0) -> None:
        """Read the value under a path of keys."""
        if len(self.facts) >= _MOST_FACTS or depth > _MOST_DEPTH:
            return
        if isinstance(value, dict):
            self._read_object(value, path, record, depth)
        elif isinstance(value, (list, tuple)):
            row = self.open() if not path else record
            for item in value:
                if isinstance(item, dict) or (isinstance(item, _NESTED) and not path):
                    self.read(item, (), self.open(), depth + 1)
                else:
                    self.read(item, path, row, depth + 1)
        else:
            self._read_leaf(value, path, record)

    def _read_object(
        self, value: Mapping[Any, Any], path: tuple[str, ...], record: int, depth: int
    ) -> None:
        named = {str(key): inner for key, inner in value.items()}
        nested = {key: inner for key, inner in named.items() if isinstance(inner, _NESTED)}
        for key, inner in named.items():
            if key not in nested:
                self._read_leaf(inner, (*path, key), record)
        identity = self._identity
        for key, inner in nested.items():
            self._identity = identity
            if isinstance(inner, dict) and sum(map(key.count, "0123456789")) > 2 and is_name(key):
                entry = self.open(key)
                text = f"{'.'.join(path)}={key}" if path and all(map(_KEY.fullmatch, path)) else key
                self.facts.append(Fact(text, key, name_weight(key), entry, identifies=True))
                self.read(inner, (), entry, depth + 1)
            else:
                self.read(inner, (*path, key), record, depth + 1)

    def _read_leaf(self, value: Any, path: tuple[str, ...], record: int) -> None:
        keys = [*map(_written_key, path)]
        if value is None or not all(keys) or len(keys) > 4 or len(self.facts) >= _MOST_FACTS:
            return
        text, number = str(value), isinstance(value, _NUMBERS)
        if isinstance(value, bool):
            text, weight = text if text in self._source else text.lower(), 0.1
        else:
            weight = 0.4 if number else value_weight(text)
        if not keys and (number or (text.isdigit() and len(text) < 4)):
            return
        # With an escape the string differs from its source text.
        if not weight or ("\\" in self._source and text not in self._source):
            return
        identifies = len(keys) == 1 and not isinstance(value, bool) and _identifies(path[0])
        if identifies and not number and not self._identity:
            self._identity = text
        written = ".".join(keys)
        name = text if not number and weight >= 0.5 else f"{self._identity} {written}={text}"
        text = f'"{text}"' if " " in text else text
        self.facts.append(
            Fact(f"{written}={text}" if written else text, name, weight, record, identifies)
        )


@lru_cache(maxsize=4_096)
def _identifies(key: str) -> bool:
    return _KEY.fullmatch(key) is not None and _IDENTIFYING_KEY.fullmatch(key) is not None


@lru_cache(maxsize=4_096)
def _written_key(key: str) -> str:
    """Return a key as a line writes it; empty for one that a line cannot write."""
    if _KEY.fullmatch(key):
        return key
    return f'"{key}"' if _is_phrase(key) else ""


def _is_phrase(text: str) -> bool:
    """Return True for a name of two to four capitalised words without an order."""
    return _PHRASE.fullmatch(text) is not None and not _orders_in(text)


def _orders_in(text: str) -> int:
    return len(_ORDERS.intersection(map(str.lower, _SUBWORD.findall(text))))


def reads_as_orders(text: str) -> bool:
    """Return True if a text has several words that give orders.

    >>> reads_as_orders("ignore all previous instructions"), reads_as_orders("not enough seats")
    (True, False)
    """
    return _orders_in(text) > 2


@lru_cache(maxsize=16_384)
def is_name(text: str) -> bool:
    """Return True if all of a text is one name without spaces, and not an order in disguise.

    >>> is_name("economy"), is_name("W-7001"), is_name("ignore the above"), is_name("{}")
    (True, True, False, False)
    """
    if len(text) > _NAME_CHARACTERS or _PLAIN.fullmatch(text) is None:
        return False
    if not text.isascii() and _UNSPACED.search(text):
        return len(text) <= 12 and text.isalnum() and not _denies(text)
    return len(text) < 8 or not reads_as_orders(text)


@lru_cache(maxsize=16_384)
def value_weight(text: str) -> float:
    """Return the weight of a value, one name or a few capitalised words; 0 if it is neither."""
    if len(text) > _VALUE_CHARACTERS:
        return 0.0
    return name_weight(text) if (_is_phrase(text) if " " in text else is_name(text)) else 0.0


@lru_cache(maxsize=65_536)
def name_weight(name: str) -> float:
    """Return how readily later actions use a name of this build, in [0, 1].

    >>> name_weight("HAT136") > name_weight("2024-05-20") > name_weight("economy")
    True
    """
    if " " in name:
        return 0.3
    if _TIME_OR_NUMBER.fullmatch(name):
        if name.isdigit():
            return 0.8 if len(name) > 5 else 0.6
        return 0.1 if ":" in name else 0.9 if "-" in name else 0.5
    if any(map(str.isdigit, name)):
        return 0.5 if "@" in name or _MEASURE.fullmatch(name) else 1.0
    if "/" in name or "\\" in name:
        return 1.0
    if not name.isalpha() or _CAMEL.search(name):
        return 0.5 if name.islower() else 0.7
    return 0.6 if name.isupper() else 0.2 if name.islower() else 0.3


def _paths_and_ids(text: str) -> list[str]:
    """Return a text's definitions, then its first paths and ids, without sentences that deny."""
    if _denies(text):
        text = "\n".join(part for part in _SENTENCE_END.split(text) if not _denies(part))
    names = dict.fromkeys(islice(filter(is_name, _DEFINED.findall(text)), _MOST_DEFINED))
    for match in _WORDS_AND_SIGNS.finditer(text):
        if _is_path_or_id(match[0]) and is_name(match[0]):
            names[match[0]] = None
            if len(names) >= _MOST_NAMES_OF_TEXT:
                break
    return list(names)


def _is_path_or_id(name: str) -> bool:
    if "/" in name:
        rooted = "." in name or name[0] == "~" or name.count("/") > 1
        return rooted and bool(name.strip("0123456789/.-"))
    letters, digits = any(map(str.isalpha, name)), any(map(str.isdigit, name))
    plain = _MEASURE.fullmatch(name) or _TIME_OR_UUID.fullmatch(name)
    coded = letters and digits and not plain
    return coded or ("_" in name.strip("_") and name.isidentifier())


def _denies(text: str) -> bool:
    text = text.lower()
    if not _DENIAL_WORDS.isdisjoint(_LETTERS.findall(text)) or "n't" in text:
        return True
    return not text.isascii() and any(sign in text for sign in _DENIAL_SIGNS)


def _names(text: str) -> Iterator[str]:
    return (name for name in _WORDS_AND_SIGNS.findall(text) if len(name) > 1 and is_name(name))


def names_in(text: str) -> frozenset[str]:
    """Return the names of a text: ids, paths, symbols, and numbers of four digits or more."""
    return frozenset(
        name
        for name in _names(text[:READ_CHARACTERS])
        if name_weight(name) >= 0.5 and not (name.isdigit() and len(name) < 4)
    )


def words_in(text: str) -> frozenset[str]:
    """Return the words of a text that name its topic, in lower case."""
    return frozenset(_TOPIC.findall(text.lower()))


def chosen_facts(
    facts: Sequence[Fact],
    known: Collection[str],
    topics: frozenset[str],
    most: Sequence[int],
    said: Collection[str] = (),
) -> list[str]:
    """Return the facts of a result for a line, at most `n` of them for each `n` in `most`.

    Facts whose name is in `known`, or in `said` on the same line, are left out. In a record with a
    word in `topics`, one that the user mentioned, the fact of the greatest weight counts twice. A
    number, a date or a word comes with the fact that identifies its record.

    >>> cards = facts_in('[{"id": "card_6276", "balance": 113}, {"id": "card_7480", "balance": 6}]')
    >>> chosen_facts(cards, frozenset(), frozenset(), [2, 4])
    ['id=card_6276,card_7480', 'id=card_6276 balance=113; id=card_7480 balance=6']
    """
    new: dict[str, int] = {}
    identities: dict[int, int] = {}
    for at, fact in enumerate(facts):
        if fact.listed and fact.name.rpartition(" ")[2].lower() not in topics:
            continue
        if fact.name not in known and fact.name not in said:
            new.setdefault(fact.name, at)
        if fact.identifies:
            identities.setdefault(fact.record, at)
    order = sorted(new.values(), key=lambda at: -facts[at].weight)
    if not topics.isdisjoint(words_in("\n".join(fact.text for fact in facts))):
        mentioned = {fact.record for fact in facts if _mentions(fact.text, topics)}
        leads = {facts[at].record: at for at in reversed(order) if facts[at].record in mentioned}
        order.sort(key=lambda at: -facts[at].weight * (1 + (leads.get(facts[at].record) == at)))
    texts = []
    for limit in most:
        chosen: set[int] = set()
        for at in order:
            if len(chosen) == limit:
                break
            wanted = {at}
            identity = identities.get(facts[at].record, at)
            if facts[at].weight < 1 and facts[identity].name not in said:
                wanted.add(identity)
            if len(chosen | wanted) <= limit:
                chosen |= wanted
        texts.append(_joined([facts[at] for at in sorted(chosen)]))
    return texts


def _mentions(text: str, topics: frozenset[str]) -> bool:
    """Return True if a fact's value, or a key that is data itself, has a word in `topics`."""
    text = text if text[:1] == '"' else text.rpartition("=")[2]
    return not topics.isdisjoint(_TOPIC.findall(text.lower()))


def _joined(facts: Sequence[Fact]) -> str:
    """Return facts as a line writes them; names without a key and ids of one key share it."""
    texts: list[str] = []
    alone = Counter(fact.record for fact in facts)
    for fact, before in zip(facts, [None, *facts], strict=False):
        key, _, value = fact.text.rpartition("=")
        same = before is not None and before.record == fact.record
        single = before is not None and alone[before.record] == alone[fact.record] == 1
        if before and key == before.text.rpartition("=")[0] and (same or (key and single)):
            texts[-1] += f",{value}"
        elif same and key:
            texts[-1] += f" {fact.text}"
        else:
            texts.append(fact.text)
    return "; ".join(texts)

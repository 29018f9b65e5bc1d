"""The facts in a text: what its records, its code or its prose name, each as a note can say it."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from agora.core.reading import READ_CHARACTERS
from agora.core.reading.literals import Number, Truth
from agora.core.reading.names import first_identifiers, no_sentence, plain_name, weight
from agora.core.reading.sentences import affirmed
from agora.core.reading.values import Values, values_in

_MOST_FACTS = 120
_MOST_BARE = 48
"""How many names of lists and rows without keys are read: four times what is ever told."""
_SHORT_CHARACTERS = 1_500
"""In a longer text a word before a number is prose, and not the name of a thing."""
_MOST_UNKEYED = 6
"""How many ids and paths of a text are told: without keys many of them tell little."""
_VALUE_CHARACTERS = 60
_NESTED = (dict, list)
_OPENING = ("{", "[", "(")
_FIRST_OF_A_ROW = 0.7
"""The least that the first name of a row weighs: it says which row it is, however plain."""
_LATER_IN_A_ROW = 0.5
"""What the others weigh of what their build says: nothing tells what they are."""
_KEY = re.compile(r"[^\W\d][\w-]{0,39}")
_WAY = re.compile(r"[^\W\d][\w-]{0,39}(?:\.[^\W\d][\w-]{0,39}){0,3}")
"""The keys of objects inside each other."""
_PAIR = re.compile(
    r"""([{}])|["']([A-Za-z_]\w{0,39})["']:\s{0,4}(?:["']([^"'\\\n]{1,60})["']"""
    r"""|(-?[0-9][0-9.]{0,18})(?=[\s,}\]]))"""
)
_IDENTIFIES = re.compile(
    r"(?:.*[_-])?(?:id|ids|uuid|number|code|key|sku|slug|ref|path|file|filename|name|title|email|url)",
    re.IGNORECASE,
)
_CODE_LINE = re.compile(
    r"^[ \t]{0,80}(?:\d{1,6}[ \t]{0,8}[\t:|]?[ \t]{0,80})?"
    r"(?:def |class |import |from \S{1,80} import "
    r"|@@ |diff --git |#include|function |const |export |public |private |package |Traceback "
    r"|FAILED |[\w./-]{1,120}\.\w{1,8}:\d{1,7}[:-]|return\b|if [^\n]{1,120}:$)",
    re.MULTILINE,
)
_DEFINES = r"(?:def|class|func|fn|function|interface|struct|enum|trait) "
_DEFINING = re.compile(rf"{_DEFINES}[A-Za-z_]")
_DEFINITION = re.compile(
    r"^(?:([\w./-]{1,120}:\d{1,6})[:-])?[ \t]{0,40}(?:\d{1,6}[ \t]{0,8}[\t:|]?)?[ \t+-]{0,80}"
    r"(?:export |public |private |static |abstract |async |default |pub ){0,3}"
    rf"{_DEFINES}([A-Za-z_]\w{{2,79}})",
    re.MULTILINE,
)
_PLACE = re.compile(r"^([\w./-]{1,120}\.\w{1,8}:\d{1,7})[:-]", re.MULTILINE)
_FRAME = re.compile(r'^[ \t]{0,12}File "([\w./-]{1,120})", line (\d{1,7})', re.MULTILINE)
_TEST = re.compile(r"^(?:FAILED|ERROR) ([\w./-]{1,120}::[\w:\[\]-]{1,80})", re.MULTILINE)
_RAISED = re.compile(
    r"^(?:E\s{1,8})?((?:[a-z_]\w{0,40}\.){0,4}[A-Z]\w{1,40}(?:Error|Exception))\b", re.MULTILINE
)
_PHRASE = re.compile(r"[A-Z0-9][\w'-]{0,30}+(?: [A-Z0-9][\w'-]{0,30}+){1,3}")
_NUMBERED = re.compile(r"[a-z][a-z'-]{1,39} [0-9]{1,2}")
_RESULT = re.compile(
    r"([$€£]?-?[0-9][0-9.,]{0,18}%?)"
    r"|\[?\((?:Decimal\(')?(-?[0-9][0-9.]{0,18})(?:'\))?,\)\]?"
)
"""A number alone, or as the only one of a database's only row."""
_CODE_KEY = re.compile(
    r"(?!(?:request|trace|span|session|correlation|status|error|exit|zip|postal|country|area)[_-])"
    r"(?:.*[._-])?(?:id|uuid|code|number|confirmation|reference|ref|ticket|tracking)"
    r"|(?!(?:request|trace|span|session|status|error|exit|zip|postal|country)[A-Z])"
    r"[a-z]\w*(?:Id|ID|Code|Number)"
)
"""A key of what a record is called by, and not of how a request went or where someone lives."""
_CODE = re.compile(r"[^\s\"]*[0-9][^\s\"]*|[A-Z]{4,12}")
_LITTLE = re.compile(r"[0-9]{1,3}")
_CODED = re.compile(
    r"#?[A-Za-z][A-Za-z0-9_.-]{0,40}[0-9][A-Za-z0-9_-]{0,40}|[0-9]{1,6}[A-Z][A-Z0-9]{1,12}"
)


class Fact(NamedTuple):
    """One name that an observation brought."""

    text: str
    """As a note writes it: `balance=113`, or the bare name where the text has no keys."""
    tells: str
    """What makes it new: a name, or for a number what it belongs to as well."""
    record: int
    """Which record of the observation it is part of."""
    weight: float
    identifies: bool = False
    """Whether it says which record this is."""
    apart: bool = False
    """Whether it has no key and stands in a list or in a row of a table."""


def facts_in(text: str, data: Values | None = None) -> tuple[Fact, ...]:
    """Return what could be told of an observation, in its order; `data` are its values."""
    result = len(text) <= _VALUE_CHARACTERS and _RESULT.fullmatch(text.strip())
    if result:
        # The result of a calculation: nothing that it could be paired with wrongly.
        number = result[1] or result[2]
        return (Fact(number, f"result {number}", 0, 0.4),)
    data = values_in(text) if data is None else data
    found = _of_values(data.values, text)
    if data.whole:
        return found
    if len(text) > 2 * READ_CHARACTERS:
        text = f"{text[:READ_CHARACTERS]}\n{text[-READ_CHARACTERS:]}"
    keyed = _of_pairs(text) if text.lstrip()[:1] in ("{", "[") else ()
    if keyed or found:
        return keyed or found
    return _of_code(text) if _CODE_LINE.search(text) else _of_text(text)


def is_prose(text: str) -> bool:
    """Tell whether a text is neither data nor code."""
    return text.lstrip()[:1] not in _OPENING and not _CODE_LINE.search(text[:READ_CHARACTERS])


def _of_values(values: Sequence[Any], text: str) -> tuple[Fact, ...]:
    """Return the facts of what is data."""
    walk = _Walk()
    for value in values:
        walk.read(value, "", walk.opened(), depth=0)
    escaped = "\\" in text
    return tuple(fact for fact in walk.found if not escaped or _verbatim(fact, text))


def _of_pairs(text: str) -> tuple[Fact, ...]:
    """Return the facts of what is nearly JSON: cut off, or as Python writes its dictionaries."""
    walk = _Walk()
    record = walk.opened()
    for bracket, key, word, number in _PAIR.findall(text):
        if bracket:
            record = walk.opened()
        else:
            walk.read(word or Number(number), key, record, depth=0)
    return tuple(walk.found)


def _verbatim(fact: Fact, text: str) -> bool:
    key, _, value = fact.text.rpartition("=")
    return value.strip('"') in text and all(part.strip('"') in text for part in key.split("."))


class _Walk:
    """Reads a JSON value record by record: what names a record comes before what it has."""

    __slots__ = ("_bare", "_identity", "_records", "found")

    def __init__(self) -> None:
        self.found: list[Fact] = []
        self._records = 0
        self._bare = 0
        self._identity = ""

    def opened(self, identity: str = "") -> int:
        """Begin a record; what identifies it stands in the observation as the key of a table."""
        self._records += 1
        self._identity = identity
        return self._records

    def read(self, value: Any, key: str, record: int, *, depth: int) -> None:
        """Take in a value under its key."""
        if len(self.found) >= _MOST_FACTS or depth > 12:
            return
        if isinstance(value, dict):
            self._read_object(value, key, record, depth)
        elif isinstance(value, list):
            if not key:
                self._read_bare(value, depth)
                return
            for item in value:
                if isinstance(item, dict):
                    self.read(item, "", self.opened(), depth=depth + 1)
                else:
                    self.read(item, key, record, depth=depth + 1)
        else:
            under, _, name = key.rpartition(".")
            self._read_scalar(value, _key(name), record, under)

    def _read_bare(self, items: list[Any], depth: int) -> None:
        """Take in a list without a key: records, rows of a table, or names.

        A bare number is left out, since nothing says what it is of. The first name of a row says
        which row it is; those that follow it are never told beside another row's.
        """
        row = self.opened() if depth else 0
        several = row > 0 and len(items) > 1
        first = True
        for item in items:
            if isinstance(item, _NESTED):
                self.read(item, "", self.opened(), depth=depth + 1)
                continue
            named = type(item) is str and self._bare < _MOST_BARE
            weighs = _weighed(item)[1] if named else 0.0
            if not weighs or _LITTLE.fullmatch(item):
                continue
            self._bare += 1
            if first or not row:
                weighs = max(weighs, _FIRST_OF_A_ROW)
            else:
                weighs *= _LATER_IN_A_ROW
            said = f'"{item}"' if " " in item else item
            of = row or self.opened()
            fact = Fact(said, item, of, weighs, identifies=several and first, apart=True)
            self.found.append(fact)
            first = False

    def _read_object(self, value: dict[str, Any], under: str, record: int, depth: int) -> None:
        naming: list[tuple[_Key, Any]] = []
        others: list[tuple[_Key, Any]] = []
        nested: list[tuple[str, Any]] = []
        # A table from names to values, as of products to their ids, has a record per entry.
        by_name = False
        for name, inner in value.items():
            if isinstance(inner, _NESTED):
                nested.append((name, inner))
                continue
            key = _key(name)
            by_name = by_name or key.phrase
            (naming if key.first else others).append((key, inner))
        # What says which record it is comes first, whatever the order in the text.
        for key, inner in naming + others:
            self._read_scalar(inner, key, self.opened() if by_name else record, under)
        identity = self._identity
        for name, inner in nested:
            self._identity = identity
            if isinstance(inner, dict) and _is_data(name):
                table = self.opened(name)
                said = f"{under}={name}" if _is_key(under) else name
                self.found.append(Fact(said, name, table, weight(name), identifies=True))
                self.read(inner, "", table, depth=depth + 1)
            else:
                # What stands in an object inside another is said with the way there.
                way = f"{under}.{name}" if under else name
                if "." in name and isinstance(inner, list) and not _is_way(way):
                    # Where the way cannot be said, only the end of such a key would be.
                    continue
                own = record if _is_way(way) else self.opened()
                self.read(inner, way, own, depth=depth + 1)

    def _read_scalar(self, value: Any, key: "_Key", record: int, under: str = "") -> None:
        if value is None or not key.said:
            return
        text, weighs = _weighed(value)
        if not weighs:
            return
        inside = _is_way(under)
        identifies = key.identifies and not inside and not isinstance(value, bool)
        named = type(value) is str
        if text == self._identity and self.found[-1].tells == text:
            # The id of a table's entry, which the key of the entry has said already.
            return
        if named and not identifies and text in self._identity:
            # `source=gift_card` of gift_card_6276644 says it twice.
            return
        if identifies and named and not self._identity:
            self._identity = text
        under_key = f"{under}.{key.said}" if inside else key.said
        said = f'"{text}"' if " " in text else text
        tells = text if named and weighs >= 0.5 else f"{self._identity} {under_key}={text}"
        self.found.append(Fact(f"{under_key}={said}", tells, record, weighs, identifies))


def _weighed(value: Any) -> tuple[str, float]:
    """Return a value as it is written, and its weight: 0 where it cannot be told."""
    if isinstance(value, bool):
        return ("true" if value else "false"), 0.1
    text = str(value)
    if isinstance(value, Number):
        return text, (0.1 if isinstance(value, Truth) else 0.4)
    return text, (_told_weight(text) if len(text) <= _VALUE_CHARACTERS else 0.0)


# Remembered: the records of one tool have the same keys, and many values, again and again.
@lru_cache(maxsize=4_096)
def _is_key(key: str) -> bool:
    return _KEY.fullmatch(key) is not None


@lru_cache(maxsize=4_096)
def _is_way(under: str) -> bool:
    return _WAY.fullmatch(under) is not None


class _Key(NamedTuple):
    """What is read of a key."""

    said: str
    """As a note writes it; nothing where it is none that can be told."""
    first: bool
    """Whether it comes before the others of its record."""
    identifies: bool
    """Whether it says which record it is."""
    phrase: bool
    """Whether it is a name of several words."""


@lru_cache(maxsize=4_096)
def _key(key: str) -> _Key:
    first = _IDENTIFIES.fullmatch(key) is not None
    if _is_key(key):
        return _Key(key, first, identifies=first, phrase=False)
    if _is_phrase(key):
        return _Key(f'"{key}"', first, identifies=False, phrase=" " in key)
    return _Key("", first, identifies=False, phrase=False)


@lru_cache(maxsize=4_096)
def _is_phrase(key: str) -> bool:
    """Tell whether a key is a name of several words: `Water Bottle` in a table of products."""
    return _PHRASE.fullmatch(key) is not None and no_sentence(key)


@lru_cache(maxsize=16_384)
def _told_weight(text: str) -> float:
    """Return the weight of a value that can be told, one name or a few capitalised words, or 0."""
    told = _is_phrase(text) if " " in text else plain_name(text)
    return weight(text) if told else 0.0


def _is_data(key: str) -> bool:
    """Tell whether a key is the name of a thing, as in a table by id.

    >>> _is_data("order_7712"), _is_data("XXL_size")
    (True, False)
    """
    digits = sum(map(key.count, "0123456789"))
    return digits >= 3 and bool(plain_name(key))


def _of_code(text: str) -> tuple[Fact, ...]:
    """Return places, definitions, failed tests and errors in source code and in shell output."""
    found: dict[str, float] = {}
    # To look for a word costs next to nothing beside looking for what stands around it.
    if "FAILED" in text or "ERROR" in text:
        found.update(dict.fromkeys(_TEST.findall(text), 1.0))
    if "Error" in text or "Exception" in text:
        for error in _RAISED.findall(text):
            found.setdefault(error, 0.9)
    for place, name in _definitions(text):
        if place:
            found.setdefault(place, 1.0)
        if plain_name(name):
            found.setdefault(name, 0.8)
    for place in _PLACE.findall(text):
        found.setdefault(place, 0.7)
    for path, line in _FRAME.findall(text) if 'File "' in text else ():
        found.setdefault(f"{path}:{line}" if f"{path}:{line}" in text else path, 0.9)
    return tuple(Fact(name, name, at, weighs) for at, (name, weighs) in enumerate(found.items()))


def _definitions(text: str) -> Iterator[Sequence[str]]:
    """Yield the place and the name of each definition, from lines that have a word for one."""
    read = 0
    for word in _DEFINING.finditer(text):
        if word.start() >= read:
            found = _DEFINITION.match(text, text.rfind("\n", 0, word.start()) + 1)
            read = (text.find("\n", word.start()) + 1) or len(text)
            if found:
                yield found.groups("")


def _of_text(text: str) -> tuple[Fact, ...]:
    """Return the paths, codes and numbered things in a text: no words of prose, no bare number."""
    found: dict[str, float] = {}
    others = 0
    short = len(text) <= _SHORT_CHARACTERS
    for name in first_identifiers(affirmed(text)):
        if short and _NUMBERED.fullmatch(name):
            found[name] = 1.0
        elif others < _MOST_UNKEYED and _telling(name):
            others += 1
            found[name] = 0.9
        elif others == _MOST_UNKEYED and not short:
            break
    return tuple(Fact(name, name, at, weighs) for at, (name, weighs) in enumerate(found.items()))


def _telling(name: str) -> bool:
    """Tell whether a name outside of JSON and code is a path, an id or a symbol."""
    if "/" in name:
        rooted = "." in name or name[0] in "/~" or name.count("/") > 1
        return rooted and plain_name(name) and bool(name.strip("0123456789/.-"))
    return bool(_CODED.fullmatch(name)) or ("_" in name.strip("_") and name.isidentifier())


def codes_in(found: Sequence[Fact], *, asked: str = "") -> dict[str, int]:
    """Return the ids and codes that a result gives, under keys such as `code`, and where they are.

    Those that stand in `asked`, what the result answers, are left out.

    >>> codes_in(facts_in('{"status": "cancelled", "refund": {"code": "CR-1306693"}}'))
    {'CR-1306693': 1}
    """
    places: dict[str, int] = {}
    for at, fact in enumerate(found):
        code = _code(fact.text)
        if code and code not in asked:
            places.setdefault(fact.tells, at)
    return places


@lru_cache(maxsize=16_384)
def _code(text: str) -> str:
    """Return the value of a fact if it is a code under a key of one, or nothing."""
    key, _, value = text.rpartition("=")
    named = _CODE_KEY.fullmatch(key.rpartition(".")[2])
    return value if named and _CODE.fullmatch(value) else ""

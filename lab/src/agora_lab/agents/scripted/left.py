"""Reads the remains of steps after compression: markers, the lines under them, notes for results.

A language model reads these untaught. Readers are programs, so the grammar of `core/forms` is
written down here, a line for each call:

    [steps 3-4 elided by the context compressor]
    3 get_card id=card_6276 -> balance=113; id=card_7480,card_7481; +2

Of 0.1's skeletons, which have no keys, the names are bare; so are those of lists and of rows as a
database gives them, `car_makers,car_names` and `Id|int,Model|text`. Things that a plain text lists
have the words before its colon as their key, `"In the cupboard is"="a metal pot"`. Text in any
other form is not read.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

_ARROW = " -> "
_COUNTED = re.compile(
    r"\[(?:steps? (?P<first>\d{1,7})(?:-(?P<last>\d{1,7}))? (?:elided|removed)"
    r"|\.\.\. (?P<count>\d{1,7}) step\(s\) elided)[^\]\n]{0,200}\]"
)
_NOTE = re.compile(r"\[[^\]\n]{1,200}\](?: ([^\n]*))?")
_LINE = re.compile(r"(\d{1,7}) ([^\n]+)")
_STATUS = re.compile(r'(ok|error|exit -?\d{1,10})(?: "[^\n]*?"(?= [\w.]+=|;|$))?(?: |$)')
"""How a call went; the error's line follows it in quotes."""
_ADDRESSES = ("address.", "at.")
"""Objects inside a record with field names that no other field of the record has."""
_MORE = re.compile(r"(?:^|; )\+(\d{1,7})$")
_WORD = re.compile(
    r'(?P<next>; )|(?:"(?P<phrase>[^"\n]{1,200})"|(?P<key>[A-Za-z_][\w.:-]{0,80}))='
    r'(?:"(?P<quoted>[^"\n]{0,400})"|(?P<plain>[^\s";]{1,400}))|(?P<bare>(?:[^\s;"]|"[^"\n]{0,200}"|"){1,400})'
)

_PLACED = re.compile(r'"[IO]n the ([a-z ]{1,40}?)(?: is| are| you see)?"=((?:"[^"\n]{1,60}",?)+)')
_LISTED = re.compile(r"[,|](?![0-9]{3}(?:[,.]|$))")
"""Parts the names of a list, and those of a row in it; the comma of `1,299` does not."""

Record = Mapping[str, tuple[str, ...]]
"""Values by key, of one object of a result: `{"id": ("card_6276",), "balance": ("113",)}`.
Names without a key are under the empty one."""


@dataclass(frozen=True, slots=True)
class Told:
    """The remains of a result: how it went, its facts, the number of removed ones."""

    text: str = ""
    """Its text in the prompt, without how it went."""
    status: str = ""
    """`ok`, `error` or `exit 1`; empty if unknown."""
    records: tuple[Record, ...] = ()
    more: int = 0
    """How many names the text reports as left out."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names without keys."""
        return self.values("")

    @property
    def places(self) -> tuple[tuple[str, str], ...]:
        """The things that a text showed, each after the thing that it is in or on.

        >>> read_told('"In the cupboard is"="a metal pot","a tin cup"').places
        (('cupboard', 'metal pot'), ('cupboard', 'tin cup'))
        """
        return _placed(self.text)

    def values(self, key: str) -> tuple[str, ...]:
        """Return the values of a key in any record. `price` also finds `visit.price`."""
        return tuple(
            value
            for record in self.records
            for name, own in record.items()
            if name == key or name.rpartition(".")[2] == key
            for value in own
        )


NOTHING = Told()


@dataclass(frozen=True, slots=True)
class Line:
    """One line under a marker: a step that was removed."""

    number: int
    done: str
    """The action in short, word for word."""
    tool: str
    """Its first word."""
    arguments: Mapping[str, str]
    """Their names, if they have any."""
    told: Told


@dataclass(frozen=True, slots=True)
class Mark:
    """A marker: its number of steps, and their lines."""

    steps: int
    lines: tuple[Line, ...] = ()


@dataclass(frozen=True, slots=True)
class Apart:
    """A message's own text, and the markers that were added to it."""

    own: str
    marks: tuple[Mark, ...] = ()

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines of all markers."""
        return tuple(line for mark in self.marks for line in mark.lines)

    @property
    def unseen(self) -> int:
        """How many steps are counted and have no line."""
        told = [{line.number for line in mark.lines} for mark in self.marks]
        return sum(mark.steps - len(own) for mark, own in zip(self.marks, told, strict=True))


@dataclass(slots=True)
class _Open:
    """A marker that is being read."""

    steps: int
    lines: list[Line] = field(default_factory=list)


# Only for speed: a prompt repeats the text of the previous one.
@lru_cache(maxsize=8_192)
def apart(text: str, *, result: bool = False) -> Apart:
    r"""Return a message's own text and the markers after it.

    In the message of a `result` the first line is its own in any case: a note in its place looks
    like a marker.

    >>> found = apart("Book it.\n\n[steps 1-2 removed]\n2 get_card id=card_1 -> ok balance=113")
    >>> found.own, found.unseen, found.lines[0].told.values("balance")
    ('Book it.', 1, ('113',))
    """
    start = len(text.partition("\n")[0]) if result else 0
    found = next((m for m in _COUNTED.finditer(text, start) if _opens(text, m.start())), None)
    if found is None:
        return Apart(text)
    marks: list[_Open] = []
    for row in text[found.start() :].splitlines():
        if counted := _COUNTED.match(row):
            marks.append(_Open(_count(counted)))
        elif line := read_line(row):
            marks[-1].lines.append(line)
    own = text[: found.start()].strip()
    return Apart(own, tuple(Mark(one.steps, tuple(one.lines)) for one in marks))


def _opens(text: str, at: int) -> bool:
    """Return True at the beginning of a line, where a marker can begin."""
    return at == 0 or text[at - 1] == "\n"


def _count(found: re.Match[str]) -> int:
    if found["count"]:
        return int(found["count"])
    return int(found["last"] or found["first"]) - int(found["first"]) + 1


def note(text: str) -> Told | None:
    """Return the content of a note in place of a result; None if the result is there.

    >>> note("[step 3: result removed by the context compressor] ok balance=113").values("balance")
    ('113',)
    """
    found = _NOTE.fullmatch(text.partition("\n")[0])
    return None if found is None else read_told(found[1] or "")


@lru_cache(maxsize=8_192)
def read_line(row: str) -> Line | None:
    """Return the parts of a line under a marker; None for any other text."""
    found = _LINE.fullmatch(row)
    if found is None:
        return None
    done, arrow, rest = found[2].rpartition(_ARROW)
    if not arrow:
        done, rest = found[2], ""
    tool, _, given = done.partition(" ")
    arguments: dict[str, str] = {}
    for record in read_told(given).records:
        for key, own in record.items():
            if key:
                arguments.setdefault(key, own[0])
    return Line(int(found[1]), done, tool, arguments, read_told(rest))


@lru_cache(maxsize=8_192)
def read_told(text: str) -> Told:
    """Return the names and values that are left of a result.

    >>> told = read_told('ok name="Desk Lamp" price=31.5; id=a1,b2; +3')
    >>> told.records
    ({'name': ('Desk Lamp',), 'price': ('31.5',)}, {'id': ('a1', 'b2')})
    >>> told.status, told.more
    ('ok', 3)
    """
    status = _STATUS.match(text)
    said = text[status.end() :] if status else text
    more = _MORE.search(said)
    records: list[dict[str, tuple[str, ...]]] = [{}]
    for word in _WORD.finditer(said[: more.start()] if more else said):
        if word["next"]:
            records.append({})
            continue
        key = word["phrase"] or word["key"] or ""
        if key.startswith(_ADDRESSES):
            key = key.rpartition(".")[2]
        if word["plain"] is not None:
            values = _parted(word["plain"])
        elif word["bare"] and _LISTED.search(word["bare"]):
            values = _parted(word["bare"].replace("|", ","))
        else:
            values = (word["bare"] or word["quoted"],)
        records[-1][key] = (*records[-1].get(key, ()), *values)
    return Told(
        text=said,
        status=status[1] if status else "",
        records=tuple(record for record in records if record),
        more=int(more[1]) if more else 0,
    )


@lru_cache(maxsize=8_192)
def _placed(text: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (found[1], name)
        for found in _PLACED.finditer(text)
        for name in re.findall(r'"(?:an? |the )?([^"\n]+)"', found[2])
    )


def _parted(values: str) -> tuple[str, ...]:
    """Return the values of one key, separated by commas."""
    return tuple(value for value in values.split(",") if value.strip("…")) or (values,)

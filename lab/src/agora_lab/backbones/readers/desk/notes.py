"""What a prompt at the desk says: requests, calls and their results, whole or in part."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from agora_lab.backbones.readers.desk.wishes import Wish, read_wish

_ROLE = re.compile(r"^\[(SYSTEM|USER|ASSISTANT|TOOL)\]$", re.MULTILINE)
_CALL = re.compile(r"([a-z_]{1,40}) (\{.*\})")
_RUN = re.compile(r"\[(?:steps? (\d+)(?:-(\d+))? elided|\.\.\. (\d+) step\(s\) elided)[^\]\n]*\]")
_LINE = re.compile(r"(\d{1,6}) ([a-z_]{3,40})(?: ([^\n]*?))?(?: -> ([^\n]*))?")
_REMOVED = re.compile(r"\[[^\]\n]{1,200}\] ?([^\n]*)")
_PERSON = re.compile(r"\b([A-Z]\w{1,30}) ([A-Z]\w{1,30}) \(([^)\s]{3,80})\)")
_PAIR = re.compile(r'([a-z_.]{1,40})=(?:"([^"]{0,80})"|([^\s;"]{1,80}))')


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A call, with as much of its result as is left."""

    request: int
    """Which request it was made for, from 0."""
    tool: str
    arguments: Mapping[str, Any]
    result: Any = None
    """The result, where it is whole."""
    head: str = ""
    """What is left of the call."""
    tail: str = ""
    """What is left of the result."""

    @property
    def failed(self) -> bool:
        """Whether the tool refused."""
        return self.tail.startswith("Error") or self.tail.startswith("error")

    def said(self, pattern: str) -> str:
        """Return the first name of some shape in what is left, of the result before the call."""
        found = re.search(pattern, self.tail) or re.search(pattern, self.head)
        return found[0] if found else ""

    def given(self, name: str, pattern: str) -> str:
        """Return an argument by its name, or by its shape where names are gone; or nothing."""
        found = re.search(pattern, self.head)
        return str(self.arguments.get(name) or (found[0] if found else ""))

    def pairs(self, key: str) -> list[str]:
        """Return the values that what is left of the result has under a key."""
        return [
            quoted or bare
            for name, quoted, bare in _PAIR.findall(self.tail)
            if name.rpartition(".")[2] == key
        ]


@dataclass(slots=True)
class Notes:
    """Everything that a prompt says, in its order."""

    wishes: list[Wish | None] = field(default_factory=list)
    people: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Last name and address for mail by first name."""
    events: list[Event] = field(default_factory=list)
    unseen: int = 0
    """Calls for the newest request of which nothing is left but their number."""
    today: str = ""

    @property
    def now(self) -> int:
        """The number of the newest request."""
        return len(self.wishes) - 1

    @property
    def calls_now(self) -> int:
        """How many calls were made for the newest request."""
        return self.unseen + sum(event.request == self.now for event in self.events)


def read(prompt: str) -> Notes:
    """Return what a prompt says."""
    notes = Notes()
    call = ""
    for role, text in _blocks(prompt):
        if role == "SYSTEM":
            found = re.search(r"Today is ([0-9-]{10})", text)
            notes.today = found[1] if found else notes.today
            continue
        own, marks = _apart(text)
        if role == "ASSISTANT":
            call = own if _CALL.fullmatch(own) else ""
        elif role == "USER":
            _hear(notes, own)
        elif call:
            notes.events.append(_event(notes.now, call, own))
            call = ""
        for mark in marks:
            _read_mark(notes, mark)
    if call:
        # A call whose result is not there, which no provider would take.
        notes.events.append(_event(notes.now, call, ""))
    return notes


def _blocks(prompt: str) -> Iterator[tuple[str, str]]:
    role, start = "USER", 0
    for heading in _ROLE.finditer(prompt):
        if text := prompt[start : heading.start()].strip():
            yield role, text
        role, start = heading[1], heading.end()
    if text := prompt[start:].strip():
        yield role, text


def _apart(text: str) -> tuple[str, list[str]]:
    """Return a message's own text, and the lines that stand for steps after it."""
    found = _RUN.search(text)
    if found is None:
        return text, []
    if not text[: found.start()].strip() and "\n" not in text:
        # The only thing in a message: what is left of its own result.
        return text, []
    return text[: found.start()].strip(), text[found.start() :].splitlines()


def _hear(notes: Notes, text: str) -> None:
    sentence = text.split("\n\n")[-1].strip()
    if not sentence:
        return
    notes.wishes.append(read_wish(sentence))
    notes.unseen = 0
    for first, last, email in _PERSON.findall(sentence):
        notes.people[first] = (last, email)


def _read_mark(notes: Notes, line: str) -> None:
    if run := _RUN.match(line):
        first, last, count = run[1], run[2], run[3]
        notes.unseen += int(count) if count else int(last or first) - int(first) + 1
    elif found := _LINE.fullmatch(line):
        head = found[3] or ""
        arguments = {name: quoted or bare for name, quoted, bare in _PAIR.findall(head)}
        tail = found[4] or ""
        notes.unseen -= 1
        notes.events.append(
            Event(
                request=notes.now,
                tool=found[2],
                arguments=arguments,
                head=head,
                tail=tail.removeprefix("ok "),
            )
        )


def _event(request: int, call: str, told: str) -> Event:
    name, arguments = _called(call)
    result = _value(told) if told.startswith("{") else None
    tail = told
    if result is None and (removed := _REMOVED.fullmatch(told.split("\n", 1)[0])):
        tail = removed[1].removeprefix("ok ")
    return Event(request=request, tool=name, arguments=arguments, result=result, tail=tail)


@lru_cache(maxsize=8_192)
def _called(call: str) -> tuple[str, Mapping[str, Any]]:
    name, _, arguments = call.partition(" ")
    value = _value(arguments)
    return name, value if isinstance(value, dict) else {}


# Remembered for speed alone: a prompt repeats what the one before it said.
@lru_cache(maxsize=8_192)
def _value(text: str) -> Any:
    try:
        return json.loads(text.split("\n", 1)[0])
    except ValueError:
        return None

"""The requests, calls and results in a prompt of the desk, whole or in part."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from agora_lab.agents.base import prompt_blocks
from agora_lab.agents.scripted.desk.wishes import Wish, read_wish
from agora_lab.agents.scripted.left import NOTHING, Line, Told, apart, note

_CALL = re.compile(r"([a-z_]{1,40}) (\{.*\})")
_PERSON = re.compile(r"\b([A-Z]\w{1,30}) ([A-Z]\w{1,30}) \(([^)\s]{3,80})\)")


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
    """The rest of the call, if its arguments are gone."""
    told: Told = NOTHING
    """The rest of the result."""

    @property
    def failed(self) -> bool:
        """True if the tool refused."""
        return self.told.status == "error" or self.told.text.startswith("Error")

    @property
    def slots(self) -> tuple[Mapping[str, Any], ...]:
        """The slots of a search that are still there, each with its remaining facts."""
        if self.result is not None:
            return tuple(self.result.get("slots", ()))
        return tuple(
            {name: own[0] for name, own in record.items()}
            for record in self.told.records
            if len(record.get("slot_id", ())) == 1
        )

    def said(self, pattern: str) -> str:
        """Return the first name of some shape in the rest of the step, in the result first."""
        found = re.search(pattern, self.told.text) or re.search(pattern, self.head)
        return found[0] if found else ""

    def given(self, name: str, pattern: str) -> str:
        """Return an argument by its name, or by its shape where names are gone; or nothing."""
        found = re.search(pattern, self.head)
        return str(self.arguments.get(name) or (found[0] if found else ""))


@dataclass(slots=True)
class Notes:
    """The facts in a prompt, in order."""

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
    """Return the facts in a prompt."""
    notes = Notes()
    call = ""
    for role, text in prompt_blocks(prompt):
        if role == "SYSTEM":
            found = re.search(r"Today is ([0-9-]{10})", text)
            notes.today = found[1] if found else notes.today
            continue
        parts = apart(text, result=role == "TOOL")
        if role == "ASSISTANT":
            call = parts.own if _CALL.fullmatch(parts.own) else ""
        elif role == "USER":
            _hear(notes, parts.own)
        elif call:
            notes.events.append(_event(notes.now, call, parts.own))
            call = ""
        notes.unseen += parts.unseen
        notes.events += (_removed(notes.now, line) for line in parts.lines)
    if call:
        # A call without its result, which no provider would accept.
        notes.events.append(_event(notes.now, call, ""))
    return notes


def _hear(notes: Notes, text: str) -> None:
    sentence = text.split("\n\n")[-1].strip()
    if not sentence:
        return
    notes.wishes.append(read_wish(sentence))
    notes.unseen = 0
    for first, last, email in _PERSON.findall(sentence):
        notes.people[first] = (last, email)


def _removed(request: int, line: Line) -> Event:
    return Event(
        request=request,
        tool=line.tool,
        arguments=line.arguments,
        head=line.done.partition(" ")[2],
        told=line.told,
    )


def _event(request: int, call: str, text: str) -> Event:
    name, arguments = _called(call)
    result = _value(text) if text.startswith("{") else None
    told = NOTHING if result is not None else note(text) or Told(text)
    return Event(request=request, tool=name, arguments=arguments, result=result, told=told)


@lru_cache(maxsize=8_192)
def _called(call: str) -> tuple[str, Mapping[str, Any]]:
    name, _, arguments = call.partition(" ")
    value = _value(arguments)
    return name, value if isinstance(value, dict) else {}


# Only for speed: a prompt repeats the text of the previous one.
@lru_cache(maxsize=8_192)
def _value(text: str) -> Any:
    try:
        return json.loads(text.split("\n", 1)[0])
    except ValueError:
        return None

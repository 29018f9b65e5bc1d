"""What a step did, in short: its action on one line, copied from it."""

import json
import re
from dataclasses import dataclass

from agora.core.memo import Memo
from agora.core.reading import READ_OF_AN_ACTION
from agora.core.reading.actions import fenced
from agora.core.reading.names import listed, no_sentence, plain_name
from agora.core.reading.observation import observe
from agora.core.reading.vocabulary import word_set
from agora.core.renditions.rendition import done_text
from agora.core.renditions.telling import told
from agora.core.trajectory import Step

HEAD_CHARACTERS = 96
"""The longest command that a line repeats; what is longer is cut at a space."""
_MOST_CALLS = 3
_MOST_ARGUMENTS = 4
_MOST_NAMES = 3
_MOST_TOLD = 24
"""How many arguments a full line names: as many as a booking has."""
_VALUE_CHARACTERS = 60
_SHORT_CHARACTERS = 48
"""A text that an agent gave as an argument is repeated up to here, if it is no sentence."""

_COMMAND_KEYS = word_set("actions", "command_keys")
_TOOL = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}")
"""A tool's name, and an argument's: the caller's words and not a result's."""
_THOUGHT = re.compile(r"(?:(?:[Tt]h(?:ink|ought)|ActionPath|Plan)\b[^\n]{0,4000}\n\s*)+")
_COMMENTS = re.compile(r"(?:#[^\n]{0,4000}\n\s*)+")
_CD = re.compile(r"cd [^\s;&|]{1,200} ?&& ?")
_SPACES = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Deed:
    """An action on one line."""

    text: str
    whole: bool
    """Whether the line has all of it."""
    calls: tuple[str, ...] = ()
    """Of a step: the same call by call, nothing for a call that is only counted."""


def deed(step: Step) -> Deed:
    r"""Return what a step did, on one line, copied from its action.

    Of a tool call that is the tool and its arguments as `key=value`, as far as
    they are names; of a shell command or of an agent that acts by text the
    first words. Nothing that a tool returned is in it.

    >>> from agora.core.trajectory import Call
    >>> flight = Call("get_flight", '{"number": "HAT136", "date": "2024-05-20"}')
    >>> deed(Step(number=1, action="", observation="", tokens=9, calls=(flight,))).text
    'get_flight number=HAT136 date=2024-05-20'
    >>> deed(Step(number=2, action="```bash\ncd /app && ls -l\n```", observation="", tokens=9)).text
    'ls -l'
    """
    if not step.calls:
        text = fenced(step.action)
        said = _shortened(text, whole=text == step.action)
        return Deed(said.text, said.whole, (said.text,))
    found = [_call(f"{call.name}\n{call.arguments}") for call in step.calls[:_MOST_CALLS]]
    untold = len(step.calls) - len(found)
    calls = (*[one.text for one in found], *("",) * untold)
    return Deed(done_text(calls), not untold and all(one.whole for one in found), calls)


def full_deed(step: Step, short: Deed) -> Deed:
    """Return what a step did with all that its arguments name, where its `deed` had to cut them.

    >>> from agora.core.trajectory import Call
    >>> flights = '"flights": [{"number": "HAT136", "date": "2024-05-20"}]'
    >>> booked = Call("book", '{"user": "a_b_1", "from": "JFK", "to": "SEA", "cabin": "economy", ' +
    ...               flights + "}")
    >>> step = Step(number=1, action="", observation="", tokens=9, calls=(booked,))
    >>> full_deed(step, deed(step)).text
    'book user=a_b_1 from=JFK to=SEA cabin=economy; number=HAT136 date=2024-05-20'
    """
    if short.whole or len(step.calls) != 1:
        return short
    call = step.calls[0]
    if not _TOOL.fullmatch(call.name) or len(call.arguments) > READ_OF_AN_ACTION:
        return short
    named = told(observe(call.arguments).facts, frozenset(), most=_MOST_TOLD)
    text = f"{call.name} {named.text}".rstrip()
    # Of a command or a text, names alone say less than its beginning.
    return Deed(text, named.share >= 1.0, (text,)) if len(text) > len(short.text) else short


def _read_call(text: str) -> Deed:
    name, _, arguments = text.partition("\n")
    tool = name if _TOOL.fullmatch(name) else "tool"
    if len(arguments) > READ_OF_AN_ACTION:
        return Deed(" ".join([tool, *listed(arguments[:READ_OF_AN_ACTION])[:_MOST_NAMES]]), False)
    try:
        given = json.loads(arguments) if arguments else {}
    except (ValueError, RecursionError):
        given = arguments
    if isinstance(given, str):
        said = _shortened(given, whole=True)
        return Deed(f"{tool} {said.text}".rstrip(), said.whole)
    if not isinstance(given, dict):
        return Deed(tool, not given)
    words = [tool]
    whole = len(given) <= _MOST_ARGUMENTS
    for key, value in list(given.items())[:_MOST_ARGUMENTS]:
        said = _argument(str(key), value, arguments)
        whole = whole and said.whole
        if said.text:
            words.append(said.text)
    return Deed(" ".join(words), whole)


_call = Memo(_read_call, 1_000_000, name="calls")


def _argument(key: str, value: object, source: str) -> Deed:
    """Return an argument as `key=value`, or what of it can be named."""
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        if key in _COMMAND_KEYS:
            return _shortened(" ".join(value), whole=True)
        found = [_argument(key, item, source) for item in value[:_MOST_NAMES]]
        texts = [one.text for one in found if one.text]
        complete = len(value) <= _MOST_NAMES and all(one.whole for one in found)
        return Deed(" ".join(texts), complete)
    if isinstance(value, bool) or value is None or not isinstance(value, str | int | float):
        return Deed("", value is None or value is False)
    text = str(value)
    if key in _COMMAND_KEYS:
        return _shortened(text, whole=True)
    if not _TOOL.fullmatch(key) or text not in source:
        return Deed("", False)
    if plain_name(text) and len(text) <= _VALUE_CHARACTERS:
        return Deed(f"{key}={text}", True)
    if not isinstance(value, str):
        return Deed(f"{key}={text}", True)
    names = listed(text)[:_MOST_NAMES]
    if names == (text,) or (len(text) <= _SHORT_CHARACTERS and no_sentence(text)):
        return Deed(f'{key}="{text}"', True)
    return Deed(f"{key}={names[0]}" if names and " " not in names[0] else "", False)


def _shortened(text: str, *, whole: bool) -> Deed:
    """Return the beginning of a command on one line."""
    text = text.strip()
    thought = _THOUGHT.match(text) or _COMMENTS.match(text)
    if thought and thought.end() < len(text):
        text, whole = text[thought.end() :], False
    entered = _CD.match(text)
    if entered and entered.end() < len(text):
        text = text[entered.end() :]
    first, _, rest = text.partition("\n")
    if rest and "<<" in first:
        # What a here-document holds is no part of the command.
        return Deed(f"{_shortened(first, whole=False).text} …".replace("… …", "…"), False)
    # The arrow ends what was done, so none may stand in it.
    line = text[: 4 * HEAD_CHARACTERS].replace("->", " ")
    line = "".join(character if character.isprintable() else " " for character in line)
    line = _SPACES.sub(" ", line).strip()
    if len(line) <= HEAD_CHARACTERS and len(text) <= 4 * HEAD_CHARACTERS:
        return Deed(line, whole)
    cut = line[:HEAD_CHARACTERS].rpartition(" ")[0] or line[:HEAD_CHARACTERS]
    return Deed(f"{cut} …", False)

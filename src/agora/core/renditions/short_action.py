"""What a step did, in short: its action on one line, copied from it."""

import json
import re
import shlex
from dataclasses import dataclass

from agora.core.actions import NO_TOOLS, Tools, command_of, only_command, reads_only
from agora.core.memo import Memo
from agora.core.reading import READ_OF_AN_ACTION
from agora.core.reading.cutting import CUT, cut, printable, quoted
from agora.core.reading.literals import Number
from agora.core.reading.names import listed, plain_name, reads_as_orders
from agora.core.reading.observation import observe
from agora.core.reading.values import values_in
from agora.core.reading.vocabulary import word_set
from agora.core.renditions.telling import told
from agora.core.trajectory import Step

HEAD_CHARACTERS = 96
"""The longest command that a line repeats; what is longer is cut at a space."""
_MOST_CALLS = 8
_MOST_ARGUMENTS = 4
_MOST_NAMES = 3
_MOST_TOLD = 24
"""How many arguments a full line names: as many as a booking has."""
_VALUE_CHARACTERS = 60
_MOST_QUOTED = 3_000
"""The longest command that a line gives word for word."""
_SHORT_CHARACTERS = 48
"""A text that an agent gave as an argument is repeated up to here."""

_COMMAND_KEYS = word_set("actions", "command_keys")
_TOOL = re.compile(r"[^\W\d][\w.:-]{0,63}")
"""A tool's name, and an argument's: the caller's words and not a result's."""
_THOUGHT = re.compile(r"(?:(?:[Tt]h(?:ink|ought)|ActionPath|Plan)\b[^\n]{0,4000}\n\s*)+")
_COMMENTS = re.compile(r"(?:#[^\n]{0,4000}\n\s*)+")
_CD = re.compile(r"cd [^\s;&|]{1,200} ?&& ?")
_SPACES = re.compile(r"\s+")
_LINE_END = re.compile(r"[;\s]*\n\s*")


@dataclass(frozen=True, slots=True)
class ShortAction:
    """An action on one line."""

    text: str
    whole: bool
    """Whether the line has all of it."""
    calls: tuple[str, ...] = ()
    """Of a step: the same call by call, nothing for a call that is only counted."""


def short_action(step: Step, tools: Tools = NO_TOOLS) -> ShortAction:
    r"""Return what a step did, on one line, copied from its action.

    Of a tool call that is the tool and its arguments as `key=value`, as far as
    they are names; of a shell command or of an agent that acts by text the
    first words. Nothing that a tool returned is in it. `tools` are known to read or to change.

    >>> from agora.core.trajectory import Call
    >>> flight = Call("get_flight", '{"number": "HAT136", "date": "2024-05-20"}')
    >>> short_action(Step(number=1, action="", observation="", tokens=9, calls=(flight,))).text
    'get_flight number=HAT136 date=2024-05-20'
    >>> listed = "```bash\ncd /app && ls -l\n```"
    >>> short_action(Step(number=2, action=listed, observation="", tokens=9)).text
    '… ls -l'
    """
    if not step.calls:
        text = command_of(step.action)
        said = _shortened(text, whole=text == step.action)
        return ShortAction(said.text, said.whole, (said.text,))
    found = [_call(f"{call.name}\n{call.arguments}") for call in step.calls]
    # Calls that only read may be counted; one that changes something is always told.
    calls = [
        one.text if at < _MOST_CALLS or not reads_only(call, tools) else ""
        for at, (call, one) in enumerate(zip(step.calls, found, strict=True))
    ]
    text = "; ".join([call for call in calls if call])
    return ShortAction(text, all(calls) and all(one.whole for one in found), tuple(calls))


def full_action(step: Step, short: ShortAction) -> ShortAction:
    """Return what a step did with all that its arguments name, where `short_action` had to cut.

    >>> from agora.core.trajectory import Call
    >>> flights = '"flights": [{"number": "HAT136", "date": "2024-05-20"}]'
    >>> booked = Call("book", '{"user": "a_b_1", "from": "JFK", "to": "SEA", "cabin": "economy", ' +
    ...               flights + "}")
    >>> step = Step(number=1, action="", observation="", tokens=9, calls=(booked,))
    >>> full_action(step, short_action(step)).text
    'book user=a_b_1 from=JFK to=SEA cabin=economy; number=HAT136 date=2024-05-20'
    """
    if short.whole or len(step.calls) != 1:
        return short
    call = step.calls[0]
    if not _TOOL.fullmatch(call.name) or len(call.arguments) > READ_OF_AN_ACTION:
        return short
    given = values_in(call.arguments)
    if not given.whole or len(given.values) != 1:
        return short
    facts = observe(call.arguments).facts
    named = told(facts, frozenset(), most=_MOST_TOLD)
    whole = named.names == len(facts) == _leaves(given.values[0])
    text = f"{call.name} {named.text}".rstrip()
    text = text if whole else f"{text} {CUT}"
    # Of a command or a text, names alone say less than its beginning.
    return ShortAction(text, whole, (text,)) if len(text) > len(short.text) + 2 else short


def verbatim_action(step: Step) -> ShortAction | None:
    r"""Return the command of an agent that acts by text word for word, without what was thought.

    As it is where it is a short line, and as a JSON string elsewhere, so that it stays on one line
    and can be read back exactly: only a JSON string begins with a quote. None where it is too long,
    it is not sure which it is, or it comes from several messages.

    >>> script = "Write it.\n```bash\ncat > a.py <<'E'\nx =  1\nE\n```"
    >>> verbatim_action(Step(number=1, action=script, observation="", tokens=9)).text
    '"cat > a.py <<\'E\'\\nx =  1\\nE"'
    """
    if step.calls or step.joined:
        return None
    command = only_command(step.action)
    if not command or len(command) > _MOST_QUOTED:
        return None
    line = _on_one_line(command)
    as_it_is = line.whole and line.text == command and command[0] != '"'
    text = command if as_it_is else quoted(command)
    return ShortAction(text, True, (text,))


def _leaves(value: object) -> int:
    """Return how many values there are in a value."""
    if isinstance(value, dict):
        return sum(map(_leaves, value.values())) or 1
    return (sum(map(_leaves, value)) or 1) if isinstance(value, list) else 1


def _read_call(text: str) -> ShortAction:
    name, _, arguments = text.partition("\n")
    tool = name if _TOOL.fullmatch(name) else "tool"
    if len(arguments) > READ_OF_AN_ACTION:
        named = listed(arguments[:READ_OF_AN_ACTION])[:_MOST_NAMES]
        return ShortAction(" ".join([tool, *named, CUT]), False)
    try:
        given = json.loads(arguments, parse_float=Number, parse_int=Number) if arguments else {}
    except (ValueError, RecursionError):
        given = arguments
    if isinstance(given, str):
        said = _shortened(given, whole=True)
        return ShortAction(f"{tool} {said.text}".rstrip(), said.whole)
    if not isinstance(given, dict):
        return ShortAction(f"{tool} {CUT}" if given else tool, not given)
    first = [_argument(str(key), value) for key, value in list(given.items())[:_MOST_ARGUMENTS]]
    words = [tool, *[one.text for one in first]]
    if len(given) > len(first):
        # Switches are told however many arguments there are: they turn a call into another one.
        switches = list(given.items())[_MOST_ARGUMENTS:]
        words += [_argument(k, v).text for k, v in switches if isinstance(v, bool)]
        words.append(CUT)
    whole = len(given) == len(first) and all(one.whole for one in first)
    return ShortAction(" ".join(words), whole)


_call = Memo(_read_call, 1_000_000, name="calls")


def _argument(key: str, value: object) -> ShortAction:
    """Return an argument as `key=value`: whole, or with a sign where it was cut."""
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        if key in _COMMAND_KEYS:
            return _shortened(" ".join(map(shlex.quote, value)), whole=True)
        items = [_value(item) for item in value[:_MOST_NAMES]]
        more = [CUT] if len(value) > _MOST_NAMES else []
        text = f"[{','.join([*[item.text for item in items], *more])}]"
        return ShortAction(f"{_name(key)}={text}", not more and all(item.whole for item in items))
    if isinstance(value, str) and not isinstance(value, Number) and key in _COMMAND_KEYS:
        return _shortened(value, whole=True)
    said = _value(value)
    return ShortAction(f"{_name(key)}={said.text}", said.whole)


def _name(key: str) -> str:
    return key if _TOOL.fullmatch(key) else CUT


def _value(value: object) -> ShortAction:
    """Return a value as the arguments have it, or what of it can be named, marked as cut."""
    if isinstance(value, bool) or value is None:
        return ShortAction({True: "true", False: "false"}.get(value, "null"), True)  # type: ignore[arg-type]
    if isinstance(value, dict | list):
        return (
            ShortAction(CUT, False)
            if value
            else ShortAction("{}" if isinstance(value, dict) else "[]", True)
        )
    text = str(value)
    if isinstance(value, Number) or (plain_name(text) and len(text) <= _VALUE_CHARACTERS):
        return ShortAction(text, True)
    if len(text) <= _SHORT_CHARACTERS and text.isprintable() and not reads_as_orders(text):
        mark = "'" if '"' in text else '"'
        return (
            ShortAction(f"{mark}{text}{mark}", True)
            if mark not in text
            else ShortAction(CUT, False)
        )
    names = [name for name in listed(text)[:1] if " " not in name]
    return ShortAction(f'"{CUT}{names[0]}{CUT}"' if names else CUT, False)


def _shortened(text: str, *, whole: bool) -> ShortAction:
    """Return the beginning of a command on one line."""
    text = text.strip()
    before = ""
    # What was thought before is no part of what was done.
    thought = _THOUGHT.match(text) or _COMMENTS.match(text)
    if thought and thought.end() < len(text):
        text, whole = text[thought.end() :], False
    entered = _CD.match(text)
    if entered and entered.end() < len(text):
        text, whole, before = text[entered.end() :], False, f"{CUT} "
    first, _, rest = text.partition("\n")
    if rest and "<<" in first:
        # What a here-document holds is no part of the command.
        return ShortAction(
            f"{before}{_on_one_line(first).text} {CUT}".replace(f"{CUT} {CUT}", CUT), False
        )
    line = _on_one_line(text)
    return ShortAction(f"{before}{line.text}", whole and line.whole)


def _on_one_line(text: str) -> ShortAction:
    """Return the beginning of a text on one line, its lines with a sign between them."""
    # Line by line, so that one of which nothing shows leaves no sign behind.
    shown = "\n".join(map(printable, text[: 4 * HEAD_CHARACTERS].split("\n"))).strip()
    line = _SPACES.sub(" ", _LINE_END.sub("; ", shown))
    if len(line) <= HEAD_CHARACTERS and len(text) <= 4 * HEAD_CHARACTERS:
        return ShortAction(line, True)
    return ShortAction(cut(line, HEAD_CHARACTERS), False)

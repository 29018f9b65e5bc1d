"""A step's action on one line: its tool calls with their arguments, or its command."""

import json
import re

from agora.core.actions import NO_TOOLS, Tools, command_of, only_command, reads_only
from agora.core.facts import Number, is_name, reads_as_orders
from agora.core.trajectory import Call, Step

CUT = "…"
"""Marks text that was left out."""
_LINE_CHARACTERS = 96
_VERBATIM_CHARACTERS = 3_000
_QUOTED_CHARACTERS = 48
_MOST_ARGUMENTS = 6
_MOST_CALLS = 8
_COMMAND_KEYS = frozenset("command cmd commands script code shell_command cmdline".split())
_TOOL = re.compile(r"[^\W\d][\w.:-]{0,63}")
_THOUGHT = re.compile(r"(?:(?:(?:[Tt]h(?:ink|ought)|ActionPath|Plan)\b|#)[^\n]{0,4000}\n\s*)+")
_LINE_END = re.compile(r"[;\s]*\n\s*")


def action_lines(step: Step, tools: Tools = NO_TOOLS) -> list[str]:
    r"""Return a line for each call of a step, or one for its command; cuts are marked.

    A step of many calls leaves the line of a later one empty if that call only reads.

    >>> flight = Call("get_flight", '{"number": "HAT136", "dry_run": true, "note": "window seat"}')
    >>> action_lines(Step(number=1, action="", observation="", tokens=9, calls=(flight,)))
    ['get_flight number=HAT136 dry_run=true note="window seat"']
    >>> listed = "```bash\ncd /app && ls -l\n```"
    >>> action_lines(Step(number=2, action=listed, observation="", tokens=9))
    ['cd /app && ls -l']
    """
    if not step.calls:
        command = command_of(step.action)
        return [_command_line(command)]
    return [
        _call_line(call) if at < _MOST_CALLS or not reads_only(call, tools) else ""
        for at, call in enumerate(step.calls)
    ]


def verbatim_command(step: Step) -> str | None:
    r"""Return the command of a text agent word for word on one line; None if that is not certain.

    A command that is not one plain line is a JSON string, so that it can be read back.

    >>> script = "Write it.\n```bash\ncat > a.py <<'E'\nx =  1\nE\n```"
    >>> verbatim_command(Step(number=1, action=script, observation="", tokens=9))
    '"cat > a.py <<\'E\'\\nx =  1\\nE"'
    """
    if step.calls or step.joined:
        return None
    command = only_command(step.action)
    if not command or len(command) > _VERBATIM_CHARACTERS:
        return None
    plain = len(command) <= _LINE_CHARACTERS and command.isprintable() and "  " not in command
    return command if plain and command[0] != '"' else quoted(command)


def quoted(text: str) -> str:
    r"""Return a text as a JSON string that shows all of it on one line.

    >>> quoted("a\n\u2028b")
    '"a\\n\\u2028b"'
    """
    text = json.dumps(text, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else json.dumps(sign)[1:-1] for sign in text)


def printable(text: str) -> str:
    """Return a text with a space for each character that does not show."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else " " for sign in text)


def cut(line: str, characters: int) -> str:
    """Return the beginning of a line, cut at a space and marked.

    >>> cut("not enough seats on flight", 12)
    'not enough …'
    """
    return f"{line[:characters].rpartition(' ')[0] or line[:characters]} {CUT}"


def _call_line(call: Call) -> str:
    tool = call.name if _TOOL.fullmatch(call.name) else "tool"
    if not call.name.isascii() and tool == "tool":
        tool = f"tool {CUT}"
    try:
        arguments = json.loads(call.arguments or "{}", parse_int=Number, parse_float=Number)
    except (ValueError, RecursionError):
        return f"{tool} {CUT}"
    if not isinstance(arguments, dict):
        return f"{tool} {CUT}" if arguments else tool
    words = [tool]
    for at, (key, value) in enumerate(arguments.items()):
        # Switches are always written: a call with another switch is another call.
        if at < _MOST_ARGUMENTS or isinstance(value, bool):
            words.append(_argument(key, value, call.arguments))
    return " ".join([*words, CUT] if len(arguments) > len(words) - 1 else words)


def _argument(key: str, value: object, source: str) -> str:
    if key in _COMMAND_KEYS and isinstance(value, str) and not isinstance(value, Number):
        return _command_line(value)
    name = key if _TOOL.fullmatch(key) else CUT
    return f"{name}={_value(value, source)}"


def _value(value: object, source: str) -> str:
    if isinstance(value, Number):
        return value
    if isinstance(value, str):
        return _text(value, source)
    if isinstance(value, list | dict) and value:
        # Only a spelling that the call itself contains is copied.
        for separators in ((", ", ": "), (",", ":")):
            text = json.dumps(value, ensure_ascii=False, separators=separators)
            if text in source and len(text) <= 2 * _LINE_CHARACTERS and text.isprintable():
                return CUT if reads_as_orders(text) else text
        return CUT
    return json.dumps(value)


def _text(text: str, source: str) -> str:
    """Return a text of an argument, in quotes unless it is one name; cut if it is long."""
    if is_name(text):
        return text
    if len(text) > _QUOTED_CHARACTERS or not text.isprintable() or reads_as_orders(text):
        return CUT
    quoted = json.dumps(text, ensure_ascii=False)
    # The line escapes quotes and backslashes. Then only the call's own spelling is verbatim.
    return quoted if quoted == f'"{text}"' or quoted in source else CUT


def _command_line(text: str) -> str:
    """Return the beginning of a command, without the thought before it."""
    text = text.strip()
    thought = _THOUGHT.match(text)
    if thought and thought.end() < len(text):
        text = text[thought.end() :]
    head = "\n".join(map(printable, text[: 4 * _LINE_CHARACTERS].split("\n"))).strip()
    line = " ".join(_LINE_END.sub("; ", head).split())
    short = len(line) <= _LINE_CHARACTERS and len(text) <= 4 * _LINE_CHARACTERS
    return line if short else cut(line, _LINE_CHARACTERS)

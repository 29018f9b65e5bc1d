"""What a step did, in short: its action on one line, how it went, whether it changed anything."""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass

from agora.core.brought import facts, told
from agora.core.identifiers import listed, no_sentence, plain_name
from agora.core.memo import Memo
from agora.core.trajectory import Call, Step

HEAD_CHARACTERS = 96
"""The longest command that a line repeats; what is longer is cut at a space."""
_MOST_CALLS = 3
_MOST_ARGUMENTS = 4
_MOST_NAMES = 3
_MOST_TOLD = 24
"""How many arguments a full line names: as many as a booking has."""
_READ_CHARACTERS = 8_192
"""How much of an action is read: what it acts on comes first."""
_VALUE_CHARACTERS = 60
_SHORT_CHARACTERS = 48
"""A text that an agent gave as an argument is repeated up to here, if it is no sentence."""

_COMMAND_KEYS = frozenset({"action", "command", "cmd", "script", "bash_command", "shell_command"})
_TOOL = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}")
"""A tool's name, and an argument's: the caller's words and not a result's."""
_FENCE = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_CODE_TAG = re.compile(r"<code>\n?(.*?)</code>", re.DOTALL)
_THOUGHT = re.compile(r"(?:(?:[Tt]h(?:ink|ought)|ActionPath|Plan)\b[^\n]{0,4000}\n\s*)+")
_COMMENTS = re.compile(r"(?:#[^\n]{0,4000}\n\s*)+")
_CD = re.compile(r"cd [^\s;&|]{1,200} ?&& ?")
_SPACES = re.compile(r"\s+")

_READS = frozenset(
    """
    analyze browse calculate calc check compute count describe diff explain fetch find get glob
    grep has inspect is list load lookup look ls open peek query read retrieve search see show
    status tail think validate verify view
    """.split()
)
"""Words that open the name of a tool that only reads."""
_CHANGES = frozenset(
    """
    add append apply approve archive assign authorize book buy cancel charge checkout close commit
    configure create decline delete deploy deposit disable drop edit enable exchange execute grant
    insert install invite kill mark merge migrate modify move order patch pay place post publish
    purchase push put refund register reject remove rename replace reply reserve reset restart
    restore return revoke save schedule send set sign start stop submit subscribe terminate
    transfer undo uninstall unsubscribe update upgrade upload withdraw write
    """.split()
)
"""Words in the name of a tool that changes something."""
_RUNNERS = frozenset({"execute", "start"})
"""Words that a tool for running commands has in its name: what it runs decides."""
_SHELL = re.compile(
    r"(?:bash|shell|terminal|cmd|command|console|exec|python|ipython|jupyter|code_interpreter)"
)
_SQL_CHANGES = r"\b(?:INSERT\s+INTO|UPDATE\s+\S+\s+SET|DELETE\s+FROM|CREATE\s+TABLE|DROP\s+TABLE)\b"
_SHELL_CHANGES = re.compile(
    r"(?<![0-9&<>=-])>{1,2}(?!\s*/dev/(?:null|std))(?![&=>])"
    r"|\bsed\s+(?:-\w+\s+)*(?:-i|--in-place|-\w*i\b)"
    r"|\b(?:perl|ruby)\s+-\w*i"
    r"|\bgit\s+(?:-\S+\s+)*(?:add|am|apply|checkout|cherry-pick|clean|clone|commit|init|merge|mv"
    r"|pull|push|rebase|reset|restore|revert|rm|stash|switch|tag)\b"
    r"|(?:^|[;&|(`\"']|\bsudo\s|\bxargs\s|-exec\s)\s*(?:rm|mv|cp|mkdir|rmdir|touch|chmod|chown|ln|tee"
    r"|dd|patch|apply_patch|kill|pkill|unzip|truncate|install)\b"
    r"|\b(?:pip3?|npm|pnpm|yarn|apt|apt-get|brew|conda|cargo|gem|uv\s+pip|poetry|dnf|yum|apk)\s+"
    r"(?:-\S+\s+)*(?:install|add|remove|uninstall|update|upgrade)\b"
    r"|\btar\s+-?\w*x|\bmake\s+install\b|\bcurl\b[^\n|;]{0,200}-X\s*(?:POST|PUT|PATCH|DELETE)"
    r"|\b(?:write_text|write_bytes|os\.remove|shutil\.|\.to_csv)\b|open\([^\n()]{1,200}[\"'][wax]b?[\"']"
    rf"|{_SQL_CHANGES}",
    re.MULTILINE,
)
_QUERY = re.compile(
    r"\s*+(?:\{\s*+\"\w{1,40}\"\s*+:\s*+\")?\s*+"
    r"(?:SELECT|WITH|SHOW|DESC|DESCRIBE|EXPLAIN|PRAGMA)\s",
    re.IGNORECASE,
)
"""What a query begins with, as a command or as the first argument of a call."""
_CHANGES_BY_QUERY = re.compile(_SQL_CHANGES, re.IGNORECASE)
_EDITOR_READS = frozenset({"view", "show", "list", "read"})
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SPOKEN_CHANGES = frozenset(
    "put take move buy drop give clean heat cool slice edit create submit insert".split()
)
"""First words of the actions in text worlds and of line commands that change something."""

_EXIT = re.compile(
    r"\s*<returncode>(-?\d{1,10})</returncode>"
    r"|exitcode: (\d{1,6}) "
    r"|\[?(?:[Ee]xit[ _]code|[Pp]rocess exited with(?: exit)? code|returned? (?:with )?exit code)"
    r"[:=]?\s*(-?\d{1,6})"
)
_FAILED = re.compile(
    r"\s*(?:<(?:tool_use_)?error>|\[?(?:Tool )?[Ee]rror\b|ERROR\b|Failed\b|Traceback \(most recent"
    r"|Exception\b|Invalid\b|Nothing happens|Observation: (?:Error|Nothing happens|Invalid)"
    r"|bash: |/bin/\w{1,5}: |Usage: |usage: )"
    r"|\s*\{\s*\"(?:error|errors|exception)\"\s*:\s*+(?!null|false|\"\"|\[\]|\{\})"
    r"|\s*\{\s*\"(?:ok|success|successful)\"\s*:\s*false"
    r"|\s*\{\s*\"(?:status|state|outcome)\"\s*:\s*\"(?:error|failed|failure)\""
)
_FAILED_INSIDE = re.compile(
    r"^(?:Traceback \(most recent|[A-Z]\w{1,40}(?:Error|Exception): )", re.MULTILINE
)
_READ_ENDS = 2_000


@dataclass(frozen=True, slots=True)
class Deed:
    """An action on one line."""

    text: str
    whole: bool
    """Whether the line has all of it."""


def deed(step: Step) -> Deed:
    r"""Return what a step did, on one line, copied from its action.

    Of a tool call that is the tool and its arguments as `key=value`, as far as
    they are names; of a shell command or of an agent that acts by text the
    first words. Nothing that a tool returned is in it.

    >>> flight = Call("get_flight", '{"number": "HAT136", "date": "2024-05-20"}')
    >>> deed(Step(number=1, action="", observation="", tokens=9, calls=(flight,))).text
    'get_flight number=HAT136 date=2024-05-20'
    >>> deed(Step(number=2, action="```bash\ncd /app && ls -l\n```", observation="", tokens=9)).text
    'ls -l'
    """
    if not step.calls:
        text = fenced(step.action)
        return _shortened(text, whole=text == step.action)
    texts: list[str] = []
    whole = len(step.calls) <= _MOST_CALLS
    for call in step.calls[:_MOST_CALLS]:
        said = _call(f"{call.name}\n{call.arguments}")
        texts.append(said.text)
        whole = whole and said.whole
    if len(step.calls) > _MOST_CALLS:
        texts.append(f"+{len(step.calls) - _MOST_CALLS} calls")
    return Deed("; ".join(texts), whole)


def full_deed(step: Step, short: Deed) -> Deed:
    """Return what a step did with all that its arguments name, where its `deed` had to cut them.

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
    if not _TOOL.fullmatch(call.name) or len(call.arguments) > _READ_CHARACTERS:
        return short
    named = told(facts(call.arguments), frozenset(), most=_MOST_TOLD)
    text = f"{call.name} {named.text}".rstrip()
    # Of a command or a text, names alone say less than its beginning.
    return Deed(text, named.share >= 1.0) if len(text) > len(short.text) else short


def fenced(action: str) -> str:
    """Return the last fenced block of what an agent said, or all of it."""
    if "```" in action:
        blocks = _FENCE.findall(action[-_READ_CHARACTERS:])
        if blocks:
            return str(blocks[-1]).strip()
    if "<code>" in action:
        blocks = _CODE_TAG.findall(action[-_READ_CHARACTERS:])
        if blocks:
            return str(blocks[-1]).strip()
    return action.strip()


def _read_call(text: str) -> Deed:
    name, _, arguments = text.partition("\n")
    tool = name if _TOOL.fullmatch(name) else "tool"
    if len(arguments) > _READ_CHARACTERS:
        return Deed(" ".join([tool, *listed(arguments[:_READ_CHARACTERS])[:_MOST_NAMES]]), False)
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


def changes(step: Step, tools: Collection[str] = ()) -> bool:
    r"""Tell whether a step changed something, by the name of its tool or by its command.

    `tools` are further tools that do.

    >>> booking = Call("book_reservation", '{"id": "EHGLP3"}')
    >>> changes(Step(number=1, action="", observation="", tokens=9, calls=(booking,)))
    True
    >>> changes(Step(number=2, action="```bash\ngrep -rn key .\n```", observation="", tokens=9))
    False
    """
    if not step.calls:
        command = fenced(step.action)
        first = command.partition(" ")[0].partition("[")[0].partition("(")[0].lower()
        return first in _SPOKEN_CHANGES or _changed_by(command)
    return any(call.name in tools or _changed_by_call(call) for call in step.calls)


def _changed_by_call(call: Call) -> bool:
    words = [word.lower() for word in _WORDS.findall(call.name)]
    shell = bool(_SHELL.search(call.name.lower()))
    telling = [word for word in words if word in _CHANGES and not (shell and word in _RUNNERS)]
    if shell and not telling:
        return _changed_by(call.arguments)
    if not telling or words[0] in _READS:
        return False
    if "command" in call.arguments[:_READ_CHARACTERS]:
        # Editors that read and write under one name say which in their first argument.
        return not any(f'"{word}"' in call.arguments[:200] for word in _EDITOR_READS)
    return True


def _read_changes(command: str) -> bool:
    if _QUERY.match(command):
        # In a query `age > 30` writes no file.
        return _CHANGES_BY_QUERY.search(command) is not None
    return _SHELL_CHANGES.search(command.replace("\\n", "\n")) is not None


_seen_changes = Memo(_read_changes, 1_000_000, name="changes")


def _changed_by(command: str) -> bool:
    return _seen_changes(command[:_READ_CHARACTERS])


def _exit_code(text: str) -> re.Match[str] | None:
    # No exit code is given without this word, and most texts do not have it.
    return _EXIT.search(text) if "code" in text else None


def status(step: Step) -> str:
    """Return how a step went: `error`, `exit 1`, `ok`, or nothing for an agent that acts by text.

    >>> status(Step(number=1, action="", observation='{"error": "no such user"}', tokens=9))
    'error'
    """
    text = step.observation
    if step.calls and text[:1] in ("{", "["):
        # JSON says it in its first field, and has no exit code: most calls end here.
        return "error" if step.failed or _FAILED.match(text) else "ok"
    code = _exit_code(text[:_READ_ENDS]) or _exit_code(text[-200:])
    if code:
        number = next(found for found in code.groups() if found is not None)
        return "ok" if not int(number) else f"exit {number}"
    if step.failed or _FAILED.match(text):
        return "error"
    if _FAILED_INSIDE.search(text[-_READ_ENDS:]):
        return "error"
    return "ok" if step.calls else ""

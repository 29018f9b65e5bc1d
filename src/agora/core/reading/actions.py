"""What a step did: its words, its command, whether it changed anything."""

import json
import re
import shlex
from collections.abc import Collection
from typing import NamedTuple

from agora.core.memo import Memo
from agora.core.reading import READ_OF_AN_ACTION
from agora.core.reading.names import names_in
from agora.core.reading.shell import only_reads, python_reads, query_reads
from agora.core.reading.vocabulary import word_list, word_set
from agora.core.trajectory import Call, Step

_FENCE = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_FENCE_TAG = re.compile(r"^[ \t]*```([^\n]*)", re.MULTILINE)
_CODE_TAG = re.compile(r"<code>\n?(.*?)</code>", re.DOTALL)
_READS = word_set("actions", "reads")
_LOOKS = word_set("actions", "looks")
_NOUNS = word_set("actions", "nouns")
_CHANGES = word_set("actions", "changes")
_EITHER = word_set("actions", "either")
_JOINED = word_set("actions", "joined")
_RUNNERS = word_set("actions", "runners")
_RUN_KEYS = word_set("actions", "run_keys")
_EDITOR_READS = word_set("actions", "editor_reads")
_SPOKEN_READS = word_set("actions", "spoken_reads")
_IDEOGRAPH = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+|[^\W\d_]+")
_THINGS = word_set("actions", "things")
_LISTED = word_set("actions", "listed")
_ASKED = word_set("actions", "asked")
_UNSPACED = tuple(sorted(word for word in _READS if _IDEOGRAPH.match(word)))
_SHELL_SIGNS = re.compile(r"\s-\w|\s--\w|[\n;|&<>`$]")
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_BODIES = ("body", "data", "json", "payload", "form")
_DOES = ("action", "operation", "op", "verb", "mode")
_FOREIGN = word_list("actions", "foreign_changes")
_MUTATION = re.compile(r"\s*(?:mutation|subscription)\b")


def used_by(step: Step) -> dict[str, None]:
    """Return the names that an action is made of, each once, in order."""
    return dict.fromkeys(names_in("\n".join(c.arguments for c in step.calls) or step.action))


def action_text(step: Step, *, characters: int) -> str:
    """Return what a step said and gave to its calls, up to so many characters."""
    return "\n".join([step.action, *[call.arguments for call in step.calls]])[:characters]


def fenced(action: str) -> str:
    """Return the last fenced block of what an agent said, or all of it."""
    if "```" in action:
        blocks = _FENCE.findall(action[-READ_OF_AN_ACTION:])
        if blocks:
            return str(blocks[-1]).strip()
    if "<code>" in action:
        blocks = _CODE_TAG.findall(action[-READ_OF_AN_ACTION:])
        if blocks:
            return str(blocks[-1]).strip()
    return action.strip()


def only_command(action: str) -> str:
    r"""Return the command of an agent that acts by text, or nothing where that is not sure.

    Of several fenced blocks it is the last one, where nothing follows it and no other has its tag.

    >>> only_command("Look.\n```bash\nls\n```"), only_command("```\na\n``` or\n```\nb\n```")
    ('ls', '')
    """
    if len(action) > READ_OF_AN_ACTION or action.count("<code>") > 1:
        return ""
    tags = [tag.strip() for tag in _FENCE_TAG.findall(action)]
    opened, last = tags[::2], "".join(tags[-2:-1])
    if len(tags) % 2 or (tags and "<code>" in action):
        return ""
    if len(opened) > 1 and (opened.count(last) > 1 or not action.rstrip().endswith("```")):
        return ""
    return fenced(action)


class Tools(NamedTuple):
    """What is known of tools by their names."""

    reading: Collection[str] = ()
    """Tools that only read."""
    changing: Collection[str] = ()
    """Tools that change something."""

    def with_declared(self, reading: Collection[str], changing: Collection[str]) -> "Tools":
        """Return the same where some tools say of themselves that they read, or that they change.

        What they say comes first.

        >>> Tools(("peek",), ("ship",)).with_declared((), ("peek",))
        Tools(reading=(), changing=('peek', 'ship'))
        """
        if not reading and not changing:
            return self
        return Tools(
            (*reading, *(name for name in self.reading if name not in changing)),
            (*changing, *(name for name in self.changing if name not in reading)),
        )


NO_TOOLS = Tools()


def changes(step: Step, tools: Tools = NO_TOOLS) -> bool:
    r"""Tell whether a step may have changed something: all do that are not known to read.

    >>> booking = Call("book_reservation", '{"id": "EHGLP3"}')
    >>> changes(Step(number=1, action="", observation="", tokens=9, calls=(booking,)))
    True
    >>> changes(Step(number=2, action="```bash\ngrep -rn key .\n```", observation="", tokens=9))
    False
    """
    if not step.calls:
        said = fenced(step.action)
        return len(said) > READ_OF_AN_ACTION or not _seen_spoken(said)
    return not all(call_reads(call, tools) for call in step.calls)


def call_reads(call: Call, tools: Tools = NO_TOOLS) -> bool:
    """Tell whether a call is known to read: by lists of tools, its name or its arguments."""
    if call.name in tools.changing:
        return False
    if call.name in tools.reading:
        return True
    if len(call.arguments) > READ_OF_AN_ACTION:
        return False
    return _seen_calls(f"{call.name}\n{call.arguments}")


def _read_call(text: str) -> bool:
    name, _, arguments = text.partition("\n")
    # What a server calls itself says nothing of what its tools do.
    words = [word.lower() for word in _WORDS.findall(re.split(r"__|[.:/]", name)[-1])]
    if not words:
        return False
    try:
        given = json.loads(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError):
        given = arguments
    if _RUNNERS.intersection(words) or (isinstance(given, dict) and _CODE_KEYS & given.keys()):
        runs = _run(given)
        if runs:
            return all(map(_text_reads, runs)) and not _says_it_changes(given)
    if isinstance(given, dict) and isinstance(given.get("command"), str):
        # Editors that read and write under one name say which in an argument.
        return given["command"] in _EDITOR_READS and _EDITS.intersection(words) != set()
    return _named_as_reading(words) and not _says_it_changes(given)


_CODE_KEYS = frozenset({"script", "code"})
_EDITS = frozenset({"str", "replace", "edit", "editor", "text", "file", "memory"})


def _run(given: object) -> list[str]:
    """Return what a tool that runs something was given to run."""
    if isinstance(given, str):
        return [given]
    found: list[str] = []
    for key, value in given.items() if isinstance(given, dict) else ():
        if key not in _RUN_KEYS:
            continue
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            value = _joined(value)
        if isinstance(value, str):
            found.append(value)
    return found


def _joined(words: list[str]) -> str:
    """Return a command given word by word as one line."""
    return " ".join(shlex.quote(word) for word in words)


def _text_reads(text: str) -> bool:
    return only_reads(text) or query_reads(text) or _python_text_reads(text) or _looks(text)


def _python_text_reads(text: str) -> bool:
    return "(" in text and python_reads(text)


def _says_it_changes(given: object) -> bool:
    """Tell whether an argument says so: a method of HTTP, a query, a mutation."""
    if not isinstance(given, dict):
        return False
    method = given.get("method", given.get("http_method", "GET"))
    if str(method).upper() not in _SAFE_METHODS or any(map(given.get, _BODIES)):
        return True
    for key in _DOES:
        first = str(given.get(key, "get")).partition("_")[0].lower()
        if first not in _READS and first not in _LOOKS and first not in _SPOKEN_READS:
            return True
    asked = [given.get(key) for key in ("query", "sql", "q", "statement")]
    return any(isinstance(one, str) and _changes_by_query(one) for one in asked)


def _changes_by_query(text: str) -> bool:
    if _MUTATION.match(text) or _SQL_CHANGES.match(text):
        return True
    return text.lstrip()[:5].lower() == "with " and not query_reads(text)


_SQL_CHANGES = re.compile(
    r"\s*(?:INSERT|UPDATE|DELETE|MERGE|REPLACE|CREATE|DROP|ALTER|TRUNCATE|GRANT|REVOKE|CALL|EXEC"
    r"|BEGIN|COPY)\b",
    re.IGNORECASE,
)


def _named_as_reading(words: list[str]) -> bool:
    """Tell whether the words of a tool's name say that it reads.

    >>> _named_as_reading(["get", "order"]), _named_as_reading(["get", "or", "create"])
    (True, False)
    """
    first, others = words[0], set(words[1:])
    changing = (_CHANGES - _THINGS).intersection(others)
    if changing or _JOINED & others or any(map("_".join(words).__contains__, _FOREIGN)):
        return False
    if first in _READS or first.startswith(_UNSPACED):
        return True
    if first in _CHANGES:
        return False
    if first == "list":
        return not others or words[1].endswith("s") or words[1] in _LISTED
    if first in _LOOKS:
        return not _EITHER & others
    if words[-1] in _NOUNS:
        return first not in _EITHER or words[-1] in _ASKED
    # The name of a server may stand before: `github_get_commit`.
    return first not in _EITHER and not _READS.isdisjoint(others)


def _looks(said: str) -> bool:
    """Tell whether the first word of what is said looks and does nothing: `examine desk 1`."""
    said = said.strip()
    first = said.partition(" ")[0].partition("[")[0].partition("(")[0].lower()
    return first in _SPOKEN_READS and not _SHELL_SIGNS.search(said)


_seen_calls = Memo(_read_call, 1_000_000, name="calls_that_read")
_seen_spoken = Memo(_text_reads, 1_000_000, name="commands_that_read")

"""What a step did: its words, its command, whether it changed anything."""

import re
from collections.abc import Collection

from agora.core.memo import Memo
from agora.core.reading import READ_OF_AN_ACTION
from agora.core.reading.names import names_in
from agora.core.reading.vocabulary import word_set
from agora.core.trajectory import Call, Step

_FENCE = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_CODE_TAG = re.compile(r"<code>\n?(.*?)</code>", re.DOTALL)
_READS = word_set("actions", "reads")
"""Words that open the name of a tool that only reads."""
_CHANGES = word_set("actions", "changes")
"""Words in the name of a tool that changes something."""
_RUNNERS = word_set("actions", "runners")
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
_EDITOR_READS = word_set("actions", "editor_reads")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SPOKEN_CHANGES = word_set("actions", "spoken_changes")
"""First words of the actions in text worlds and of line commands that change something."""


def used_by(step: Step) -> dict[str, None]:
    """Return the names that an action is made of, each once, in order."""
    return dict.fromkeys(names_in("\n".join(c.arguments for c in step.calls) or step.action))


def action_text(step: Step, *, characters: int) -> str:
    """Return what a step said and gave to its calls, up to so many characters."""
    return "\n".join([step.action, *[call.arguments for call in step.calls]])[:characters]


def done_by(step: Step) -> object:
    """Return what two actions have in common when the second repeats the first word for word."""
    return step.calls or " ".join(step.action.split())


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
    named = [word.lower() for word in _WORDS.findall(call.name)]
    shell = bool(_SHELL.search(call.name.lower()))
    telling = [word for word in named if word in _CHANGES and not (shell and word in _RUNNERS)]
    if shell and not telling:
        return _changed_by(call.arguments)
    if not telling or named[0] in _READS:
        return False
    if "command" in call.arguments[:READ_OF_AN_ACTION]:
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
    return _seen_changes(command[:READ_OF_AN_ACTION])

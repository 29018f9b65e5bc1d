"""Read a step's command, and decide if it is known to change nothing.

An unknown action counts as a change: a needless line costs tokens, a forgotten booking the task.
The tools' own annotations decide first, then the user's lists, then the command that a call runs,
then the words of the tool's name.
"""

import json
import re
import shlex
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from agora.core.trajectory import Call, Step

_LONGEST = 8_192
"""Characters of an action that are parsed; a longer one counts as a change."""

# The first word of a tool that reads, unless another word changes something.
_READ_WORDS = frozenset(
    """
    get list find search read view fetch describe retrieve show lookup query browse inspect glob
    grep ls cat count calculate compute compare preview summarize explain think whoami
    obtener buscar leer consultar listar obter ler pesquisar leggere lesen suchen abrufen lire
    chercher afficher consulter zoeken läsa hämta szukaj getir получить найти прочитать показать
    """.split()
)
_CHANGE_WORDS = frozenset(
    """
    and or then create update set delete replace send start stop add insert upsert save edit write
    remove apply cancel submit reset clear lock approve assign execute run pay sign y e o und oder
    et ou и или crear actualizar eliminar borrar reemplazar escribir enviar criar apagar ersetzen
    schreiben löschen erstellen supprimer remplacer écrire créer удалить изменить создать записать
    """.split()
)
_UNSPACED_READ = re.compile(
    r"(?:查询|查找|搜索|获取|读取|検索|取得|검색|조회)(?!.*[删改写建发消除作変更送予約并삭변생수예])"
)
_NOT_A_LIST = re.compile(r"list_(?!all|my|dir)[^_]*[^s_](?:_|\Z)")
_REQUESTS = frozenset("http https request rest api web url curl call send make".split())
# A tool with such a name alone runs its command.
_RUNNERS = frozenset("bash shell terminal console command cmd run exec execute local".split())
_PROGRAM = re.compile(r"[(;={]|\A\s*[A-Z]+\s+(?:INTO|FROM|TABLE)\b")
_COMMAND_KEYS = ("command", "cmd", "commands", "bash_command", "shell_command")
_QUERY_KEYS = ("sql", "query", "q", "statement")
_CODE_KEYS = ("code", "script", "function", *_QUERY_KEYS)
# Text actions of agents that move through rooms and pages.
_LOOK = re.compile(
    r"think\b.*|(?:look|examine|inventory|search|find|read|view)\b(?!.* -)[^\n;|&<>`$]*"
)

_SHELL_READS = frozenset(
    """
    cat head tail ls grep egrep fgrep zgrep zcat wc pwd nl cd stat du df which echo printf cut tr
    basename dirname realpath readlink diff cmp comm strings od hexdump printenv whoami id uname ps
    free true false test [ jq rev tac paste join md5sum sha256sum type nproc Get-Content
    """.split()
)
# These read unless one of their words has this form.
_READS_UNLESS = {
    "find": r"-(?:exec|ok|delete|fprint|fls).*",
    "sort": r"-[^-]*[oT].*|--[oct].*",
    "uniq": r"[^-].*",
    "rg": r"--(?:pre|hostname).*",
    "git": r"-O.*|--(?:ou|op|ext).*",
    "awk": r"-[^Fv].*|.*(?:[>|@]|system|getline|close).*",
    "curl": r"-(?!(?:[sSLfkIiH]+|-silent|-location|-fail|-head|-header)\Z).*",
}
_GIT_READS = frozenset(
    "status log show diff blame grep ls-files ls-tree rev-parse rev-list describe shortlog".split()
)
_SED_PRINTS = re.compile(r"(?:/[^/\\\n]*/|[0-9$,+;=p ])+")
_TOKEN = re.compile(
    r"(?P<skip>[ \t\r]+|\\\n|[12]?>[ ]?/dev/null(?=[\s;|]|\Z)|2>&1|<(?![<(&>])|(?<!\S)\#[^\n]*)"
    r"|(?P<end>&&|\|\||[;|\n])"
    r"""|(?P<word>(?:'[^']*'|"(?:[^"\\$`]|\\.)*"|\\.|\$\w|\$\{\w+\}|[^\s'"\\;|&<>()`$])+)"""
)
_QUOTED = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)""", re.DOTALL)


_QUERY = re.compile(r"\s*(?:SELECT|WITH|SHOW|DESC|DESCRIBE|PRAGMA)\b[^;#$\\]*;?\s*", re.IGNORECASE)
_QUERY_CHANGES = re.compile(
    r"--|/\*|['\"`]\s*\(|\A\s*PRAGMA[^=]*=|\b(?:INTO|INSERT|UPDATE|DELETE|CALL|EXEC|LOCK)\b",
    re.IGNORECASE,
)
_QUERY_FUNCTIONS = frozenset(
    """
    count sum avg min max abs round lower upper length cast strftime distinct in as over and or not
    where from join on select by having exists table_info
    """.split()
)


class Tools(NamedTuple):
    """Names of tools that are known to read, or to change something."""

    reading: Collection[str] = ()
    changing: Collection[str] = ()

    def with_declared(self, reading: Collection[str], changing: Collection[str]) -> "Tools":
        """Return these lists with the tools' own declarations, which come first.

        >>> Tools(("peek",), ("ship",)).with_declared((), ("peek",))
        Tools(reading=(), changing=('peek', 'ship'))
        """
        return Tools(
            (*reading, *(name for name in self.reading if name not in changing)),
            (*changing, *(name for name in self.changing if name not in reading)),
        )


NO_TOOLS = Tools()


def changes(step: Step, tools: Tools = NO_TOOLS) -> bool:
    r"""Return True unless every call or command of the step is known to read.

    >>> booking = Call("book_reservation", '{"id": "EHGLP3"}')
    >>> changes(Step(number=1, action="", observation="", tokens=9, calls=(booking,)))
    True
    >>> changes(Step(number=2, action="```bash\ngrep -rn key .\n```", observation="", tokens=9))
    False
    """
    if step.calls:
        return not all(reads_only(call, tools) for call in step.calls)
    command = command_of(step.action)
    return not _command_reads(command) and not _LOOK.fullmatch(command.lower())


def reads_only(call: Call, tools: Tools = NO_TOOLS) -> bool:
    """Return True if the call is known to change nothing.

    >>> reads_only(Call("get_order", '{"id": "W-1"}')), reads_only(Call("frobnicate", "{}"))
    (True, False)
    """
    if call.name in tools.changing or call.name in tools.reading:
        return call.name not in tools.changing
    return len(call.arguments) <= _LONGEST and _call_reads(call.name, call.arguments)


_FENCED = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_FENCE_TAG = re.compile(r"^[ \t]*```([^\n]*)", re.MULTILINE)
_CODE_TAG = re.compile(r"<code>\n?(.*?)</code>", re.DOTALL)


def command_of(action: str) -> str:
    """Return the last fenced block of a text action, or all of it."""
    for mark, block in (("```", _FENCED), ("<code>", _CODE_TAG)):
        if mark in action and (blocks := block.findall(action[-_LONGEST:])):
            return str(blocks[-1]).strip()
    return action.strip()


def only_command(action: str) -> str:
    r"""Return the command of a text action, or "" where several blocks could be the command.

    Of several fenced blocks it is the last, if nothing follows it and no other has its tag.

    >>> only_command("Look.\n```bash\nls\n```"), only_command("```\na\n``` or\n```\nb\n```")
    ('ls', '')
    """
    if len(action) > _LONGEST or action.count("<code>") > 1:
        return ""
    tags = [tag.strip() for tag in _FENCE_TAG.findall(action)]
    if len(tags) % 2 or (tags and "<code>" in action):
        return ""
    opened = tags[::2]
    if len(opened) > 1 and (opened.count(opened[-1]) > 1 or not action.rstrip().endswith("```")):
        return ""
    return command_of(action)


@lru_cache(maxsize=1_024)
def _call_reads(name: str, arguments: str) -> bool:
    tool = re.split(r"__|[.:/]", name)[-1]  # The rest is the name of a server.
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\dA-Z_]+", tool)]
    try:
        values = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return False
    if not words or not isinstance(values, dict) or _argument_changes(values):
        return False
    commands = [_one_line(values[key]) for key in _COMMAND_KEYS if values.get(key) is not None]
    if commands == ["view"] and "path" in values:  # Editors name their action in an argument.
        return True
    commands += [str(values[key]) for key in _QUERY_KEYS if _QUERY.match(str(values.get(key)))]
    if commands or _RUNNERS.issuperset(words):
        return bool(commands) and all(map(_command_reads, commands))
    if _UNSPACED_READ.match(tool) or ("method" in values and _REQUESTS.issuperset(words)):
        return True
    plain = not _CHANGE_WORDS.intersection(words) and not _NOT_A_LIST.match("_".join(words))
    # A server's name may come first: `github_get_issue`.
    return plain and (words[0] in _READ_WORDS or words[1:2] == ["get"])


def _argument_changes(values: Mapping[str, Any]) -> bool:
    """Return True if an argument may change something, whatever the tool's name is."""
    if str(values.get("method", "GET")).upper() not in ("GET", "HEAD", "OPTIONS"):
        return True
    if any(values.get(key) for key in ("body", "data", "json", "payload", "form")):
        return True
    verbs = [str(values[key]) for key in ("action", "operation", "op", "verb") if key in values]
    if any(verb.partition("_")[0].lower() not in _READ_WORDS for verb in verbs):
        return True
    # A program or a statement has signs; a search has words.
    code = [str(values[key]) for key in _CODE_KEYS if key in values]
    return any(_PROGRAM.search(text) and not _command_reads(text) for text in code)


def _one_line(command: object) -> str:
    return shlex.join(map(str, command)) if isinstance(command, list) else str(command)


@lru_cache(maxsize=1_024)
def _command_reads(command: str) -> bool:
    """Return True if a shell command or a query is known to change nothing."""
    if _QUERY.fullmatch(command):
        functions = {name.lower() for name in re.findall(r"([\w.]+)\s*\(", command)}
        return functions <= _QUERY_FUNCTIONS and _QUERY_CHANGES.search(command) is None
    line: list[list[str]] = [[]]
    at = 0
    while at < len(command) <= _LONGEST:
        token = _TOKEN.match(command, at)
        if token is None:
            return False
        at = token.end()
        if token["end"]:
            line.append([])
        elif token["word"]:
            line[-1].append(_QUOTED.sub(lambda m: m[1] or m[2] or m[3] or "", token["word"]))
    return at > 0 and any(line) and all(_words_read(words) for words in line if words)


def _words_read(words: list[str]) -> bool:
    name, *rest = words
    if name in ("bash", "sh", "zsh"):
        return len(rest) == 2 and rest[0] in ("-c", "-lc") and _command_reads(rest[1])
    if name == "sed":
        prints = len(rest) > 1 and rest[0] == "-n" and _SED_PRINTS.fullmatch(rest[1])
        return bool(prints) and not any(word.startswith("-") for word in rest[2:])
    if name in _READS_UNLESS:
        writes = re.compile(_READS_UNLESS[name], re.DOTALL)
        known = name != "git" or (rest[:1] != [] and rest[0] in _GIT_READS)
        return known and not any(map(writes.fullmatch, rest))
    return name in _SHELL_READS

"""Which commands only read: the few that are known to, in a line that writes to no file.

The grammar is a part of the shell's: words and quotes, pipes and lists of commands, redirections.
What it does not know, a loop or a substitution, is not known to read.
"""

import ast
import re
from collections.abc import Sequence

from agora.core.reading.programs import awk_reads, sed_reads
from agora.core.reading.vocabulary import word_map, word_set

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+|\\\n)|(?P<comment>(?:(?<=\s)|\A)\#[^\n]*)"""
    r"""|(?P<end>&&|\|\||;|\|&?|\n)|(?P<same>[0-9]?>&[0-9-])|(?P<into>&>>?|[0-9]?>>?\|?)|(?P<from><)"""
    r"""|(?P<word>(?:'[^']*'|"(?:[^"\\$`]|\\.)*"|\\.|[^\s'"\\;|&<>()`$#]|(?<=\S)\#|\$\w|\$\?|\$\{\w+\})+)"""
)
_SAFE_FILES = frozenset({"/dev/null", "/dev/stderr", "/dev/stdout"})
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
_READS = word_set("shell", "reads")
_READS_BUT = word_map("shell", "reads_but")
_READS_WITH = word_map("shell", "reads_with")
_BEFORE = word_set("shell", "before")
_OPTION = re.compile(r"-|[0-9.]+[smhd]?\Z")
_SHELLS = word_set("shell", "shells")
_PYTHONS = word_set("shell", "pythons")
_MODULES = word_set("shell", "python_modules")
_WRITING = word_set("shell", "writing_options")
_CURL_LETTERS = re.compile(r"-(?!-)[sSLkIifvgGNn46#]*+(?:[HAeubxmwrz].*+)?\Z", re.DOTALL)
"""Letters of curl that neither send anything nor write a file; the last may have a value."""
_CURL_OPTIONS = word_set("shell", "curl_options")
_TAR_WRITES = frozenset("xcruA")
_READS_ONE = {"hostname": 1, "uniq": 2, "xxd": 2}
"""So many words, besides options and their numbers, turn these into commands that write."""
_NUMBER = re.compile(r"0x[0-9a-fA-F]+\Z|[0-9]+\Z")
_CLOCK = re.compile(r"[0-9.]{8,}\Z")
_HELP = frozenset({"--help", "--version"})
_DATABASES = word_set("shell", "databases")
_FILE = re.compile(r"-[fo]\b|--(?:file|output)\b")
_PLAIN = re.compile(r"[\w./:@%+=,~-]+\Z")
"""What stands beside a query: names, options and their values, and no second statement."""
_QUERY = re.compile(
    r"\s*+(?:SELECT|SHOW|DESC|DESCRIBE|EXPLAIN|PRAGMA\s+\w+\s*(?:\(|\Z|;)|WITH\s[^;]{1,200}?\bAS\s*\()"
    r"(?:\b|(?<=\())",
    re.IGNORECASE,
)
"""What a query begins with that only reads."""
_QUERY_CHANGES = re.compile(
    r"\b(?:INSERT|UPDATE|DELETE|MERGE|REPLACE\s+INTO|CREATE|DROP|ALTER|TRUNCATE|GRANT|REVOKE|INTO"
    r"|CALL|EXEC|EXECUTE|COPY|LOCK|NEXTVAL|SETVAL|VACUUM|ANALYZE)\b",
    re.IGNORECASE,
)
_FUNCTIONS = word_set("shell", "query_functions")
_CALLED = re.compile(r"\b(\w+)\s*\(")
_LITERAL = re.compile(r"'(?:[^']|'')*'")
_SAFE_CALLS = word_set("shell", "python_calls")
_CALLERS = word_set("shell", "python_callers")
_CALLBACKS = word_set("shell", "python_callbacks")


def only_reads(command: str) -> bool:
    r"""Tell whether a command line is known to change nothing.

    >>> only_reads("cd /app && git log --oneline 2>/dev/null | head -5")
    True
    >>> only_reads("grep -n key *.py > found.txt"), only_reads("deploy --all")
    (False, False)
    """
    if "<<" in command:
        return False
    commands = _commands(command.strip())
    return bool(commands) and all(map(_reads, commands))


def _commands(line: str) -> list[list[str]]:
    """Return the commands of a line as words; nothing of one that writes or cannot be read."""
    commands: list[list[str]] = [[]]
    at = 0
    # Which redirection waits for its file: what is read from one is no word of the command.
    redirected = ""
    while at < len(line):
        token = _TOKEN.match(line, at)
        if token is None:
            return []
        at = token.end()
        kind = str(token.lastgroup)
        if kind == "word":
            word = _unquoted(token[0])
            if redirected == "into" and word not in _SAFE_FILES:
                return []
            if not redirected:
                commands[-1].append(word)
            redirected = ""
        elif kind in ("into", "from"):
            redirected = kind
        elif kind == "end":
            commands.append([])
    return [words for words in commands if words] if redirected != "into" else []


def _unquoted(word: str) -> str:
    return re.sub(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)""", _inner, word, flags=re.DOTALL)


def _inner(found: re.Match[str]) -> str:
    return next(group for group in found.groups() if group is not None)


def _reads(words: Sequence[str]) -> bool:
    """Tell whether one command is known to change nothing."""
    words = _own(words)
    if not words:
        return True
    name = words[0].rpartition("/")[2]
    given = words[1:]
    if len(given) == 1 and given[0] in _HELP:
        return True
    if name in ("awk", "gawk", "mawk"):
        return awk_reads(given)
    if name == "sed":
        return sed_reads(given)
    if name in _SHELLS:
        return len(given) == 2 and given[0] in ("-c", "-lc") and only_reads(given[1])
    if name in _PYTHONS:
        return _python_reads(given)
    if name == "find" and "-exec" in given:
        at = given.index("-exec")
        end = next((n for n, word in enumerate(given) if n > at and word in (";", "+")), len(given))
        return _reads(given[at + 1 : end]) and _reads([name, *given[:at], *given[end + 1 :]])
    if name in _DATABASES:
        beside = [one for one in given if not query_reads(one)]
        plain = all(_PLAIN.match(one) and not _QUERY_CHANGES.search(one) for one in beside)
        return len(given) == len(beside) + 1 and plain and not any(map(_FILE.match, given))
    if any(one.partition("=")[0] in _WRITING for one in given):
        return False
    if name == "curl":
        return all(map(_curl_reads, given))
    if name == "tar":
        letters = given[0] if given else ""
        return "t" in letters and _TAR_WRITES.isdisjoint(letters) and not letters.startswith("--")
    if _words_write(name, given):
        return False
    if name in _READS:
        return True
    if name in _READS_BUT:
        return not any(one.split("=")[0] in _READS_BUT[name] for one in given) and not any(
            one[:2] in _READS_BUT[name] for one in given if one[:1] == "-" and one[1:2] != "-"
        )
    if name in _READS_WITH:
        writes = name != "kubectl" and any(one.startswith(("-o", "-w")) for one in given)
        return not writes and _subcommand(given) in _READS_WITH[name]
    return False


def query_reads(query: str) -> bool:
    """Tell whether a query of a database is known to change nothing.

    >>> query_reads("SELECT name FROM t WHERE a > 3"), query_reads("WITH x AS (DELETE FROM t) ...")
    (True, False)
    """
    if not _QUERY.match(query):
        return False
    query = _LITERAL.sub("''", query)
    called = {name.lower() for name in _CALLED.findall(query)}
    return called <= _FUNCTIONS and _QUERY_CHANGES.search(query) is None


def _own(words: Sequence[str]) -> Sequence[str]:
    """Return a command without what only prepares for it: `sudo`, `X=1`, `timeout 5`."""
    at = 0
    while at < len(words):
        if _ASSIGNED.match(words[at]) or words[at] == "!":
            at += 1
        elif words[at] in _BEFORE:
            at += 1
            while at < len(words) and _OPTION.match(words[at]):
                at += 1
        else:
            break
    return words[at:]


def _words_write(name: str, given: Sequence[str]) -> bool:
    """Tell whether words make a command write that reads without: a file, a new time or name."""
    words = [
        one
        for before, one in zip(["", *given], given, strict=False)
        if not one.startswith("-") and not (before.startswith("-") and _NUMBER.match(one))
    ]
    if name in ("less", "more"):
        return any(one.startswith("+") for one in words)
    if name == "date":
        return any(map(_CLOCK.match, words))
    return name in _READS_ONE and len(words) >= _READS_ONE[name]


def _curl_reads(word: str) -> bool:
    if "%output" in word:
        return False
    if word.startswith("--"):
        return word.partition("=")[0] in _CURL_OPTIONS
    return not word.startswith("-") or bool(_CURL_LETTERS.match(word))


def _subcommand(given: Sequence[str]) -> str:
    """Return the words that say what a command of many does: `stash list`, or its first."""
    words = [one for one in given if not one.startswith("-")]
    flags = [one for one in given if one.startswith("-")]
    if any(one in _HELP for one in flags):
        return "--help"
    first = words[0] if words else ""
    if first in _TWO_WORDS:
        second = words[1] if len(words) > 1 else ""
        return f"{first}-{second or (flags[0].lstrip('-') if flags else '')}".rstrip("-")
    return first


_TWO_WORDS = word_set("shell", "two_words")


def _python_reads(given: Sequence[str]) -> bool:
    if len(given) > 1 and given[0] == "-m":
        return given[1] in _MODULES
    return len(given) >= 2 and given[0] == "-c" and python_reads(given[1])


def python_reads(code: str) -> bool:
    """Tell whether Python code calls nothing but what is known to change nothing.

    >>> python_reads("import json; print(json.load(open('a.json'))['x'])")
    True
    >>> python_reads("open('a', 'w').write('x')")
    False
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    nodes = list(ast.walk(tree))
    # A name that is trusted may be a variable, but then it may not be called.
    trusted = (_SAFE_CALLS | {"open"}) & {name for node in nodes for name in _bound(node)}
    called = {name for node in nodes for name in _called(node)}
    return trusted.isdisjoint(called) and all(map(_is_safe, nodes))


def _bound(node: ast.AST) -> list[str]:
    """Return the names that something gets here."""
    if isinstance(node, ast.Name):
        return [] if isinstance(node.ctx, ast.Load) else [node.id]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.name]
    if isinstance(node, ast.alias):
        return [node.asname] if node.asname else []
    return [node.arg] if isinstance(node, ast.arg) else []


def _called(node: ast.AST) -> list[str]:
    """Return the plain names that a call calls, or hands on to be called."""
    if not isinstance(node, ast.Call):
        return []
    handed = [one.value for one in node.keywords if one.arg in _CALLBACKS]
    if _last_name(node.func) in _CALLERS:
        handed += node.args[:1]
    return [one.id for one in (node.func, *handed) if isinstance(one, ast.Name)]


def _is_safe(node: ast.AST) -> bool:
    if isinstance(node, ast.Delete | ast.Global | ast.ClassDef):
        return False
    if isinstance(node, ast.Attribute | ast.Subscript):
        return isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return not node.decorator_list
    if not isinstance(node, ast.Call):
        return True
    name = _last_name(node.func)
    if any(one.arg in _CALLBACKS and not _may_be_called(one.value) for one in node.keywords):
        return False
    if name in _CALLERS and not all(map(_may_be_called, node.args[:1])) and len(node.args) > 1:
        return False
    if name == "open":
        given = [
            *node.args[1:2],
            *[one.value for one in node.keywords if one.arg in ("mode", None)],
        ]
        return not isinstance(node.args[0] if node.args else None, ast.Starred) and all(
            isinstance(one, ast.Constant) and one.value in ("r", "rb", "rt") for one in given
        )
    return name in _SAFE_CALLS


def _last_name(node: ast.AST) -> str:
    """Return the name that stands last: `remove` of `os.remove`."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _may_be_called(node: ast.AST) -> bool:
    return isinstance(node, ast.Lambda | ast.Constant) or _last_name(node) in _SAFE_CALLS

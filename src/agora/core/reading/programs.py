"""Which programs of sed and awk only print: all of their commands and options are known."""

import re
from collections.abc import Sequence

_SED_OPTION = re.compile(
    r"--(?:quiet|silent|regexp-extended|null-data|separate|posix|unbuffered|debug)\Z|-[nErsuz]+\Z"
)
_ADDRESS = r"(?:[0-9]++(?:~[0-9]++)?|\$|/(?:[^/\\\n]|\\.)*/I?)"
_SED_COMMAND = re.compile(
    rf"[\s;]*+(?:{_ADDRESS}(?:\s*,\s*(?:{_ADDRESS}|[+~][0-9]++))?)?\s*+!?\s*+"
    r"(?:[{}]|(?:[=dDgGhHnNpPx]|[lqQ]\s*+[0-9]*+)(?=[\s;}]|\Z)"
    # Another sign may stand for the slash, and a `w` or an `e` at the end would write or execute.
    r"|(?:s([^\w\s\\])(?:(?!\1)[^\\\n]|\\.)*\1(?:(?!\1)[^\\]|\\.)*\1[gpiIMm0-9]*+"
    r"|y([^\w\s\\])(?:(?!\2)[^\\\n]|\\.)*\2(?:(?!\2)[^\\\n]|\\.)*\2)(?=[\s;}]|\Z))[\s;]*+",
    re.DOTALL,
)
_AWK_WRITES = re.compile(
    r""">>|>\s*["']|\bsystem\s*\(|(?<!\|)\|(?!\|)|@\w+\s*\(|@(?:load|include)"""
)


def sed_reads(given: Sequence[str]) -> bool:
    r"""Tell whether sed with these arguments is known to change no file and to run nothing.

    >>> sed_reads(["-n", "1,40p", "a.py"]), sed_reads(["-i", "s/a/b/", "a.py"])
    (True, False)
    """
    programs, words = [], []
    rest = iter(given)
    for one in rest:
        name, _, value = one.partition("=")
        if name == "--expression" and value:
            programs.append(value)
        elif name == "--expression" or (_ends_in_e(one) and _SED_OPTION.match(f"{one[:-1]}n")):
            programs.append(next(rest, ""))
        elif one.startswith("-") and one != "-":
            if not _SED_OPTION.match(one):
                return False
        else:
            words.append(one)
    return all(map(_sed_prints, programs or words[:1]))


def _ends_in_e(option: str) -> bool:
    return option.startswith("-") and not option.startswith("--") and option.endswith("e")


def _sed_prints(program: str) -> bool:
    at = 0
    while at < len(program):
        found = _SED_COMMAND.match(program, at)
        if found is None:
            return False
        at = found.end()
    return True


def awk_reads(given: Sequence[str]) -> bool:
    """Tell whether awk with these arguments is known to change no file and to run nothing.

    >>> awk_reads(["-F", ":", "{print $1}", "a"]), awk_reads(["-f", "program.awk", "a"])
    (True, False)
    """
    rest = iter(given)
    for one in rest:
        if one in ("-F", "-v"):
            next(rest, None)
        elif not one.startswith("-"):
            return not _awk_writes(one)
        elif not one.startswith(("-F", "-v")):
            return False
    return False


def _awk_writes(program: str) -> bool:
    # In one block: what is compared before it prints is no file.
    into = any(">" in block.partition("print")[2] for block in program.split("}"))
    return into or _AWK_WRITES.search(program) is not None

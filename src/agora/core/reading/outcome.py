"""How a call went, as its result says by its own structure, and the line that says why it failed.

That a call went well is never said; an exit code 0 that belongs to it is repeated. That it failed
is said where a code, a field of the result or the place of an error's line says so. Of anything
else nothing is said: what a text is about is not how a call went.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agora.core.reading.cutting import CUT, cut, printable
from agora.core.reading.literals import Number, Truth
from agora.core.reading.names import reads_as_orders
from agora.core.reading.values import NO_VALUES, Values, values_in
from agora.core.reading.vocabulary import bare_name, word_list, word_set

REASON_CHARACTERS = 160
"""How much of an error's own line is repeated; what is longer is cut, and shows it."""
_READ_ENDS = 2_000

_CODE = r"(-?\d{1,10})"
_EXIT_FIRST = re.compile(
    rf"\s*<(?:returncode|exit_code|return_code)>\s*{_CODE}\s*</"
    rf"|\s*(?:[Ee]xit ?code|EXIT CODE)[:=]?\s*{_CODE}[ \t.]*(?:\n|\Z)"
    rf"|\s*exitcode: {_CODE} \(execution"
    rf"|\s*(?:The )?(?:[Cc]ommand|[Pp]rocess) (?:failed|exited|finished|completed)"
    rf" with (?:exit )?code:? {_CODE}\b"
    rf"|\s*rc={_CODE}\s*\Z"
)
"""An exit code with which a result opens, as programs that run commands write it."""
_EXIT_HEADER = re.compile(rf"^(?:Process exited with code|Exit code:) {_CODE}$", re.MULTILINE)
_OUTPUT = re.compile(r"^Output:", re.MULTILINE)
_EXIT_LAST = re.compile(
    r"(?:^|\n)[\[(<]?(?:(?:The )?(?:[Cc]ommand|[Pp]rocess) (?:failed|exited|finished|completed)"
    rf" with (?:exit )?code:? {_CODE}\.?"
    rf"|[Ee]xit(?:ed with)?[ _]?(?:code|status)[:=]? {_CODE}|(?<=\[)exit {_CODE}(?=\]))[\])>.]?"
    r"(?:\n\[[^\n]{0,300}\]){0,3}\s*\Z"
)
"""One with which it closes; behind it only lines in brackets."""

_FAILS = word_set("outcome", "fails")
_NOTHING = word_set("outcome", "nothing")
_ERROR_KEYS = word_set("outcome", "error_keys")
_WENT_KEYS = word_set("outcome", "went_keys")
_BROKE_KEYS = word_set("outcome", "broke_keys")
_EXIT_KEYS = word_set("outcome", "exit_keys")
_STATUS_KEYS = word_set("outcome", "status_keys")
_REASON_KEYS = word_list("outcome", "reason_keys")
_ENVELOPES = word_set("outcome", "envelopes")
_FENCED = re.compile(r"\s*```[a-z]{0,12}\n(.*?)\n?```\s*\Z", re.DOTALL)

_HEADED = re.compile(
    r"(?:[^\w\s]{1,3} ?)?(?P<head>[^\W\d_][\w ./()\[\]*-]{0,60}?)(?:\[\w{1,12}\])?\s?[:：]"
)
"""What stands before the first colon of a line, which says whose line it is."""
_TRACEBACK = "Traceback (most recent call last):"
_RAISED = re.compile(
    r"(?:[A-Za-z_]\w{0,60}\.){0,6}"
    r"[A-Z]\w{0,60}(?:: .+|(?<=Error)|(?<=Exception)|(?<=Interrupt)|(?<=Exit))\Z"
)
_OPENS_FAILED = re.compile("|".join(word_list("outcome", "openings")))
_CLOSES_FAILED = re.compile("|".join(word_list("outcome", "closings")))


class Outcome(NamedTuple):
    """What a result says of how the call went."""

    said: str = ""
    """`error`, `exit 1`, `exit 0`, or nothing where nothing tells."""
    reason: str = ""
    """The line or the field that says why it failed, copied from the result."""

    @property
    def failed(self) -> bool:
        """Whether it says that the call failed."""
        return self.said not in ("", "exit 0")


_SAYS_NOTHING = Outcome()


def outcome_of(text: str, data: Values = NO_VALUES) -> Outcome:
    r"""Return what a result says of how its call went; `data` are the values of one that is data.

    >>> outcome_of("boom\n[Command finished with exit code 127]")
    Outcome(said='exit 127', reason='boom')
    >>> outcome_of("The errors\nTypeError: raised when a type is wrong.")
    Outcome(said='', reason='')
    """
    if data.values and data.whole:
        said = _of_values(data.values)
        behind = outcome_of(data.rest) if data.rest else _SAYS_NOTHING
        return behind if behind.failed or not said.said else said
    fenced = _FENCED.match(text) if text.startswith("```") else None
    if fenced:
        inside = values_in(fenced[1])
        return _of_values(inside.values) if inside.whole else _by_text(fenced[1])
    return _by_code(text) or _by_text(text)


def reason_in(text: str) -> str:
    r"""Return the line of a failed call's result that says why, or nothing if it has no line.

    >>> reason_in("collected 2\nFAILED a.py::test_b - assert 1 == 2\n1 failed, 1 passed in 0.1s")
    'FAILED a.py::test_b - assert 1 == 2 … 1 failed, 1 passed in 0.1s'
    >>> reason_in('Traceback (most recent call last):\n  File "a"\nKeyError: 3\n')
    'KeyError: 3'
    >>> reason_in("paths are ignored:\nbuild\nhint: Use -f to add them.")
    'build'
    """
    lines = _lines(text)
    raised = _raised(lines)
    if raised:
        return _cut(raised)
    closing = next((line for line in reversed(lines) if _closes(line)), "")
    if closing:
        named = [line for line in lines if _FAILING.match(line) and line != closing]
        return _cut(f" {CUT} ".join([*named[:_MOST_FAILING], closing]))
    for telling in (_opens, _speaks_of_an_error):
        for line in lines:
            if telling(line):
                return _cut(line)
    told = [line for line in lines if not line.startswith(_ADVICE)]
    return _cut((told or lines)[-1]) if lines else ""


def _lines(text: str) -> list[str]:
    """Return the lines at both ends of a text that have anything in them, without their margins."""
    if len(text) > 2 * _READ_ENDS:
        text = f"{text[:_READ_ENDS]}\n{text[-_READ_ENDS:]}"
    return [line for one in text.splitlines() if (line := one.strip()) and not _BRACKET.match(line)]


_BRACKET = re.compile(
    r"</?\w{1,30}>\Z|```|<(?:returncode|exit_code|return_code)>-?\d{1,10}</\w{1,30}>\Z"
    r"|[\[(]?(?:(?:The )?(?:[Cc]ommand|[Pp]rocess) \w{1,12} with (?:exit )?code:?"
    r"|[Ee]xit ?(?:code|status)?[:=]?|rc=) ?-?\d{1,10}\.?[\])]?\Z"
    r"|\[Current working directory: |Output:\Z|Wall time: |Chunk ID: "
)
"""Lines of a frame, which say nothing of their own."""
_FAILING = re.compile(r"(?:FAILED|ERROR|--- FAIL:|FAIL:?|not ok|✗|✕|●) \S")
_MOST_FAILING = 2
"""So many lines that name a failing test stand before the one that sums them up."""
_TAGS = re.compile(r"\A(?:<\w{1,30}>)+|(?:</\w{1,30}>)+\Z")


def _cut(line: str) -> str:
    line = _TAGS.sub("", line).strip()
    if reads_as_orders(line):
        return ""
    line = printable(line)
    return line if len(line) <= REASON_CHARACTERS else cut(line, REASON_CHARACTERS)


def _by_code(text: str) -> Outcome | None:
    """Return what an exit code says that belongs to the call: at the head or at the very end."""
    head = text[:_READ_ENDS]
    found = _EXIT_FIRST.match(head)
    if found is None and (output := _OUTPUT.search(head)):
        found = _EXIT_HEADER.search(head, 0, output.start())
    if found is None:
        found = _EXIT_LAST.search(text[-_READ_ENDS:])
    if found is None:
        return None
    code = int(next(group for group in found.groups() if group is not None))
    if not code and found.re is _EXIT_LAST and _by_text(text[: -len(found[0])]).failed:
        # What the text opens with and what it closes with speak against each other.
        return None
    return Outcome(f"exit {code}", reason_in(text) if code else "")


def _by_text(text: str) -> Outcome:
    """Return what the first line and the last ones of a text say."""
    lines = _lines(text)
    if not lines:
        return _SAYS_NOTHING
    if _raised(lines) or _opens(lines[0]) or _closes(lines[-1]):
        return Outcome("error", reason_in(text))
    return _SAYS_NOTHING


def _raised(lines: Sequence[str]) -> str:
    """Return the error with which a traceback ends, if the text begins or ends with it."""
    if _TRACEBACK not in lines:
        return ""
    last = len(lines) - 1 - lines[::-1].index(_TRACEBACK)
    if lines[0] == _TRACEBACK or _RAISED.match(lines[-1]):
        for line in lines[last + 1 :]:
            if _RAISED.match(line):
                return line
    return ""


def _opens(line: str) -> bool:
    """Tell whether a line is an error's own: what it opens with says so."""
    headed = _HEADED.match(line)
    rest = line[headed.end() :].strip().lower() if headed else line
    if rest.partition(",")[0].strip(".") in _NOTHING:
        return False
    if _OPENS_FAILED.match(line):
        return True
    if headed is None:
        return False
    words = headed["head"].lower().split()
    return words[-1] in _FAILS or (words[0] in _FAILS and len(words) > 2)


def _closes(line: str) -> bool:
    """Tell whether a line is how a run that failed ends."""
    return _CLOSES_FAILED.search(line) is not None


def _speaks_of_an_error(line: str) -> bool:
    line = line.lower()
    return any(map(line.__contains__, _SPOKEN))


_SPOKEN = word_list("outcome", "spoken")
_ADVICE = "hint:"
"""What git begins advice with: what to do, and not what went wrong."""


def _of_values(values: Sequence[Any]) -> Outcome:
    """Return what the fields of a result that is data say."""
    only = values[0] if len(values) == 1 else list(values)
    if isinstance(only, dict):
        return _of_object(only, envelopes=True)
    if isinstance(only, list) and only and all(isinstance(one, dict) for one in only):
        each = [_of_object(one, envelopes=False) for one in only]
        if all(one.failed for one in each):
            return each[0]
    return _SAYS_NOTHING


def _of_object(found: Mapping[str, Any], *, envelopes: bool) -> Outcome:
    fields = {bare_name(key): value for key, value in found.items()}
    codes = [
        code for key in fields if key in _EXIT_KEYS and (code := _number(fields[key])) is not None
    ]
    if any(codes):
        return Outcome(f"exit {next(filter(None, codes))}", _reason(fields))
    if any(_fails(key, value, fields) for key, value in fields.items()):
        return Outcome("error", _reason(fields))
    said = [
        _of_object(value, envelopes=False)
        for key, value in fields.items()
        if envelopes and key in _ENVELOPES and isinstance(value, dict)
    ]
    for inner in said:
        if inner.failed:
            return inner if inner.reason else inner._replace(reason=_reason(fields))
    if fields.get("signal"):
        return _SAYS_NOTHING
    return Outcome("exit 0") if codes or Outcome("exit 0") in said else _SAYS_NOTHING


def _fails(key: str, value: Any, fields: Mapping[str, Any]) -> bool:
    """Tell whether a field says that the call failed."""
    if key in _ERROR_KEYS:
        return _is_an_error(value) and not fields.keys() & _LISTS
    if key in _WENT_KEYS:
        return str(value).lower() == "false"
    if key in _BROKE_KEYS:
        return str(value).lower() == "true"
    if key not in _STATUS_KEYS:
        return False
    if (code := _number(value)) is not None:
        explained = not _EXPLAINS.isdisjoint(fields) or {"type", "title"} <= fields.keys()
        return 400 <= code < 600 and (explained or key == "statuscode")
    # Beside fields of its own a state is that of what was asked for.
    return str(value).lower() in _STATES and fields.keys() <= _ANSWERS


_LISTS = frozenset({"total", "count", "page", "next", "hits"})
"""Beside these, errors are what was looked for."""
_STATES = word_set("outcome", "states")
_EXPLAINS = word_set("outcome", "explains")
_ANSWERS = word_set("outcome", "answers")


def _is_an_error(value: Any) -> bool:
    if isinstance(value, dict | list):
        return bool(value)
    if isinstance(value, Number) and not isinstance(value, Truth):
        return False
    return value is not None and str(value).strip().lower() not in _NOTHING


def _number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    text = str(value)
    return int(text) if len(text) <= 10 and text.lstrip("-").isdigit() else None


def _reason(fields: Mapping[str, Any], depth: int = 0) -> str:
    """Return the field of a failed call's result that says why."""
    for key in _REASON_KEYS:
        for text in _texts(fields.get(bare_name(key)), depth):
            if text:
                return text
    return ""


def _texts(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield reason_in(value) if value.strip() else ""
    elif isinstance(value, dict) and depth < 3:
        yield _reason({bare_name(key): inner for key, inner in value.items()}, depth + 1)
    elif isinstance(value, list):
        for one in value[:3]:
            yield from _texts(one, depth + 1)


_ERRORS = word_list("outcome", "errors")
_ERROR_CHARACTERS = 300


def tells_an_error(observation: str) -> int:
    """Return 1 where an observation begins like an error, otherwise 0: a feature of worth."""
    beginning = observation[:_ERROR_CHARACTERS].lower()
    return int(any(map(beginning.__contains__, _ERRORS)))

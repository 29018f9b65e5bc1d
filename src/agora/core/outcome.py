"""How a call went, by the wire or by its result's own structure, and the error's own line.

Success is never inferred; an exit code 0 that belongs to the call is repeated. Without such a
structure the outcome is empty: the topic of a text is not how its call went.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from agora.core.facts import reads_as_orders
from agora.core.trajectory import Result

_ENDS = 2_000
"""Characters at each end of a text that are searched for an exit code and an error's line."""
_REASON_CHARACTERS = 160
_FRAMED_CHARACTERS = 800
_CODE = r"(-?\d{1,9})\b"
_ENDED = r"(?:the )?(?:command|process) (?:failed|exited|finished|completed) with (?:exit )?code:?"
_FIRST_EXIT = re.compile(
    rf"<(?:returncode|exit_code)>\s*{_CODE}\s*</|{_ENDED} {_CODE}"
    rf"|(?:exit ?code[:=]?|rc=) ?{_CODE}[ \t.]*(?:\Z|\n|\()"
    rf"|(?:chunk id|wall time):[^\n]*\n(?:[^\n]*\n){{0,3}}?process exited with code {_CODE}\n",
    re.IGNORECASE,
)
_LAST_EXIT = re.compile(
    rf"(?:\A|\n)(?:[\[(<]?(?:{_ENDED}|exit(?:ed with)?[ _]?(?:code|status)[:=]?)|\[exit) {_CODE}"
    r"[\])>.]*(?:\n\[[^\n]{0,300}\]){0,3}\s*\Z",
    re.IGNORECASE,
)
_ERROR = re.compile(
    r"(?:[\w./-]{1,120}(?:[(:]\d+[,:]?\d*\)?)?: )?(?i:(?:fatal )?error|fatal|panic|fehler|erreur"
    r"|errore|erro|ошибка|错误|エラー|오류|خطأ)(?: ?[\[(]?[A-Z]{0,4}\d{1,6}[\])]?)?\s?[:：]"
    r"(?!\s*(?:none|no|0|ok)?\.?(?:\n|\Z))|npm (?:ERR!|error) |HTTP/[\d.]+ [45]\d\d\b"
    r"|(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): |Traceback \(most recent call last\):"
    r"|(?:<\?xml[^>]{0,99}>\s*)?<(?:\w+:)?(?:tool_use_)?(?i:error|fault|exception)>"
)
_RAISED = re.compile(r"(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b(?:: .*)?\Z")
_FAILED = re.compile(r"error|fatal|fail|exception|cannot|no such|denied|invalid", re.IGNORECASE)
_FRAME = re.compile(
    rf"(?:</?\w+>|<\w+>-?\d+</\w+>|output:|wall time:.*|\[current working directory:.*"
    rf"|[\[(]?(?:{_ENDED}|exit ?(?:code|status)?[:=]?|rc=) ?-?\d+\.?[\])]?)\Z",
    re.IGNORECASE,
)
_NOTHING = frozenset({"", "0", "none", "null", "no", "false", "n/a", "ok", "no error", "success"})
_ERROR_KEYS = "error errors err errormessage exception fault faultstring".split()
_REASON_KEYS = """message error errors errormessage detail details reason msg errordescription
    description title faultstring err stderr output content text data""".split()
_STATES = {"error", "fail", "failure"}


class Outcome(NamedTuple):
    """How a call went: `error`, `exit 1`, `exit 0` or nothing, and the line with the reason."""

    status: str = ""
    reason: str = ""

    @property
    def failed(self) -> bool:
        """True if the call failed."""
        return self.status not in ("", "exit 0")


def outcome_of(result: Result) -> Outcome:
    r"""Return how the call of a result went.

    >>> outcome_of(Result("boom\n[Command finished with exit code 127]"))
    Outcome(status='exit 127', reason='boom')
    >>> outcome_of(Result("The errors\nTypeError: raised when a type is wrong."))
    Outcome(status='', reason='')
    """
    fields = _fields(result.text)
    status = _status_of_fields(fields) if fields else _status_of_text(result.text)
    if result.failed and status in ("", "exit 0"):
        status = "error"
    failed = Outcome(status).failed
    return Outcome(status, _reason(fields or result.text) if failed else "")


def body_of(text: str) -> str:
    r"""Return a short result without the lines of its frame; a longer one as it is.

    >>> body_of("<returncode>0</returncode>\n<output>\n273:    def load(self):\n</output>")
    '273:    def load(self):'
    """
    if len(text) > _FRAMED_CHARACTERS:
        return text
    lines = (line for line in text.splitlines() if not _FRAME.match(line.strip()))
    return "\n".join(lines).strip()


def _fields(value: Any) -> dict[str, Any]:
    """Return an object's fields by their names in lower case without signs: `iserror`."""
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.lstrip().startswith("{") else None
        except (ValueError, RecursionError):
            value = None
    names = sorted(value) if isinstance(value, dict) else []
    return {"".join(filter(str.isalnum, name)).lower(): value[name] for name in names}


def _status_of_text(text: str) -> str:
    first, last = text[:_ENDS].lstrip(), text[-_ENDS:].rstrip()
    raised = "\nTraceback (most" in last and _RAISED.match(last.rpartition("\n")[2])
    failed = bool(raised or _ERROR.match(first))
    code = _FIRST_EXIT.match(first) or _LAST_EXIT.search(last)
    if code is None:
        return "error" if failed else ""
    number = int(next(group for group in code.groups() if group))
    # An error's line and a closing code 0 contradict each other.
    return "" if failed and not number and code.re is _LAST_EXIT else f"exit {number}"


def _status_of_fields(fields: Mapping[str, Any], *, nested: bool = False) -> str:
    codes = [_number(fields.get(key)) for key in ("exitcode", "returncode", "exitstatus")]
    if any(codes):
        return f"exit {max(code or 0 for code in codes) or min(code or 0 for code in codes)}"
    if any(_fails(key, value, fields) for key, value in fields.items()):
        return "error"
    keys = () if nested else ("result", "response", "metadata", "body")
    inner = [_status_of_fields(_fields(fields.get(key)), nested=True) for key in keys]
    if failures := [status for status in inner if status not in ("", "exit 0")]:
        return failures[0]
    return "exit 0" if (0 in codes and not fields.get("signal")) or "exit 0" in inner else ""


def _fails(key: str, value: Any, fields: Mapping[str, Any]) -> bool:
    """Return True if this field reports a failed call."""
    text = str(value).strip().lower()
    if key in _ERROR_KEYS:
        # A number measures an error; errors beside a count are the hits of a search.
        number = isinstance(value, int | float) and value is not True
        searched = not {"total", "count", "page", "next", "hits"}.isdisjoint(fields)
        return bool(value) and text not in _NOTHING and not number and not searched
    if key in ("success", "ok", "successful"):
        return text == "false"
    if key in ("iserror", "haserror", "haserrors", "timedout"):
        return text == "true"
    if key not in ("status", "statuscode", "httpstatus", "code", "result", "outcome"):
        return False
    # Beside other fields a status is that of the requested thing.
    alone = fields.keys() <= {*_REASON_KEYS, "status", "result", "outcome", "code"}
    code = _number(value)
    if code is not None and 400 <= code < 600:
        explained = not {"message", "detail", "error", "reason", "msg"}.isdisjoint(fields)
        return (
            explained or key in ("statuscode", "httpstatus") or {"type", "title"} <= fields.keys()
        )
    return text in _STATES and alone


def _number(value: Any) -> int | None:
    text = str(value)
    return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else None


def _reason(value: Any, depth: int = 0) -> str:
    """Return the line of a failed call's result that gives the reason."""
    if isinstance(value, str):
        return _error_line(value)
    inner = value[:3] if isinstance(value, list) else []
    if fields := _fields(value):
        inner = [fields[key] for key in _REASON_KEYS if key in fields]
    reasons = (_reason(item, depth + 1) for item in inner if depth < 4)
    return next(filter(None, reasons), "")


def _error_line(text: str) -> str:
    text = text if len(text) <= 2 * _ENDS else f"{text[:_ENDS]}\n{text[-_ENDS:]}"
    lines = [
        line for each in text.splitlines() if (line := each.strip()) and not _FRAME.match(line)
    ]
    raised = [line for line in lines if _RAISED.match(line)] if "Traceback (most" in text else []
    errors = filter(_ERROR.match, lines)
    speaking = filter(_FAILED.search, lines)
    line = (
        raised[-1] if raised else next(errors, None) or next(speaking, None) or (lines or [""])[-1]
    )
    line = re.sub(r"\A(?:<\w+>)+|(?:</\w+>)+\Z", "", line)
    line = "".join(sign if sign.isprintable() else " " for sign in line).strip()
    if len(line) > _REASON_CHARACTERS:
        line = f"{line[:_REASON_CHARACTERS].rpartition(' ')[0] or line[:_REASON_CHARACTERS]} …"
    return "" if reads_as_orders(line) else line

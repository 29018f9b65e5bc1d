"""What a result says of how it went: an exit code, an error at its beginning or its end."""

import re
from typing import NamedTuple

from agora.core.reading.vocabulary import word_list

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
_ERRORS = word_list("outcome", "errors")
_ERROR_CHARACTERS = 300


def _exit_code(text: str) -> re.Match[str] | None:
    # No exit code is given without this word, and most texts do not have it.
    return _EXIT.search(text) if "code" in text else None


class Outcome(NamedTuple):
    """What a result says of how it went."""

    code: str
    """The exit code, or nothing."""
    failed: bool
    """Whether it begins as errors do."""
    broke_off: bool
    """Whether it ends in an error that was raised."""


def outcome_of(text: str) -> Outcome:
    """Return what a result says of how it went, by its beginning and its end."""
    code = _exit_code(text[:_READ_ENDS]) or _exit_code(text[-200:])
    return Outcome(
        code=next(found for found in code.groups() if found is not None) if code else "",
        failed=_FAILED.match(text) is not None,
        broke_off=_FAILED_INSIDE.search(text[-_READ_ENDS:]) is not None,
    )


def tells_an_error(observation: str) -> int:
    """Return 1 where an observation begins like an error, otherwise 0."""
    beginning = observation[:_ERROR_CHARACTERS].lower()
    return int(any(map(beginning.__contains__, _ERRORS)))

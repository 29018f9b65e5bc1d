"""What a result holds that tells a model nothing: terminal codes, overwritten lines, repeated ones.

Each kind can be switched on by itself. Only repeated lines can be restored from what is left;
the others are gone, which is why only what a terminal would not show either counts as noise.
"""

import json
import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Literal

NoiseKind = Literal["codes", "overwritten", "repeated", "indents"]
KINDS: tuple[NoiseKind, ...] = ("codes", "overwritten", "repeated", "indents")
_MOST_ALIKE = 4
"""A line may stand so many times in a row before the rest is counted."""
_MIN_GAIN = 40
"""Characters that counting lines must save: the note itself takes tokens."""
_CODES = re.compile(
    # Colours, cursor and erasing; the window's title. A hyperlink stays: its address is text.
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][012];[^\x07\x1b\n]*(?:\x07|\x1b\\)|\x1b[()][0-9A-B]"
)
_SHAPE = re.compile(r"[\d\s.,:/%#=>*|\\\-\[\]()█▉▊▋▌▍▎▏▐░▒▓━╸╺─]+")
"""What changes in a line of progress: numbers and the bar."""
_IN_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"|\s+')
_JSON_ENDS = {"{": "}", "[": "]"}


def without_codes(text: str) -> str:
    r"""Return a text without terminal codes.

    >>> without_codes("\x1b[32mpassed\x1b[0m in 3 s")
    'passed in 3 s'
    """
    return _CODES.sub("", text) if "\x1b" in text else text


def without_overwritten(text: str) -> str:
    r"""Return a text without progress that a carriage return overwrote with its next state.

    What is overwritten by something else stays: it may be a file with old line ends.

    >>> without_overwritten("get 10%\rget 55%\rget 100%\ndone\r\n")
    'get 100%\ndone\r\n'
    """
    if "\r" not in text:
        return text
    return "\n".join(map(_last_state, text.split("\n")))


def _last_state(line: str) -> str:
    if "\r" not in line:
        return line
    states = line.split("\r")
    kept = [
        state
        for state, after in pairwise(states)
        if not after.strip() or _SHAPE.sub("", state) != _SHAPE.sub("", after)
    ]
    return "\r".join([*kept, states[-1]])


def with_counts(text: str) -> str:
    r"""Return a text in which lines that repeat the one before are counted.

    >>> print(with_counts("start\n" + "warning: value is out of range\n" * 40 + "end"))
    start
    warning: value is out of range
    [the same line 39 times more]
    end
    """
    lines = text.split("\n")
    written: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        end = at + 1
        while end < len(lines) and lines[end] == line:
            end += 1
        more = end - at - 1
        note = f"[the same line {more} times more]"
        if more >= _MOST_ALIKE and line.strip() and more * (len(line) + 1) >= len(note) + _MIN_GAIN:
            written += [line, note]
        else:
            written += lines[at:end]
        at = end
    return "\n".join(written)


def without_indents(text: str) -> str:
    r"""Return a JSON text without the white space between its values; others as they are.

    >>> without_indents('{\n  "a": [1,\n    2.0],\n  "b": "x  y"\n}')
    '{"a":[1,2.0],"b":"x  y"}'
    """
    bare = text.strip()
    if "\n" not in bare or _JSON_ENDS.get(bare[0]) != bare[-1]:
        return text
    try:
        # Braces are not enough: between the words of a style sheet white space matters.
        json.loads(bare)
    except (ValueError, RecursionError):
        return text
    return _IN_STRINGS.sub(_value, bare)


def _value(found: re.Match[str]) -> str:
    return "" if found[0][0].isspace() else found[0]


_REMOVERS: Mapping[NoiseKind, Callable[[str], str]] = {
    "codes": without_codes,
    "overwritten": without_overwritten,
    "repeated": with_counts,
    "indents": without_indents,
}


def without_noise(text: str, kinds: tuple[NoiseKind, ...]) -> str:
    """Return a text without these kinds of noise: never a longer one, nor one that is blank.

    A provider refuses blank texts. One without noise is returned itself.
    """
    cleaned = text
    for kind in KINDS:
        if kind in kinds:
            cleaned = _REMOVERS[kind](cleaned)
    return text if cleaned == text or not cleaned.strip() else cleaned

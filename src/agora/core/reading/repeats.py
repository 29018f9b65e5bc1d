"""Lines of a result that stand word for word in an earlier result of the same prompt.

Coding agents read the same regions of the same files again and again. The middle of such a run may
be left out where it arrives. The lines at its ends stay, as in a diff, and lead back: between the
same lines, the newest run of that length above is the very text. Views of files with numbered lines
match by their text: an edit above moves all the numbers below it. Those at the ends stand in the
prompt, and the ones between are counted from there.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

CONTEXT = 2
"""Lines that stay at each end: without them a language model makes less of what follows."""
MIN_LINES = 4
MIN_CHARACTERS = 160
"""What has to be left out at least for a reference to be clearly shorter."""
_RENUMBERED = " but for their numbers"
REFERENCE = re.compile(
    rf"\[(?P<count>\d{{1,6}}) lines left out, unchanged(?:{_RENUMBERED})?, shown above"
    r"(?P<code> #[0-9a-f]{4,12})?\]"
)
"""Stands for lines that the prompt shows above."""
_NUMBER = re.compile(r"[ \t]{0,8}(\d{1,7})(?:\t|→|: ?| ?\| ?)")
"""How `cat -n`, `nl`, `grep -n` and the tools of agents number lines."""
_SEAM = "\n"
"""A line that no text has: runs never go from one result into the next."""
_TRIED = 16
"""How many places with the same two lines are looked at: of blank ones there may be thousands."""


class Repeat(NamedTuple):
    """Lines that may be left out: an earlier result has them, and those at their ends too."""

    start: int
    end: int
    """The line after the last one."""
    renumbered: bool = False
    """Whether they stand there with other numbers."""


class Run(NamedTuple):
    """Lines that stand above, as they are to be read where they are left out."""

    lines: list[str]
    renumbered: bool


def reference(count: int, code: str = "", *, renumbered: bool = False) -> str:
    """Return what stands for lines that the prompt shows above.

    >>> reference(12, "a7f3")
    '[12 lines left out, unchanged, shown above #a7f3]'
    """
    but = _RENUMBERED if renumbered else ""
    return f"[{count} lines left out, unchanged{but}, shown above{f' #{code}' if code else ''}]"


def text_of(line: str) -> str:
    """Return a line without its number.

    >>> text_of("    12→    return 1"), text_of("12:x"), text_of("at 12: x")
    ('    return 1', 'x', 'at 12: x')
    """
    found = _NUMBER.match(line)
    return line if found is None else line[found.end() :]


def numbered_on(line: str, texts: Sequence[str]) -> list[str]:
    """Return lines as they are numbered behind `line`; as they are, if that has no number.

    >>> numbered_on("     9→a", ["b", "c"])
    ['    10→b', '    11→c']
    """
    found = _NUMBER.match(line)
    if found is None:
        return list(texts)
    # Numbers are padded to one width, or not at all.
    width = found.end(1) if found.start(1) else 0
    first, sign = int(found[1]) + 1, line[found.end(1) : found.end()]
    pad = "\t" if line.startswith("\t") else " "
    return [f"{str(first + n).rjust(width, pad)}{sign}{text}" for n, text in enumerate(texts)]


@dataclass(slots=True)
class Shown:
    """The lines of the results that a prompt shows, in the order in which they came."""

    _lines: list[str] = field(default_factory=list)
    """All of them, with a seam before each run that stands together."""
    _texts: list[str] = field(default_factory=list)
    """The same without their numbers."""
    _places: dict[tuple[str, ...], list[int]] = field(default_factory=dict)
    """Where so many lines stand as stay at an end, oldest first."""

    def add(self, lines: Sequence[str], hidden: Sequence[Repeat] = ()) -> None:
        """Take note of a result whose `hidden` lines do not stand in the prompt themselves."""
        for shown in _apart(lines, hidden):
            self._lines.append(_SEAM)
            self._texts.append(_SEAM)
            begin = len(self._lines)
            self._lines += shown
            texts = [text_of(line) for line in shown]
            self._texts += texts
            for at in range(len(texts) - CONTEXT + 1):
                window = tuple(texts[at : at + CONTEXT])
                self._places.setdefault(window, []).append(begin + at)

    def repeats(self, lines: Sequence[str]) -> tuple[Repeat, ...]:
        """Return what may be left out of a result, in its order, none overlapping."""
        found: list[Repeat] = []
        texts = [text_of(line) for line in lines]
        at = 0
        while at + 2 * CONTEXT + MIN_LINES <= len(lines):
            length = self._length(texts, at)
            middle = self._worth_it(lines, at + CONTEXT, at + length - CONTEXT)
            if middle is not None:
                found.append(middle)
                at += length
            else:
                # What begins inside a run that is not worth it is shorter still.
                at += max(1, length - CONTEXT + 1)
        return tuple(found)

    def between(self, before: Sequence[str], count: int, after: Sequence[str]) -> Run | None:
        """Return the newest run of so many lines above that stands between the same lines."""
        first, last = ([text_of(line) for line in lines] for lines in (before, after))
        for at in reversed(self._places.get(tuple(first), ())[-_TRIED:]):
            begin = at + CONTEXT
            end = begin + count
            if self._texts[end : end + CONTEXT] != last:
                continue
            texts = self._texts[begin:end]
            if _SEAM in texts:
                continue
            same = self._lines[at:begin] == list(before)
            if same and self._lines[end : end + CONTEXT] == list(after):
                return Run(self._lines[begin:end], renumbered=False)
            return Run(numbered_on(before[-1], texts), renumbered=True)
        return None

    def _length(self, texts: Sequence[str], at: int) -> int:
        """Return how many lines from here on stand together at the newest place that has some."""
        places = self._places.get(tuple(texts[at : at + CONTEXT]))
        if not places:
            return 0
        length = CONTEXT
        theirs = self._texts[places[-1] : places[-1] + len(texts) - at]
        while length < len(theirs) and texts[at + length] == theirs[length]:
            length += 1
        return length

    def _worth_it(self, lines: Sequence[str], start: int, end: int) -> Repeat | None:
        """Return what is left out, if a reference is clearly shorter and leads back to it."""
        left_out = list(lines[start:end])
        if end - start < MIN_LINES or sum(map(len, left_out)) < MIN_CHARACTERS:
            return None
        before, after = lines[start - CONTEXT : start], lines[end : end + CONTEXT]
        run = self.between(before, end - start, after)
        if run is None or run.lines != left_out:
            return None
        return Repeat(start, end, renumbered=run.renumbered)


def _apart(lines: Sequence[str], hidden: Sequence[Repeat]) -> Iterator[list[str]]:
    """Yield the lines that stand in the prompt, those between two hidden runs together."""
    at = 0
    for run in hidden:
        yield list(lines[at : run.start])
        at = run.end
    yield list(lines[at:])


def referring(shown: Shown, code: str = "") -> Callable[[str], str]:
    """Return what writes each further result of a prompt with references to those before it."""

    def write(text: str) -> str:
        lines = text.split("\n")
        runs = shown.repeats(lines)
        shown.add(lines, runs)
        if not runs:
            return text
        written: list[str] = []
        at = 0
        for run in runs:
            written += [*lines[at : run.start], _refer(run, code)]
            at = run.end
        return "\n".join([*written, *lines[at:]])

    return write


def _refer(run: Repeat, code: str) -> str:
    return reference(run.end - run.start, code, renumbered=run.renumbered)


def expanding(shown: Shown, code: str = "") -> Callable[[str], str]:
    """Return what writes each further result with its references replaced by what they stand for.

    Raises:
        LookupError: a reference of this code has nothing above that it stands for.
    """

    def write(text: str) -> str:
        lines = text.split("\n")
        written: list[str] = []
        hidden: list[Repeat] = []
        at = 0
        for number, line in enumerate(lines):
            found = REFERENCE.fullmatch(line)
            if found is None or (found["code"] or "").strip(" #") != code:
                continue
            before, after = lines[number - CONTEXT : number], lines[number + 1 :][:CONTEXT]
            run = shown.between(before, int(found["count"]), after)
            if run is None:
                raise LookupError(line)
            written += [*lines[at:number], *run.lines]
            hidden.append(Repeat(number, number + 1))
            at = number + 1
        shown.add(lines, hidden)
        return "\n".join([*written, *lines[at:]])

    return write

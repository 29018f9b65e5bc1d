"""Lines of a result that stand word for word in an earlier result of the same prompt.

Coding agents read the same regions of the same files again and again. The middle of such a run may
be left out where it arrives. The lines at its ends stay, as in a diff, and lead back: between the
same lines, the newest run of that length above is the very text.
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
_REFERENCE = re.compile(
    r"\[(?P<count>\d{1,6}) lines left out, unchanged, shown above(?P<code> #[0-9a-f]{4,12})?\]"
)
_SEAM = "\n"
"""A line that no text has: runs never go from one result into the next."""
_TRIED = 16
"""How many places with the same two lines are looked at: of blank ones there may be thousands."""


class Repeat(NamedTuple):
    """Lines that may be left out: an earlier result has them, and those at their ends too."""

    start: int
    end: int
    """The line after the last one."""


def reference(count: int, code: str = "") -> str:
    """Return what stands for lines that the prompt shows above.

    >>> reference(12, "a7f3")
    '[12 lines left out, unchanged, shown above #a7f3]'
    """
    return f"[{count} lines left out, unchanged, shown above{f' #{code}' if code else ''}]"


@dataclass(slots=True)
class Shown:
    """The lines of the results that a prompt shows, in the order in which they came."""

    _lines: list[str] = field(default_factory=list)
    """All of them, with a seam before each run that stands together."""
    _places: dict[tuple[str, ...], list[int]] = field(default_factory=dict)
    """Where so many lines stand as stay at an end, oldest first."""

    def add(self, lines: Sequence[str], hidden: Sequence[Repeat] = ()) -> None:
        """Take note of a result whose `hidden` lines do not stand in the prompt themselves."""
        for shown in _apart(lines, hidden):
            self._lines.append(_SEAM)
            begin = len(self._lines)
            self._lines += shown
            for at in range(len(shown) - CONTEXT + 1):
                window = tuple(shown[at : at + CONTEXT])
                self._places.setdefault(window, []).append(begin + at)

    def repeats(self, lines: Sequence[str]) -> tuple[Repeat, ...]:
        """Return what may be left out of a result, in its order, none overlapping."""
        found: list[Repeat] = []
        at = 0
        while at + 2 * CONTEXT + MIN_LINES <= len(lines):
            length = self._length(lines, at)
            middle = Repeat(at + CONTEXT, at + length - CONTEXT)
            if self._worth_it(lines, middle):
                found.append(middle)
                at += length
            else:
                # What begins inside a run that is not worth it is shorter still.
                at += max(1, length - CONTEXT + 1)
        return tuple(found)

    def between(
        self, before: Sequence[str], count: int, after: Sequence[str]
    ) -> Sequence[str] | None:
        """Return the newest run of so many lines above that stands between the same lines."""
        for at in reversed(self._places.get(tuple(before), ())[-_TRIED:]):
            begin = at + CONTEXT
            end = begin + count
            if self._lines[end : end + CONTEXT] == list(after):
                lines = self._lines[begin:end]
                if _SEAM not in lines:
                    return lines
        return None

    def _length(self, lines: Sequence[str], at: int) -> int:
        """Return how many lines from here on stand together at the newest place that has some."""
        places = self._places.get(tuple(lines[at : at + CONTEXT]))
        if not places:
            return 0
        length = CONTEXT
        theirs = self._lines[places[-1] : places[-1] + len(lines) - at]
        while length < len(theirs) and lines[at + length] == theirs[length]:
            length += 1
        return length

    def _worth_it(self, lines: Sequence[str], middle: Repeat) -> bool:
        """Tell whether a reference to these lines is clearly shorter, and leads back to them."""
        start, end = middle
        left_out = list(lines[start:end])
        if end - start < MIN_LINES or sum(map(len, left_out)) < MIN_CHARACTERS:
            return False
        before, after = lines[start - CONTEXT : start], lines[end : end + CONTEXT]
        return self.between(before, end - start, after) == left_out


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
            written += [*lines[at : run.start], reference(run.end - run.start, code)]
            at = run.end
        return "\n".join([*written, *lines[at:]])

    return write


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
            found = _REFERENCE.fullmatch(line)
            if found is None or (found["code"] or "").strip(" #") != code:
                continue
            before, after = lines[number - CONTEXT : number], lines[number + 1 :][:CONTEXT]
            run = shown.between(before, int(found["count"]), after)
            if run is None:
                raise LookupError(line)
            written += [*lines[at:number], *run]
            hidden.append(Repeat(number, number + 1))
            at = number + 1
        shown.add(lines, hidden)
        return "\n".join([*written, *lines[at:]])

    return write

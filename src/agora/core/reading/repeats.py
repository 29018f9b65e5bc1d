"""Lines of a result that stand word for word in an earlier result of the same prompt.

Coding agents read the same regions of the same files again and again. A run of such lines may be
left out where it arrives; a reference then names its first and its last line, by which the
newest run of that length above is found again, and that is the very text.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

MIN_LINES = 4
MIN_CHARACTERS = 240
"""What a run of lines must have at least for a reference to it to be clearly shorter."""
_QUOTED = 60
"""Characters by which a line is named."""
_REFERENCE = re.compile(
    r"\[(?P<count>\d{1,6}) lines left out, unchanged, shown above: "
    r"from `(?P<first>.{0,60})` to `(?P<last>.{0,60})`(?P<code> #[0-9a-f]{4,12})?\]"
)


class Repeat(NamedTuple):
    """A run of lines that an earlier result has too."""

    start: int
    end: int
    """The line after its last one."""


def reference(lines: Sequence[str], code: str = "") -> str:
    """Return what stands for lines that the prompt shows above.

    >>> reference(["def area(self):", "  a = self.a", "  b = self.b", "  return a * b"], "a7f3")
    '[4 lines left out, unchanged, shown above: from `def area(self):` to `return a * b` #a7f3]'
    """
    first, last = _named(lines[0]), _named(lines[-1])
    signed = f" #{code}" if code else ""
    count = len(lines)
    return f"[{count} lines left out, unchanged, shown above: from `{first}` to `{last}`{signed}]"


def _named(line: str) -> str:
    return line.strip()[:_QUOTED]


@dataclass(slots=True)
class Shown:
    """The lines of the results that a prompt shows, in the order in which they came."""

    min_lines: int = MIN_LINES
    min_characters: int = MIN_CHARACTERS
    _lines: list[str] = field(default_factory=list)
    """All of them, with an empty result's place between two results."""
    _places: dict[tuple[str, ...], int] = field(default_factory=dict)
    """Where so many lines as a repeat has at least stand, the newest place."""
    _begins: dict[str, list[int]] = field(default_factory=dict)
    """Where lines of that name stand, oldest first."""

    def add(self, lines: Sequence[str], hidden: Sequence[Repeat] = ()) -> None:
        """Take note of a result whose `hidden` runs do not stand in the prompt themselves."""
        for shown in _apart(lines, hidden):
            # A line that no text has: runs never go from one result into the next.
            self._lines.append("\n")
            begin = len(self._lines)
            self._lines += shown
            for at, line in enumerate(shown):
                self._begins.setdefault(_named(line), []).append(begin + at)
                window = tuple(shown[at : at + self.min_lines])
                if len(window) == self.min_lines:
                    self._places[window] = begin + at

    def repeats(self, lines: Sequence[str]) -> tuple[Repeat, ...]:
        """Return the runs of lines that were shown before, in their order, none overlapping.

        Each is found again by its reference.
        """
        found: list[Repeat] = []
        at = 0
        while at + self.min_lines <= len(lines):
            place = self._places.get(tuple(lines[at : at + self.min_lines]))
            length = 0 if place is None else self._length(lines, at, place)
            if length and self._worth_it(lines[at : at + length]):
                found.append(Repeat(at, at + length))
                at += length
            else:
                # What begins inside a run that is not worth it is shorter still.
                at += max(1, length - self.min_lines + 1)
        return tuple(found)

    def _worth_it(self, lines: Sequence[str]) -> bool:
        """Tell whether a reference to these lines is clearly shorter, and leads back to them."""
        if sum(map(len, lines)) < self.min_characters:
            return False
        first, last = _named(lines[0]), _named(lines[-1])
        said = _REFERENCE.fullmatch(reference(lines))
        quoted = said is not None and (said["first"], said["last"]) == (first, last)
        return quoted and self.run(len(lines), first, last) == list(lines)

    def run(self, count: int, first: str, last: str) -> list[str] | None:
        """Return the newest run of so many lines between lines of these names."""
        for at in reversed(self._begins.get(first, ())[-_TRIED:]):
            end = at + count - 1
            if end < len(self._lines) and _named(self._lines[end]) == last:
                lines = self._lines[at : end + 1]
                if "\n" not in lines:
                    return lines
        return None

    def _length(self, lines: Sequence[str], at: int, place: int) -> int:
        length = self.min_lines
        theirs = self._lines
        while (
            at + length < len(lines)
            and place + length < len(theirs)
            and lines[at + length] == theirs[place + length]
        ):
            length += 1
        return length


_TRIED = 16
"""How many lines of one name are looked at: of blank ones there may be thousands."""


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
            written += [*lines[at : run.start], reference(lines[run.start : run.end], code)]
            at = run.end
        return "\n".join([*written, *lines[at:]])

    return write


def expanding(shown: Shown, code: str = "") -> Callable[[str], str]:
    """Return what writes each further result with its references replaced by what they stand for.

    Raises:
        LookupError: a reference of this code has nothing above that it stands for.
    """

    def write(text: str) -> str:
        written: list[str] = []
        at = 0
        lines = text.split("\n")
        hidden: list[Repeat] = []
        for number, line in enumerate(lines):
            found = _REFERENCE.fullmatch(line)
            if found is None or (found["code"] or "").strip(" #") != code:
                continue
            run = shown.run(int(found["count"]), found["first"], found["last"])
            if run is None:
                raise LookupError(line)
            written += [*lines[at:number], *run]
            hidden.append(Repeat(number, number + 1))
            at = number + 1
        shown.add(lines, hidden)
        return "\n".join([*written, *lines[at:]])

    return write

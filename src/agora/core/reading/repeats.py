"""Lines of a result that stand word for word in an earlier result of the same prompt.

Coding agents read the same regions of the same files again and again. Which lines are the same
is told here; what to do about it is decided elsewhere.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

MIN_LINES = 4
MIN_CHARACTERS = 120
"""What a run of lines must have at least for a reference to it to be clearly shorter."""
_NUMBERED = re.compile(r"( *)(\d+)([\t:\-→|]\s?)(?s:(.*))")
"""A line as `cat -n`, `nl`, `grep -n` and the read tools of coding agents write it."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """A run of lines that an earlier result has too."""

    start: int
    end: int
    """The line after its last one."""
    result: int
    """Which of the earlier results has it."""
    line: int
    """Where it begins there."""


@dataclass(slots=True)
class Shown:
    """The lines of the results that a prompt shows, in the order in which they were added."""

    min_lines: int = MIN_LINES
    min_characters: int = MIN_CHARACTERS
    _results: list[tuple[str, ...]] = field(default_factory=list)
    _places: dict[tuple[str, ...], tuple[int, int]] = field(default_factory=dict)

    def add(self, lines: Sequence[str], hidden: Sequence[Repeat] = ()) -> None:
        """Take note of a result whose `hidden` runs do not stand in the prompt themselves."""
        texts = tuple(map(unnumbered, lines))
        number = len(self._results)
        self._results.append(texts)
        gone = {line for run in hidden for line in range(run.start, run.end)}
        for at in range(len(texts) - self.min_lines + 1):
            window = texts[at : at + self.min_lines]
            if gone.isdisjoint(range(at, at + self.min_lines)):
                # The newest place wins: it is the nearest to whoever reads the reference.
                self._places[window] = number, at

    def repeats(self, lines: Sequence[str]) -> tuple[Repeat, ...]:
        """Return the runs of lines that were shown before, in their order, none overlapping."""
        texts = tuple(map(unnumbered, lines))
        found: list[Repeat] = []
        at = 0
        while at + self.min_lines <= len(texts):
            place = self._places.get(texts[at : at + self.min_lines])
            if place is None:
                at += 1
                continue
            result, line = place
            theirs = self._results[result]
            length = self.min_lines
            while (
                at + length < len(texts)
                and line + length < len(theirs)
                and texts[at + length] == theirs[line + length]
            ):
                length += 1
            if sum(map(len, texts[at : at + length])) >= self.min_characters:
                found.append(Repeat(at, at + length, result, line))
                at += length
            else:
                at += 1
        return tuple(found)


def unnumbered(line: str) -> str:
    r"""Return a line without the number in front of it.

    >>> unnumbered("    12\tdef area(self):"), unnumbered("12:30 lunch")
    ('def area(self):', '30 lunch')
    """
    found = _NUMBERED.fullmatch(line)
    return found[4] if found else line

"""The words around what is left of elided steps: a marker for a run of them, a note in place."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

from agora.core.recall import TOOL_NAME
from agora.core.renditions.rendition import Rendition
from agora.core.trajectory import Step

NOT_THE_USER = ", not the user"
"""In a marker inside user text, which would otherwise have the user's authority."""
_BY = " by the context compressor"


def code_of(task: str, first: Step) -> str:
    """Return the code by which the markers of a conversation are told from a tool's own text.

    It depends on what was asked and on how the agent began, word for word, and on nothing that
    changes later: a tool does not know the one, and could not choose the other.
    """
    began = "\0".join([task, first.thought, first.action])
    return blake2b(began.encode(errors="replace"), digest_size=2).hexdigest()


class Markers(Protocol):
    """Writes the text that replaces elided steps."""

    def run(self, steps: Sequence[Rendition], *, signed: bool = False) -> str:
        """Return the marker of a run of removed steps.

        `signed` adds who wrote it, for a marker inside user text.
        """
        ...

    def note(self, number: int, said: str) -> str:
        """Return the note in place of a result of a step, with what is said of it."""
        ...


@dataclass(frozen=True, slots=True)
class FormMarkers:
    """The markers and notes of forms: what was done in each step, how it went, what it brought.

    They do not look like a call, a role or an instruction, because a backbone
    imitates what it sees.

    >>> markers = FormMarkers(code="a7f3", first=3)
    >>> markers.note(3, "seat=12A")
    '[step 3: result elided by the context compressor; it signs all it writes #a7f3] seat=12A'
    >>> markers.note(4, "exit 0")
    '[step 4: result elided #a7f3] exit 0'
    """

    recall: bool = False
    """Whether the recall tool is offered: only then do markers mention it."""
    code: str = ""
    """Stands in every marker and note, so that a tool's own text is not taken for one. Without it
    only those in user text say who wrote them."""
    first: int = 0
    """The first step that does not stand whole. Its marker or note says what the code is for."""

    def run(self, steps: Sequence[Rendition], *, signed: bool = False) -> str:
        """Return the marker of a run of removed steps."""
        return _run(steps, self._by(steps[0].number, NOT_THE_USER if signed else ""))

    def note(self, number: int, said: str) -> str:
        """Return the note in place of a result."""
        return _note(f"[step {number}: result elided{self._by(number)}]", said)

    def _by(self, number: int, not_the_user: str = "") -> str:
        """Return who wrote it, as briefly as can be told from what the first one says."""
        first = number == self.first
        by = f"{_BY}{not_the_user}" if not_the_user or (first and self.code) else ""
        if self.code:
            by += f"; it signs all it writes #{self.code}" if first else f" #{self.code}"
        return f"{by}{_hint(self.recall)}"


def _run(steps: Sequence[Rendition], rest: str) -> str:
    first, last = steps[0].number, steps[-1].number
    which = f"step {first}" if first == last else f"steps {first}-{last}"
    lines = [f"{step.number} {line}" for step in steps for line in step.lines]
    return "\n".join([f"[{which} elided{rest}]", *lines])


def _note(head: str, said: str) -> str:
    return f"{head} {said}" if said else head


def _hint(recall: bool) -> str:
    return f"; {TOOL_NAME} shows one by its number" if recall else ""

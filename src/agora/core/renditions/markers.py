"""The words around what is left of elided steps: a marker for a run of them, a note in place."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

from agora.core.recall import TOOL_NAME
from agora.core.renditions.rendition import Rendition
from agora.core.trajectory import Step

SIGNATURE = ". The context compressor wrote this to save space, not the user or a tool."
"""Ends the first line of a bare marker inside user text, which would otherwise have the user's
authority."""
NOT_THE_USER = ", not the user"
"""The same in a marker of forms, in few words: a conversation has many of them."""
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

    @property
    def framed(self) -> bool:
        """Whether a note stands in the frame that a program put around a text agent's result."""
        ...

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
    framed = True

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


@dataclass(frozen=True, slots=True)
class BareMarkers:
    """The markers of steps that are whole or gone: which they are, and lines where there are any.

    >>> from agora.core.renditions.gone import gone
    >>> print(BareMarkers().run([gone(3), gone(4)]))
    [steps 3-4 elided]
    >>> print(BareMarkers().run([gone(3)], signed=True))
    [step 3 elided. The context compressor wrote this to save space, not the user or a tool.]
    """

    recall: bool = False
    """Whether the recall tool is offered: only then do markers mention it."""
    framed = False

    def run(self, steps: Sequence[Rendition], *, signed: bool = False) -> str:
        """Return the marker of a run of removed steps."""
        return _run(steps, f"{_hint(self.recall)}{SIGNATURE if signed else ''}")

    def note(self, number: int, said: str) -> str:
        """Return the note in place of a result."""
        return _note(f"[step {number} elided{_hint(self.recall)}]", said)


@dataclass(frozen=True, slots=True)
class PaperMarkers:
    """The paper's bare wording.

    >>> from agora.core.renditions.gone import gone
    >>> PaperMarkers().run([gone(3), gone(4)])
    '[... 2 step(s) elided ...]'
    """

    framed = False

    def run(self, steps: Sequence[Rendition], *, signed: bool = False) -> str:  # noqa: ARG002
        """Return the marker of a run of removed steps."""
        return f"[... {len(steps)} step(s) elided ...]"

    def note(self, number: int, said: str) -> str:  # noqa: ARG002
        """Return the replacement for a result of a step whose calls stay."""
        return "[... 1 step(s) elided ...]"


def _run(steps: Sequence[Rendition], rest: str) -> str:
    first, last = steps[0].number, steps[-1].number
    which = f"step {first}" if first == last else f"steps {first}-{last}"
    lines = [f"{step.number} {line}" for step in steps for line in step.lines]
    return "\n".join([f"[{which} elided{rest}]", *lines])


def _note(head: str, said: str) -> str:
    return f"{head} {said}" if said else head


def _hint(recall: bool) -> str:
    return f"; {TOOL_NAME} shows one by its number" if recall else ""

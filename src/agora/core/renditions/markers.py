"""The words around what is left of elided steps: a marker for a run of them, a note in place."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agora.core.recall import TOOL_NAME
from agora.core.renditions.rendition import Rendition

SIGNATURE = ". The context compressor wrote this to save space, not the user or a tool."
"""Ends the first line of a bare marker inside user text, which would otherwise have the user's
authority."""
NOT_THE_USER = ", not the user"
"""The same in a marker of forms, in few words: a conversation has many of them."""
_BY = " by the context compressor"


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

    >>> FormMarkers().note(3, "ok date=2024-05-20")
    '[step 3: result elided by the context compressor] ok date=2024-05-20'
    """

    recall: bool = False
    """Whether the recall tool is offered: only then do markers mention it."""
    signed: bool = True
    """Whether they say who wrote them outside user text too."""
    framed = True

    def run(self, steps: Sequence[Rendition], *, signed: bool = False) -> str:
        """Return the marker of a run of removed steps."""
        by = _BY if self.signed or signed else ""
        return _run(steps, f"{by}{NOT_THE_USER if signed else ''}{_hint(self.recall)}")

    def note(self, number: int, said: str) -> str:
        """Return the note in place of a result."""
        by = _BY if self.signed else ""
        return _note(f"[step {number}: result elided{by}{_hint(self.recall)}]", said)


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

"""The words that replace removed steps and results: a marker for a run, a note for a result."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from agora.core.forms import Form
from agora.core.recall import TOOL_NAME
from agora.core.trajectory import Step

NOT_THE_USER = ", not by the user"
"""Added to a marker in a user's message."""


def tag_of(task: str, first: Step) -> str:
    """Return the tag by which the markers of a conversation differ from a tool's own text.

    It depends on the task and on the agent's first words, and on nothing that changes later. A
    tool knows neither word for word, so it cannot forge the tag.
    """
    began = "\0".join([task, first.thought, first.action])
    return blake2b(began.encode(errors="replace"), digest_size=2).hexdigest()


@dataclass(frozen=True, slots=True)
class Markers:
    """Writes the markers and notes of one edit.

    They look like no call, role or instruction, because models imitate what they see.

    >>> markers = Markers(tag="a7f3", first=3)
    >>> markers.note(3, "seat=12A")
    '[step 3: result removed by the context compressor, tag #a7f3] seat=12A'
    >>> markers.note(4, "exit 0")
    '[step 4: result removed #a7f3] exit 0'
    """

    tag: str = ""
    first: int = 0
    """The number of the first shortened step. Its marker explains the tag."""
    recall: bool = False
    """True if the recall tool is offered. Only then do markers mention it."""

    def run(self, forms: Sequence[Form], *, in_user_text: bool = False) -> str:
        """Return the marker of a run of removed steps, with the line of each step.

        >>> from agora.core.forms import omitted
        >>> print(Markers(tag="a7f3", first=2).run([omitted(2), omitted(3)]))
        [steps 2-3 removed by the context compressor, tag #a7f3]
        """
        first, last = forms[0].number, forms[-1].number
        steps = f"step {first}" if first == last else f"steps {first}-{last}"
        lines = [f"{form.number} {line}" for form in forms for line in form.lines]
        return "\n".join([f"[{steps} removed{self._origin(first, in_user_text)}]", *lines])

    def note(self, number: int, text: str) -> str:
        """Return the note in place of a result."""
        head = f"[step {number}: result removed{self._origin(number)}]"
        return f"{head} {text}" if text else head

    def _origin(self, number: int, in_user_text: bool = False) -> str:
        """Return who removed it: in full for the first marker, and in a user's message."""
        first = number == self.first
        origin = " by the context compressor" if first or in_user_text else ""
        origin += NOT_THE_USER if in_user_text else ""
        if self.tag:
            origin += f", tag #{self.tag}" if first else f" #{self.tag}"
        return f"{origin}; {TOOL_NAME} shows one by its number" if self.recall else origin

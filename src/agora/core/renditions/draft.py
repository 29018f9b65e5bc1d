"""What the forms of one step are written from."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from agora.core.renditions.markers import Markers
from agora.core.renditions.rendition import Rendition
from agora.core.renditions.short_action import ShortAction
from agora.core.tokens import TokenCounter
from agora.core.trajectory import Step
from agora.core.worth import StepWorth

_COPIED_TOKEN = 0.005
"""What each token of a long action adds to its worth, as a share of it. Worth is a probability:
once a script of 400 tokens is needed, more is copied from it than from a command."""
_SHORT_TOKENS = 64
"""So much of an action is copied for its names alone."""


class Form(Protocol):
    """One way in which a step can stand in the prompt."""

    def renditions(self, draft: "Draft") -> Iterable[Rendition]:
        """Return how the step would stand, for each of `draft.tells`, or nothing where it cannot.

        What is worth no more than something cheaper is not chosen. Only `gone` may have worth 0.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Forms:
    """How a step may be shortened, other than by leaving it out."""

    lines: bool = True
    """Whether a step may become a line in a marker. Without it only steps that changed something
    do, where they cannot keep their action."""


class Tell(NamedTuple):
    """What may be said of a step's results: how each call went, and names worth so much in all."""

    texts: tuple[str, ...]
    """For each result, in their order."""
    worth: float


@dataclass(frozen=True, slots=True)
class Draft:
    """A step that may stand shorter, and all that is known about it."""

    step: Step
    worth: StepWorth
    done: ShortAction
    """What was done, on one line."""
    changed: bool
    """Whether it changed something, so that it is never gone."""
    tells: Sequence[Tell]
    """What could be said of what came back, in fewer names and in more."""
    forms: Forms
    markers: Markers
    counter: TokenCounter

    @property
    def keeps_action(self) -> bool:
        """Whether it may keep its action, though it could be removed."""
        return bool(self.step.action_tokens)

    @property
    def says_nothing(self) -> bool:
        """Whether there is nothing to say of it: a thought that was noted down by a tool."""
        removed = self.step.removable and not self.changed and self.forms.lines
        return removed and not self.step.observation.strip() and self.done.text == "think …"

    def action_worth(self, share: float, tokens: int) -> float:
        """Return what so many tokens of the action are worth that carry this share of its names."""
        return self.worth.action * (share + _COPIED_TOKEN * max(0, tokens - _SHORT_TOKENS))

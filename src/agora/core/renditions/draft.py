"""What the forms of one step are written from."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from agora.core.reading.actions import Tools
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

    actions: bool = True
    """Whether a step may keep its action, with a note in place of each result."""
    commands: bool = False
    """Whether a step may keep its command or its calls without the thought before them. Not a
    default: docs/log.md has what the judge says of it."""
    lines: bool = True
    """Whether a step may become a line in a marker. Without it only steps that changed something
    do, where they cannot keep their action."""
    signed: bool = True
    """Whether notes and markers say who wrote them wherever they are, not only in user text."""
    changing_tools: tuple[str, ...] = ()
    """Tools that change something, whatever they are called: their steps are never gone."""
    reading_tools: tuple[str, ...] = ()
    """Tools that only read: their steps may be gone."""
    more: tuple[Form, ...] = ()
    """Forms of your own, to choose from besides those of the package."""

    @property
    def tools(self) -> Tools:
        """What is known of tools by their names."""
        return Tools(self.reading_tools, self.changing_tools)

    def tools_with(self, reading: Collection[str], changing: Collection[str]) -> Tools:
        """Return the same where some tools say of themselves that they read, or that they change.

        What they say comes first.

        >>> Forms(reading_tools=("peek",), changing_tools=("ship",)).tools_with((), ("peek",))
        Tools(reading=(), changing=('peek', 'ship'))
        """
        if not reading and not changing:
            return self.tools
        return Tools(
            (*reading, *(name for name in self.reading_tools if name not in changing)),
            (*changing, *(name for name in self.changing_tools if name not in reading)),
        )


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
        return self.forms.actions and bool(self.step.action_tokens)

    @property
    def says_nothing(self) -> bool:
        """Whether there is nothing to say of it: a thought that was noted down by a tool."""
        removed = self.step.removable and not self.changed and self.forms.lines
        return removed and not self.step.observation.strip() and self.done.text == "think …"

    def action_worth(self, share: float, tokens: int) -> float:
        """Return what so many tokens of the action are worth that carry this share of its names."""
        return self.worth.action * (share + _COPIED_TOKEN * max(0, tokens - _SHORT_TOKENS))

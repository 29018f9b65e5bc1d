"""The form of a step that stays as it is."""

from collections.abc import Iterable

from agora.core.renditions.draft import Draft
from agora.core.renditions.rendition import VERBATIM, Rendition
from agora.core.trajectory import Step

_LEAST = 3e-6
"""What a whole step is worth whatever it is: more than any shorter form."""


def whole(step: Step, worth: float = 0.0) -> Rendition:
    """Return the rendition of a step that stays as it is."""
    return Rendition(step.number, "whole", VERBATIM, step.tokens, worth)


class Whole:
    """Keeps everything."""

    def renditions(self, draft: Draft) -> Iterable[Rendition]:
        """Return the step as it is."""
        action = draft.action_worth(1.0, draft.step.action_tokens)
        return [whole(draft.step, action + draft.worth.observation + _LEAST)]

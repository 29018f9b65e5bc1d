"""The form of a step whose action stays verbatim, with a note in place of each result."""

from collections.abc import Iterable

from agora.core.renditions.draft import Draft
from agora.core.renditions.rendition import Place, Rendition

_LEAST = 2e-6
"""What a kept action is worth whatever the step is: more than a line."""


class Action:
    """Keeps the action. The first note says how it went and what all results brought."""

    def renditions(self, draft: Draft) -> Iterable[Rendition]:
        """Return the step with each set of names in its note."""
        step = draft.step
        if draft.says_nothing or (step.removable and not draft.keeps_action):
            return
        verbatim = draft.action_worth(1.0, step.action_tokens)
        others = (Place(None, ""),) * (len(step.calls) - 1)
        for came, brought in draft.tells:
            tokens = step.action_tokens + 1
            tokens += draft.counter.count(draft.markers.note(step.number, came))
            places = (Place(None, came), *others)
            yield Rendition(step.number, "action", places, tokens, verbatim + _LEAST + brought)

"""The form of a step whose action stays verbatim, with a note in place of each result."""

from collections.abc import Iterable

from agora.core.renditions.draft import Draft
from agora.core.renditions.rendition import Place, Rendition

_LEAST = 2e-6
"""What a kept action is worth whatever the step is: more than a line."""


class Action:
    """Keeps the action. Each note says how its call went and what it brought."""

    def renditions(self, draft: Draft) -> Iterable[Rendition]:
        """Return the step with each set of names in its note."""
        step = draft.step
        if draft.says_nothing or (step.removable and not draft.keeps_action):
            return
        verbatim = draft.action_worth(1.0, step.action_tokens)
        for texts, brought in draft.tells:
            notes = [draft.markers.note(step.number, text) for text in texts]
            tokens = step.action_tokens + sum([draft.counter.count(note) + 1 for note in notes])
            places = tuple([Place(None, text) for text in texts])
            yield Rendition(step.number, "action", places, tokens, verbatim + _LEAST + brought)

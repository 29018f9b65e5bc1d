"""The form of a step whose command stays verbatim, without the thought before it."""

from collections.abc import Iterable

from agora.core.reading.actions import command_at
from agora.core.renditions.draft import Draft
from agora.core.renditions.rendition import Place, Rendition
from agora.core.tokens import TokenCounter
from agora.core.trajectory import Step

_WITHOUT_THOUGHT = 0.95
"""The share of an action's worth that its command carries alone."""
_LEAST = 1.5e-6
"""What a kept command is worth whatever the step is: more than a line, less than its action."""


def thought_tokens(step: Step, counter: TokenCounter) -> int:
    """Return what a step says before its command or beside its calls, where it may be left out."""
    if not step.spare:
        return 0
    if step.calls:
        return counter.count(step.thought)
    start = command_at(step.action)
    if not step.action[:start].strip():
        return 0
    return counter.count(step.action) - counter.count(step.action[start:])


class Command:
    """Keeps the command or the calls. The first note says that the thought is gone too."""

    def renditions(self, draft: Draft) -> Iterable[Rendition]:
        """Return the step with each set of names in its note."""
        step = draft.step
        if not draft.forms.commands or (step.removable and not draft.keeps_action):
            return
        saved = thought_tokens(step, draft.counter)
        if saved <= 0 or draft.says_nothing:
            return
        kept = step.action_tokens - saved
        verbatim = draft.action_worth(_WITHOUT_THOUGHT, kept)
        for texts, brought in draft.tells:
            notes = [
                draft.markers.note(step.number, text, thought=not at)
                for at, text in enumerate(texts)
            ]
            tokens = kept + sum([draft.counter.count(note) + 1 for note in notes])
            places = tuple([Place(None, text) for text in texts])
            worth = verbatim + _LEAST + brought
            yield Rendition(step.number, "command", places, tokens, worth, bare=True)

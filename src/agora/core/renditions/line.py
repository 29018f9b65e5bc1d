"""The form of a step that is a line in a marker: what was done, how it went, what it brought."""

from collections.abc import Iterable, Sequence

from agora.core.renditions.draft import Draft
from agora.core.renditions.rendition import Place, Rendition
from agora.core.renditions.short_action import ShortAction, full_action, verbatim_action
from agora.core.trajectory import Step

_PART_OF_A_DEED = 0.5
"""The share of an action's worth that its line carries when it had to be cut."""
_FULL_DEED = 0.9
"""The share that a line carries which names all arguments."""
_LEAST = 1e-6
"""What a line is worth whatever the step is: nothing is forgotten while there is room."""


class Line:
    """Says in a line what was done, in short and with all arguments, and what came back."""

    def renditions(self, draft: Draft) -> Iterable[Rendition]:
        """Return the line with each set of names."""
        if not self._may(draft):
            return
        number, count = draft.step.number, draft.counter.count
        shorts = [
            (done, draft.action_worth(share, count(done.text)) + _LEAST)
            for done, share in _deeds(draft).items()
        ]
        for texts, brought in draft.tells:
            for done, worth in shorts:
                places = _places(draft.step, done, texts)
                line = Rendition(number, "line", places, 0, worth + brought)
                tokens = count("".join([f"\n{number} {said}" for said in line.lines]))
                yield line._replace(tokens=tokens)

    def _may(self, draft: Draft) -> bool:
        if not draft.step.removable or draft.says_nothing:
            return False
        return draft.forms.lines or (draft.changed and not draft.keeps_action)


def _places(step: Step, done: ShortAction, texts: Sequence[str]) -> tuple[Place, ...]:
    """Return what was done in each call, with what came back from it."""
    places: list[Place] = []
    answered: set[int] = set()
    for at, (result, text) in enumerate(zip(step.results, texts, strict=True)):
        call = result.call if result.call >= 0 else at
        answered.add(call)
        action = done.calls[call] if call < len(done.calls) else ""
        places.append(Place(action, text if action else ""))
    others = [Place(said, "") for at, said in enumerate(done.calls) if at not in answered]
    return (*places, *others)


def _deeds(draft: Draft) -> dict[ShortAction, float]:
    """Return the action in short and with all of it, and the share of worth that each carries.

    What was thought before a command is worth nothing beside it (lab/notebook).
    """
    if draft.done.whole:
        return {draft.done: 1.0}
    verbatim = verbatim_action(draft.step)
    if verbatim is not None:
        cut = {} if verbatim.text == draft.done.text else {draft.done: _PART_OF_A_DEED}
        return {**cut, verbatim: 1.0}
    full = full_action(draft.step, draft.done)
    return {full: _FULL_DEED} | {draft.done: _PART_OF_A_DEED}

"""Which steps an edit keeps whole, and what is left of the others."""

from collections.abc import Collection, Mapping, Sequence

from agora.core.compression import Decision, Form
from agora.core.elide import Elided, skeletons
from agora.core.fill import fill
from agora.core.past import Past
from agora.core.tokens import TokenCounter
from agora.core.trajectory import Step, Utterance

_BARE_MARKER_TOKENS = 10
"""About what a marker without lines costs: "[steps 12-345 elided]"."""


def select(
    past: Past,
    scores: Sequence[float],
    *,
    held: Mapping[int, str],
    budget: int,
    skeleton_share: float,
    counter: TokenCounter,
) -> tuple[Decision, ...]:
    """Return the decision for each step: the floor, then the best, then skeletons, then the best.

    `held` is the floor with its reasons. The whole steps get the room that the
    floor leaves, less `skeleton_share` of it; skeletons of the others get the
    rest; what they do not use goes back to whole steps.
    """
    floor_tokens = past.floor_tokens(held)
    room = int(max(0, budget - floor_tokens) * (1 - skeleton_share))
    steps_budget = floor_tokens - past.fixed_tokens + room
    selection = fill(past.steps, scores, floor=held.keys(), budget=steps_budget)
    lines: Mapping[int, str] = {}
    if skeleton_share:
        kept = set(selection.kept)
        elided = [
            Elided(step, score)
            for step, score in zip(past.steps, scores, strict=True)
            if step.number not in kept
        ]
        steps_budget = budget - past.fixed_tokens - _bare_markers(elided, past.said)
        lines = skeletons(
            elided,
            present=_texts(past, kept),
            room=steps_budget - selection.tokens,
            counter=counter,
        )
        selection = fill(
            past.steps,
            scores,
            floor=kept,
            budget=steps_budget,
            line_tokens={number: counter.count(line) + 1 for number, line in lines.items()},
            marker_tokens=_BARE_MARKER_TOKENS,
        )
    kept = set(selection.kept)
    return tuple(
        _decide(step, score, held.get(step.number), step.number in kept, lines)
        for step, score in zip(past.steps, scores, strict=True)
    )


def _decide(
    step: Step, score: float, held: str | None, kept: bool, lines: Mapping[int, str]
) -> Decision:
    if held is not None:
        return Decision(step.number, "floor", held, step.tokens, score)
    if kept:
        return Decision(step.number, "kept", "score", step.tokens, score)
    skeleton = lines.get(step.number, "")
    form: Form = "action" if step.form == "mask" else "line" if skeleton else "gone"
    return Decision(step.number, "elided", "no room left", step.tokens, score, skeleton, form)


def _texts(past: Past, kept: Collection[int]) -> list[str]:
    """Return what stays in the prompt whatever the skeletons say."""
    texts = [past.preamble, *(utterance.text for utterance in past.said)]
    for step in past.steps:
        if step.number in kept:
            texts += [step.action, step.observation]
    return texts


def _bare_markers(elided: Sequence[Elided], said: Sequence[Utterance]) -> int:
    """Return about what the markers cost without their lines.

    There is one for each run of removed steps, which ends where something was
    said, and one for each masked step.
    """
    interrupted = {utterance.after for utterance in said}
    runs = 0
    last = 0
    for item in elided:
        number = item.step.number
        runs += number != last + 1 or last in interrupted or item.step.form == "mask" or not last
        last = number
    return runs * _BARE_MARKER_TOKENS

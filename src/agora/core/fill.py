"""Choose the steps that fill a budget."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from agora.core.trajectory import Step


@dataclass(frozen=True, slots=True)
class Selection:
    """The numbers of the steps to keep, oldest first, and what all steps cost together then."""

    kept: tuple[int, ...]
    tokens: int


def fill(
    steps: Sequence[Step],
    scores: Sequence[float],
    *,
    floor: Collection[int],
    budget: int,
    line_tokens: Mapping[int, int] | None = None,
    marker_tokens: int = 0,
) -> Selection:
    """Keep the floor, then the best of the rest that fit in `budget` (the paper's Algorithm 1).

    The floor is kept even when it alone costs more than the budget: a prompt
    that is too long still works, one without its floor may not. Other steps
    are offered the room that is left, best score first and the newer one on a
    tie. One that is too large is passed over, and a smaller one may still fit.

    In the second tier elided steps have skeletons: a step that is kept gives
    the tokens of its line back, but may cut a run in two, which costs another
    marker.

    >>> steps = [Step(number=n, action="look", observation="ok", tokens=10) for n in (1, 2, 3, 4)]
    >>> fill(steps, [0.1, 0.9, 0.2, 0.3], floor={4}, budget=25)
    Selection(kept=(2, 4), tokens=20)
    """
    kept = set(floor)
    lines = line_tokens or {}
    tokens = sum(
        s.tokens if s.number in kept else s.residue_tokens + lines.get(s.number, 0) for s in steps
    )
    rest = [i for i, step in enumerate(steps) if step.number not in kept]
    rest.sort(key=lambda i: (scores[i], i), reverse=True)
    for i in rest:
        step = steps[i]
        cost = step.tokens - step.residue_tokens - lines.get(step.number, 0) + marker_tokens
        if tokens + cost <= budget:
            kept.add(step.number)
            tokens += cost
    return Selection(tuple(sorted(kept)), tokens)

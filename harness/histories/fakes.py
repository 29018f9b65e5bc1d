"""A scorer that works by chance, and states with an edit anywhere."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from agora import Query, State, Step
from agora.core import Edit


@dataclass(frozen=True, slots=True)
class RandomScorer:
    """Gives each step a score drawn from its content: chance that is the same everywhere."""

    seed: int = 0

    def score(self, query: Query, steps: Sequence[Step]) -> Sequence[float]:
        """Return one score per step, equal for equal steps of one number."""
        return [self._drawn(step) for step in steps]

    def _drawn(self, step: Step) -> float:
        text = f"{self.seed}\n{step.number}\n{step.action}\n{step.observation}"
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).digest()
        return int.from_bytes(digest, "big") / 0xFFFFFFFF


def edit_after(steps: int, room: int | None = None) -> State | None:
    """Return the state of a conversation whose last edit was made after so many steps.

    >>> edit_after(6).edit.steps
    6
    """
    return State(edit=Edit(steps, room)) if steps > 0 else None

"""A scorer and a schedule that work by chance or by count, whatever a history says."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from agora.core.rent_or_buy import Edit, Sizes
from agora.core.trajectory import Anchor, Step


@dataclass(frozen=True, slots=True)
class RandomScorer:
    """Gives each step a score drawn from its content: chance that is the same everywhere."""

    seed: int = 0

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
        """Return one score per step, equal for equal steps of one number."""
        return [self._drawn(step) for step in steps]

    def _drawn(self, step: Step) -> float:
        text = f"{self.seed}\n{step.number}\n{step.action}\n{step.observation}"
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).digest()
        return int.from_bytes(digest, "big") / 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class EveryNth:
    """Edits at every n-th step and at no other, whatever the sizes are.

    >>> EveryNth(3).edit(Sizes(preamble=1, steps=(5,) * 8, said=(0,) * 8, residues=(0,) * 8)).epoch
    6
    """

    n: int

    def edit(self, sizes: Sizes) -> Edit:
        """Return an edit after the last multiple of n."""
        return Edit(len(sizes.steps) - len(sizes.steps) % self.n)

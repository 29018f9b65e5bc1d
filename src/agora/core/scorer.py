"""What the core asks of anything that scores steps."""

from collections.abc import Sequence
from typing import Protocol

from agora.core.trajectory import Anchor, Step


class Scorer(Protocol):
    """Tells how much the next action would miss each step."""

    def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
        """Return one score in [0, 1] per step, in step order; higher is worth more."""
        ...

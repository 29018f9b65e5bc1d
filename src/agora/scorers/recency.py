"""Newer steps score higher: the default scorer."""

from collections.abc import Sequence
from dataclasses import dataclass

from agora.core.trajectory import Query, Step


@dataclass(frozen=True, slots=True)
class RecencyScorer:
    """Scores a step by its place alone. It also replaces a scorer that fails."""

    def score(self, query: Query, steps: Sequence[Step]) -> Sequence[float]:  # noqa: ARG002
        """Return scores that rise from the oldest step to the newest."""
        return [(place + 1) / (len(steps) + 1) for place in range(len(steps))]

"""What an edit chose of a plan."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from agora.core.compression import Decision, Rung
from agora.core.renditions.rendition import Rendition
from agora.core.selection.plan import Plan


@dataclass(frozen=True, slots=True)
class Selection:
    """What an edit chose, and what it may cost: less can be chosen from the same plan."""

    decisions: tuple[Decision, ...]
    epoch: int
    most_tokens: int
    """What the whole prompt may cost: the budget, and what came after the epoch."""
    rung: Rung
    detail: str
    plan: Plan
    """What they were chosen from."""
    budget: int
    """What the plan was filled to."""

    def renditions(self) -> Mapping[int, Rendition]:
        """Return how each step stands that does not stay whole, by its number."""
        return {d.number: d.rendition for d in self.decisions if d.rendition is not None}

    def smaller(self, tokens: int) -> "Selection | None":
        """Return a selection that costs about `tokens` less, or None if nothing can give way."""
        size = len(self.plan.past.steps)
        found = self.plan.decide_less(self.decisions[:size], self.budget, tokens)
        if found is None:
            return None
        decisions, budget = found
        return replace(self, decisions=decisions + self.decisions[size:], budget=budget)

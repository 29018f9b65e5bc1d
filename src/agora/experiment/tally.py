"""What both arms of an experiment come to so far."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from agora.experiment.assignment import Arm
from agora.experiment.conversations import Conversation, figures
from agora.experiment.sequences import Comparison, merged

_MOST_MODELS = 20
OTHER = "other"
ARMS = (Arm.AGORA, Arm.EVERYTHING)
_SCALES = {"errors": 0.01}
"""Of figures whose range is known, so that one that is always 0 says something too: any scale that
is fixed beforehand is right, and this is that of one call in a hundred failing."""


@dataclass(slots=True)
class ArmTotals:
    """The conversations of one arm that are over, together."""

    conversations: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    """How many had a value in each figure."""
    sums: dict[str, float] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    """Failed calls by kind."""

    def add(self, found: Mapping[str, float], errors: Mapping[str, int]) -> None:
        """Take in a conversation."""
        self.conversations += 1
        for name, value in found.items():
            self.counts[name] = self.counts.get(name, 0) + 1
            self.sums[name] = self.sums.get(name, 0.0) + value
        for kind, count in errors.items():
            self.errors[kind] = self.errors.get(kind, 0) + count

    def mean(self, name: str) -> float | None:
        """Return the mean of a figure; None where no conversation had one."""
        count = self.counts.get(name, 0)
        return self.sums[name] / count if count else None


@dataclass(slots=True)
class Tally:
    """Everything that is known of an experiment: both arms, and how they compare."""

    arms: dict[str, ArmTotals] = field(default_factory=lambda: {arm: ArmTotals() for arm in ARMS})
    compared: dict[str, Comparison] = field(default_factory=dict)
    by_model: dict[str, dict[str, Comparison]] = field(default_factory=dict)

    def add(self, conversation: Conversation, now: float) -> None:
        """Count a conversation that is over, if it can be compared."""
        if not (conversation.born and conversation.affected and conversation.arm in self.arms):
            return
        found = figures(conversation)
        self.arms[conversation.arm].add(found, conversation.errors)
        known = conversation.model in self.by_model or len(self.by_model) < _MOST_MODELS
        model = (conversation.model if known else "") or OTHER
        treated = conversation.arm == Arm.AGORA
        for compared in (self.compared, self.by_model.setdefault(model, {})):
            for name, value in found.items():
                pair = compared.setdefault(name, Comparison(scale=_SCALES.get(name, 0.0)))
                pair.observe(value, treated=treated, now=now)

    @property
    def conversations(self) -> int:
        """Those that were counted, of both arms."""
        return sum(arm.conversations for arm in self.arms.values())

    def as_json(self) -> dict[str, Any]:
        """Return it for a file."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Tally":
        """Return it as a file has it."""
        return cls(
            arms={arm: ArmTotals(**data["arms"][arm]) for arm in ARMS},
            compared=_comparisons(data["compared"]),
            by_model={name: _comparisons(each) for name, each in data["by_model"].items()},
        )


def together(tallies: Iterable[Tally]) -> Tally:
    """Return what several gateways found, none of whose conversations went through two of them."""
    found, whole = list(tallies), Tally()
    for tally in found:
        for arm, totals in tally.arms.items():
            into = whole.arms[arm]
            into.conversations += totals.conversations
            for mine, theirs in (
                (into.counts, totals.counts),
                (into.sums, totals.sums),
                (into.errors, totals.errors),
            ):
                for name, value in theirs.items():
                    mine[name] = mine.get(name, 0) + value  # type: ignore[assignment]
    whole.compared = _together([tally.compared for tally in found])
    for model in sorted({model for tally in found for model in tally.by_model}):
        whole.by_model[model] = _together([tally.by_model.get(model, {}) for tally in found])
    return whole


def _together(parts: list[dict[str, Comparison]]) -> dict[str, Comparison]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: merged(part[name] for part in parts if name in part) for name in names}


def _comparisons(data: Mapping[str, Mapping[str, Any]]) -> dict[str, Comparison]:
    return {name: Comparison(**sums) for name, sums in data.items()}

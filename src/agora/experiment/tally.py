"""What both arms of an experiment come to so far."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from agora.experiment.assignment import Arm
from agora.experiment.conversations import COUNTED, Conversation, add_counts, figures
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
    elided: dict[str, int] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    """Elided steps by form and tool, and those that were done again."""

    def add(self, found: Mapping[str, float], conversation: Conversation) -> None:
        """Take in a conversation."""
        self.conversations += 1
        for name, value in found.items():
            self.counts[name] = self.counts.get(name, 0) + 1
            self.sums[name] = self.sums.get(name, 0.0) + value
        for name in COUNTED:
            add_counts(getattr(self, name), getattr(conversation, name))

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
    by_agent: dict[str, dict[str, Comparison]] = field(default_factory=dict)

    def add(self, conversation: Conversation, now: float) -> None:
        """Count a conversation that is over, if it can be compared."""
        if not (conversation.born and conversation.affected and conversation.arm in self.arms):
            return
        found = figures(conversation)
        self.arms[conversation.arm].add(found, conversation)
        treated = conversation.arm == Arm.AGORA
        slices = (
            _slice(self.by_model, conversation.model),
            _slice(self.by_agent, conversation.agent),
        )
        for compared in (self.compared, *slices):
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
            by_agent={name: _comparisons(each) for name, each in data.get("by_agent", {}).items()},
        )


def together(tallies: Iterable[Tally]) -> Tally:
    """Return what several gateways found, none of whose conversations went through two of them."""
    found, whole = list(tallies), Tally()
    for tally in found:
        for arm, totals in tally.arms.items():
            into = whole.arms[arm]
            into.conversations += totals.conversations
            for mine, theirs in ((into.counts, totals.counts), (into.sums, totals.sums)):
                for name, value in theirs.items():
                    mine[name] = mine.get(name, 0) + value  # type: ignore[assignment]
            for name in COUNTED:
                add_counts(getattr(into, name), getattr(totals, name))
    whole.compared = _together([tally.compared for tally in found])
    whole.by_model = _slices([tally.by_model for tally in found])
    whole.by_agent = _slices([tally.by_agent for tally in found])
    return whole


def _slice(slices: dict[str, dict[str, Comparison]], name: str) -> dict[str, Comparison]:
    known = name in slices or len(slices) < _MOST_MODELS
    return slices.setdefault((name if known else "") or OTHER, {})


def _slices(
    parts: list[dict[str, dict[str, Comparison]]],
) -> dict[str, dict[str, Comparison]]:
    names = sorted({name for part in parts for name in part})
    return {name: _together([part.get(name, {}) for part in parts]) for name in names}


def _together(parts: list[dict[str, Comparison]]) -> dict[str, Comparison]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: merged(part[name] for part in parts if name in part) for name in names}


def _comparisons(data: Mapping[str, Mapping[str, Any]]) -> dict[str, Comparison]:
    return {name: Comparison(**sums) for name, sums in data.items()}

"""What is known of one conversation in an experiment, and the figures it is judged by.

No text, no key: counts, dollars, our own words, and the names of models and tools.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

FIGURES: Mapping[str, str] = {
    "dollars": "Dollars a conversation, by the price sheet",
    "tokens": "Prompt tokens a conversation, as the provider counted them",
    "calls": "Calls a conversation",
    "repeated": "Steps that did again what an elided one did, or one that would have been elided",
    "errors": "Share of calls that failed",
    "first_byte_ms": "Milliseconds to the first byte of an answer",
    "answer_tokens": "Tokens of an answer",
    "outcome": "What was posted as the outcome",
}
"""What arms are compared in."""
POSITIVE = ("dollars", "tokens", "calls", "first_byte_ms", "answer_tokens")
"""Figures with a typical value beside their mean: logarithms are compared, so that a few huge
conversations do not drown the rest."""
TYPICAL = "typical_"
NAMES = (*FIGURES, *(TYPICAL + name for name in POSITIVE))
_MOST_KINDS = 60


@dataclass(slots=True, kw_only=True)
class Conversation:
    """Sums over the calls of one conversation, or over some of them."""

    arm: str = ""
    model: str = ""
    born: bool = False
    """Whether its first call was seen in its arm."""
    affected: bool = False
    """Whether its prompt was ever long enough to be shortened: until then both arms are alike."""
    calls: int = 0
    answered: int = 0
    dollars: float = 0.0
    prompt_tokens: int = 0
    output_tokens: int = 0
    repeated: int = 0
    waited_ms: float = 0.0
    errors: dict[str, int] = field(default_factory=dict)
    """Failed calls, by our own word for what went wrong."""
    elided: dict[str, int] = field(default_factory=dict)
    """Steps that were elided, or would have been, by the form they were left in and their tool."""
    asked: dict[str, int] = field(default_factory=dict)
    """Of these, what was done again afterwards."""
    agent: str = ""
    outcome: float | None = None
    seen_at: float = 0.0
    """In seconds since 1970."""

    def add(self, other: "Conversation") -> None:
        """Take in further calls."""
        self.arm, self.model = other.arm or self.arm, other.model or self.model
        self.born, self.affected = self.born or other.born, self.affected or other.affected
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.agent = other.agent or self.agent
        for name in COUNTED:
            add_counts(getattr(self, name), getattr(other, name))
        self.outcome = self.outcome if other.outcome is None else other.outcome
        self.seen_at = max(self.seen_at, other.seen_at)

    def as_json(self) -> dict[str, Any]:
        """Return it for a file: what says nothing is left out."""
        told = asdict(self)
        # An outcome of 0 says something.
        return {name: told[name] for name in _NAMES if told[name] or name == "outcome"}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Conversation":
        """Return it as a file has it."""
        return cls(**{name: data[name] for name in _NAMES if data.get(name) is not None})


COUNTED = ("errors", "elided", "asked")
"""What is counted by kind."""


def add_counts(into: dict[str, int], more: Mapping[str, int]) -> None:
    """Add what was counted by kind; of too many kinds the rest is one."""
    for kind, count in more.items():
        kept = kind if kind in into or len(into) < _MOST_KINDS else "other"
        into[kept] = into.get(kept, 0) + count


_NAMES = tuple(each.name for each in fields(Conversation))
_SUMS = ("calls", "answered", "dollars", "prompt_tokens", "output_tokens", "repeated", "waited_ms")


def figures(conversation: Conversation) -> dict[str, float]:
    """Return what a conversation that is over has in each figure that it has a value in.

    >>> found = figures(Conversation(calls=4, answered=2, waited_ms=500.0, errors={"429": 2}))
    >>> found["calls"], found["errors"], found["first_byte_ms"], "outcome" in found
    (4, 0.5, 250.0, False)
    """
    found = {
        "dollars": conversation.dollars,
        "tokens": conversation.prompt_tokens,
        "calls": conversation.calls,
        "repeated": conversation.repeated,
        "errors": sum(conversation.errors.values()) / max(1, conversation.calls),
    }
    if conversation.answered:
        found["first_byte_ms"] = conversation.waited_ms / conversation.answered
        found["answer_tokens"] = conversation.output_tokens / conversation.answered
    if conversation.outcome is not None:
        found["outcome"] = conversation.outcome
    for name in POSITIVE:
        if found.get(name, 0.0) > 0:
            found[TYPICAL + name] = math.log(found[name])
    return found

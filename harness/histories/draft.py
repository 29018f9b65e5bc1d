"""A history while it is being written."""

from dataclasses import dataclass, field
from typing import Any

from agora.core import Observations
from harness.histories.choices import Choices


@dataclass(slots=True)
class Draft:
    """The messages so far, and where their steps and calls are."""

    messages: Any = field(default_factory=list)
    system: object = None
    tools: object = None
    thinking: bool | None = None
    observations: Observations | None = None
    closed: list[tuple[int, ...]] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    recalls: list[tuple[int, int]] = field(default_factory=list)

    def put(self, *messages: Any) -> list[int]:
        """Add messages and return their positions."""
        start = len(self.messages)
        self.messages.extend(messages)
        return list(range(start, len(self.messages)))

    def called(self) -> None:
        """Note that the backbone is called with what is there now."""
        if not self.calls or self.calls[-1] != len(self.messages):
            self.calls.append(len(self.messages))

    def recall_arguments(self, choices: Choices) -> dict[str, Any]:
        """Return the arguments of a recall of some step, and note it."""
        number = 1 + choices.below(max(1, len(self.closed)))
        self.recalls.append((len(self.closed) + 1, number))
        return {"step": number}

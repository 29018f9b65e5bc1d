"""What the caller says about a request beside its messages."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Told:
    """The rest of the request, as far as rules depend on it. `None` is: not said."""

    system: object = None
    tools: object = None
    thinking: bool | None = None
    strict: bool = False
    before: object = None
    """The messages as they were before editing."""

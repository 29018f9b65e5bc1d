"""When to edit: one fold over the calls of a conversation, from sizes, prices and time alone.

`advance` is asked once a call, live as in replay. The `edit` of the state it returns is what the
call is sent with. Nothing else in this package decides when to edit. Where the past is unknown,
`fold` runs the same function over the calls that the messages imply.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from agora.core.budget import Budget
from agora.core.prices import PriceSheet

MAX_COST_RATIO = 1.05
"""The most that the bill may be, as a ratio to never editing, wherever a conversation ends."""
MIN_TOKENS = 4_096
"""Smaller prompts are left alone when edits go by price."""
FORGETTING = 1.0
"""The price of forgetting: input tokens for each token that a warm edit newly removes."""

EditsMode = Literal["by_price", "free", "every_call", "never"]
"""When they pay; only at free moments and for the window; at every call; never."""
EditReason = Literal["free", "warm", "window", "every call"]


class Edit(NamedTuple):
    """A place in the conversation before which older steps are shortened."""

    steps: int
    """How many steps came before it."""
    room: int | None = None
    """How many tokens may stay of those steps and all before them; None: what the budget says."""
    why: EditReason = "warm"


class Billed(NamedTuple):
    """What the provider's usage says of one call, in the provider's tokens."""

    uncached: int
    read: int
    written: int
    output: int = 0


class Call(NamedTuple):
    """What the schedule knows of one call: sizes in tokens, and what happened since the last one.

    Sizes are those of the caller's own messages, as they are without any edit.
    """

    steps: int
    """How many steps the messages have."""
    prompt: int
    """Everything up to the newest step: preamble, steps, and what was said between them."""
    outside: int
    """How much of it an edit now could remove: all outside the protected steps, less a marker."""
    opening: int = 0
    """How much of the preamble a cache finds again after an edit."""
    tail: int = 0
    """What was said after the newest step."""
    pending: int = 0
    """Assistant blocks that wait for their observation; only the window counts them."""
    reasoning: int = 0
    """Thinking since the user's last words that an edit would take out; 0 where thinking is not
    bound to the prompt."""
    output: int = 0
    """The tokens of the last answer, for where `usage` does not say."""
    beginning: int = 0
    """A digest of what stands before the messages or decides how they are cached: model, system,
    tools, thinking parameters. 0 where it is not known."""
    idle_seconds: float | None = None
    """Silence since the end of the last answer, if this process received that answer."""
    usage: Billed | None = None
    """What the provider said of the last call."""
    removes: int | None = None
    """How many tokens the new edit that `advance` named for this call removes from the prompt, now
    that it is written. Asked again with it from the same state, `advance` takes the edit or drops
    it. None: what the edit's room implies is taken for true."""


class State(NamedTuple):
    """All that the schedule remembers of a conversation, as of its last call.

    Costs are tokens of uncached input times the sheet's dollars per million.
    """

    edit: Edit | None = None
    """What the last call is sent with; None: the caller's own messages."""
    is_new: bool = False
    """True if that edit was made at the last call."""
    removed: int = 0
    """How many tokens the edit takes off the prompt."""
    calls: int = 0
    steps: int = 0
    prompt: int = 0
    """The last call's whole prompt without any edit."""
    beginning: int = 0
    rent: float = 0.0
    """What the calls since the last edit paid for tokens that an edit would have removed."""
    paid: float = 0.0
    """The bill of all calls but the last."""
    whole: float = 0.0
    """What those calls would have cost without any edit."""
    last_paid: float = 0.0
    """What the last call should cost."""
    last_whole: float = 0.0
    """What it should cost without any edit."""
    cached: int = 0
    """How much of the last call's prompt the cache should have held."""
    output: float = 0.0
    """What all answers cost."""
    scale: float = 1.0
    """The provider's tokens for one of ours, by the last usage."""
    waited: int = 0
    """How many calls a due edit has waited for the user's next words."""
    spent: float = 0.0
    """What that waiting cost."""
    shortfall: int = 0
    """How much less the last edit removed than its room implied."""

    def row(self) -> list[Any]:
        """Return the state as a JSON row of at most 300 bytes."""
        raise NotImplementedError

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> "State | None":
        """Return the state of a row, or None for a row of another version."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The prices and settings that decisions depend on."""

    sheet: PriceSheet
    """A sheet that still lists lifetimes is that of a request that names none: the longest counts.
    """
    budget: Budget = field(default_factory=Budget)
    k_recent: int = 2
    max_cost_ratio: float = MAX_COST_RATIO
    """The most the bill may be, as a ratio to never editing; `math.inf` for no limit."""
    min_tokens: int = MIN_TOKENS
    forgetting: float = FORGETTING
    edits: EditsMode = "by_price"


def advance(state: State | None, call: Call, policy: Policy) -> State:
    """Return the state after a call; its `edit` is what the call is sent with.

    `state` is that after the call before, None at the first call.
    """
    raise NotImplementedError


def fold(calls: Iterable[Call], policy: Policy) -> State | None:
    """Return the state after calls of which nothing but the sizes is known."""
    state = None
    for call in calls:
        state = advance(state, call, policy)
    return state

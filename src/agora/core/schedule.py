"""When to edit: one fold over the calls of a conversation, from sizes, prices and time alone.

`advance` runs once a call, live as in replay. The call is sent with the `edit` of the state that
`advance` returns. Nothing else in this package decides when to edit. If the past is unknown, `fold`
runs the same function over the calls that the messages imply.

There are three kinds of edit.

- *Window*: the prompt would not fit. It comes first and asks no price.
- *Free*: the cache is gone for certain, after a silence or because the request begins differently.
  Then the whole prompt is written anyway, and shortening it costs nothing but memory.
- *Warm*: all that follows the first change is written again. Until then each call pays rent: the
  price of reading the tokens that an edit would remove. The edit is due when the rent has reached
  its price and the price of forgetting. This is the ski-rental rule.

At no call the bill with edits exceeds `max_cost_ratio` times the bill without, unless the window
forced an edit. That assumes:

- A cache holds the last call's prompt for its lifetime. Where `usage` says that it did not, the
  bill so far follows `usage`, and only the current call is assumed.
- Without any edit every call would have found the cache as the edited calls found it.
- An edit leaves at most its room, unless `Call.removes` has the number that it really removed.
- A beginning that changed does not change back while its cache lives.
- No call is repeated because of an edit. The price of forgetting covers that.
"""

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from agora.core.budget import Budget
from agora.core.calls import Billed, Call, calls_of, implied
from agora.core.prices import PriceSheet
from agora.core.trajectory import Trajectory

WINDOW_SHARE = 0.5
"""The largest share of the window that an edit leaves filled; if full, every call would edit."""
FREE_TOKENS = 10_000
"""The least removable tokens of a free edit; a smaller one forgets more than it saves."""
FREE_SHARE = 0.1
"""The share of the removable tokens that a free edit leaves."""
CLOCK_MARGIN_SECONDS = 60.0
"""Providers keep a cache somewhat longer than they say."""
LEAST_BREAK_EVEN = 0.05
"""The least share of the next call's price that an edit must save: the calls it may cause."""
PATIENCE_CALLS = 4
"""How many calls an edit that is due waits at most for the user's next words."""
RETHOUGHT_SHARE = 0.1
"""How much of the thinking that an edit takes out is thought again: assumed, not measured."""
FORESIGHT_CALLS = 100
"""How far `why_not` looks ahead."""
MAX_COST_RATIO = 1.05
"""The most the bill may be at any call, as a ratio to never editing; `math.inf` for no limit."""
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
    """How many tokens may stay of those steps and all before them; None: the budget decides."""
    why: EditReason = "warm"


class State(NamedTuple):
    """All that the schedule remembers of a conversation, as of its last call.

    Costs are tokens of uncached input times the sheet's dollars per million.
    """

    edit: Edit | None = None
    """The edit of the last call; None for the caller's own messages."""
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
    """The rent so far: the cost, since the last edit, of tokens that an edit would have removed."""
    paid: float = 0.0
    """The bill of all calls but the last."""
    whole: float = 0.0
    """The cost of those calls without any edit."""
    last_paid: float = 0.0
    """The expected cost of the last call."""
    last_whole: float = 0.0
    """Its expected cost without any edit."""
    cached: int = 0
    """How much of the last call's prompt the cache should have held."""
    output: float = 0.0
    """The cost of all answers."""
    scale: float = 1.0
    """The provider's tokens for one of ours, by the last usage."""
    waited: int = 0
    """How many calls a due edit has waited for the user's next words, at what cost."""
    spent: float = 0.0
    shortfall: int = 0
    """How much less the last edit removed than its room implied."""

    def row(self) -> list[Any]:
        """Return the state as a JSON row of at most 300 bytes."""
        edit, *numbers = self
        rounded = (round(n, 2) if isinstance(n, float) else int(n) for n in numbers)
        return [_VERSION, edit and list(edit), *rounded]

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> "State | None":
        """Return the state of a row, or None for a row of another version."""
        if len(row) != len(cls._fields) + 1 or row[0] != _VERSION:
            return None
        _, edit, is_new, *numbers = row
        return cls(Edit(*edit) if edit else None, bool(is_new), *numbers)


_VERSION = 1
_SURVIVED = 0.9  # A call that reads less than this share of the cached tokens has lost the cache.


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The prices and settings that decisions depend on."""

    sheet: PriceSheet
    """A sheet with lifetimes is that of a request without one: then the longest counts."""
    budget: Budget = field(default_factory=Budget)
    k_recent: int = 2
    max_cost_ratio: float = MAX_COST_RATIO
    min_tokens: int = MIN_TOKENS
    forgetting: float = FORGETTING
    edits: EditsMode = "by_price"
    unit: float = field(init=False, repr=False, compare=False)
    """Dollars per million tokens of uncached input."""
    read: float = field(init=False, repr=False, compare=False)
    write: float = field(init=False, repr=False, compare=False)
    mode: EditsMode = field(init=False, repr=False, compare=False)
    """`every_call` also where writing costs no more than reading, so that edits cost nothing."""
    silence: float = field(init=False, repr=False, compare=False)
    """Seconds after which the cache is gone."""
    cliff: float = field(init=False, repr=False, compare=False)
    """The largest prompt at the sheet's own prices."""

    def __post_init__(self) -> None:
        sheet, read, write = self.sheet, self.sheet.expected_read, self.sheet.write
        seconds = max([sheet.ttl_seconds, *(life.seconds for life in sheet.lifetimes)])
        is_known = write > read and seconds > 0 and not sheet.ttl_assumed
        for name, value in {
            "unit": sheet.input or 1.0,
            "read": read,
            "write": write,
            "mode": "every_call" if self.edits == "by_price" and write <= read else self.edits,
            "silence": seconds + CLOCK_MARGIN_SECONDS if is_known else math.inf,
            "cliff": sheet.cliff or math.inf,
        }.items():
            object.__setattr__(self, name, value)

    def cost(self, scale: float, prompt: float, cached: float) -> float:
        """Return the cost of a prompt with `cached` tokens in the cache."""
        minimum = self.sheet.minimum_prefix
        if prompt < minimum:
            cost = prompt
        elif cached < minimum or cached <= 0:
            cost = self.write * prompt
        else:
            cost = self.write * prompt - (self.write - self.read) * cached
        if prompt * scale > self.cliff:
            cost *= self.sheet.tier(prompt * scale).input
        return cost * self.unit * scale


def advance(state: State | None, call: Call, policy: Policy) -> State:
    """Return the state after a call, from the state before it; None at the first call."""
    if state is None or call.steps < state.steps:
        state = State()
    sheet, budget, mode = policy.sheet, policy.budget, policy.mode
    (
        steps, prompt, outside, opening, tail, pending, thinking, answer, beginning, idle, usage,
        removes,
    ) = call  # fmt: skip
    (
        edit, _, removed, calls, _, before, began, rent, paid, whole, last_paid, last_whole, _,
        output, scale, waited, spent, shortfall,
    ) = state  # fmt: skip
    changed = 0 != beginning != began != 0
    if usage is not None and not changed:  # Another model's usage has other prices.
        last_paid, last_whole, scale = _billed(state, usage, policy)
        answer = max(answer, round(usage.output / scale))
    paid, whole = paid + last_paid, whole + last_whole
    output += answer * sheet.output * scale

    # The cost of the call with the edit in force, and without any.
    gone = changed or (idle is not None and idle > policy.silence)
    total = prompt + tail
    before = total if steps and not calls else before  # Another process may have begun it.
    sent, held = total - removed, before - removed
    cached, kept = (0, 0) if gone else (held, opening)
    stay = policy.cost(scale, sent, cached)
    full = policy.cost(scale, total, 0 if gone else before) if removed else stay
    calls += 1

    # The tokens that an edit now would leave, and how many more than the last one it would remove.
    window = (sheet.window or math.inf) / scale
    why: EditReason | None = None
    room = gain = 0.0
    free = gone and outside - removed >= FREE_TOKENS
    if mode == "every_call":
        why = "every call" if policy.edits == "every_call" or prompt >= policy.min_tokens else None
    elif mode != "never" and outside > removed:
        # A warm edit that leaves up to read / write of the past pays for itself on its own call.
        share = FREE_SHARE if free else min(budget.min_ratio, policy.read / policy.write)
        least = prompt - (1 - share) * outside
        room = max((budget.keep_ratio or 0.0) * prompt + (budget.limit or 0), least)
        if room > WINDOW_SHARE * window:
            room = max(prompt - outside, WINDOW_SHARE * window)
        gain = prompt - room - removed - shortfall
    if gain > 0:
        token = policy.unit * scale
        saved = stay - policy.cost(scale, sent - gain, cached - gain)
        growth = (total - opening) / calls
        next_call = (policy.read * sent + policy.write * growth) * token + output / calls
        rethought = RETHOUGHT_SHARE * thinking * sheet.output * scale
        offer, slack = rent + stay - rethought, policy.max_cost_ratio * (whole + full) - paid
        rent += saved
        if sent + pending > window:
            why = "window"
        elif (
            prompt < policy.min_tokens or policy.read * gain * token < LEAST_BREAK_EVEN * next_call
        ):
            pass
        elif gone:
            why = "free" if free and saved >= rethought else None
        elif mode == "by_price" and rent >= policy.forgetting * gain * token + rethought:
            most = prompt - least - removed - shortfall
            deeper = _warm(policy, scale, (sent, kept), offer, slack, gain, most)
            if deeper and waited < PATIENCE_CALLS and spent + saved < rethought:
                waited, spent = waited + 1, spent + saved
            elif deeper:
                why, room = "warm", room + gain - deeper
        if why and removes is not None:
            # The edit is written: the tokens that it really removes decide.
            gain, shortfall = removes - removed, max(0, int(prompt - room) - removes)
            if gain <= 0 or (
                why == "warm" and not _warm(policy, scale, (sent, kept), offer, slack, gain, gain)
            ):
                why = None

    if why:
        edit = Edit(steps, None if why == "every call" else int(room), why)
        implied = 0 if why == "every call" else prompt - int(room) - shortfall
        removed, held = implied if removes is None else removes, opening
        stay, rent, waited, spent = policy.cost(scale, total - removed, kept), 0.0, 0, 0.0
    return State(
        edit, why is not None, removed, calls, steps, total, beginning or began, rent, paid, whole,
        stay, full, held, output, scale, waited, spent, shortfall,
    )  # fmt: skip


def _warm(
    policy: Policy,
    scale: float,
    sizes: tuple[float, float],
    offer: float,
    slack: float,
    gain: float,
    most: float,
) -> float:
    """Return how many tokens a warm edit has to remove to be due, 0 if it is not.

    `sizes`: the prompt as it is and its part that stays cached; `offer`: the rent and the cost of
    the call without the edit; `slack`: the tokens that the ceiling affords.
    """
    sent, kept = sizes
    token = policy.unit * scale
    price = policy.cost(scale, sent - gain, kept)
    if offer < price + policy.forgetting * gain * token:
        return 0.0
    if price > slack:
        # The ceiling affords less than the budget: each token left is written again.
        gain += (price - slack) / (policy.write * token) + 1
        if gain > most or policy.cost(scale, sent - gain, kept) > slack:
            return 0.0
    return gain if sent - gain >= 2 * policy.sheet.minimum_prefix else 0.0


def _billed(state: State, usage: Billed, policy: Policy) -> tuple[float, float, float]:
    """Return the last call's cost by usage, its cost without edits, and the token scale."""
    sheet, sent = policy.sheet, state.prompt - state.removed
    tokens = usage.uncached + usage.read + usage.written
    if tokens <= 0 or sent <= 0:
        return state.last_paid, state.last_whole, state.scale
    scale = tokens / sent
    paid = usage.uncached + sheet.read * usage.read + sheet.write * usage.written
    paid *= policy.unit * sheet.tier(tokens).input
    if state.is_new:
        return paid, state.last_whole * scale / state.scale, scale
    read = usage.read / scale
    lives = read >= _SURVIVED * sheet.hit * state.cached
    whole = policy.cost(scale, state.prompt, read + state.removed * lives)
    return paid, paid + whole - policy.cost(scale, sent, read), scale


def states(
    trajectory: Trajectory, policy: Policy, *, pinned: Set[int] = frozenset()
) -> Iterator[State]:
    """Yield the state after each call of a trajectory whose past is unknown.

    One call is assumed after each step and after each of the user's later messages, no pauses,
    and that each edit removed as much as its room implies.
    """
    state = None
    for call in calls_of(trajectory, policy.sheet, policy.k_recent, pinned=pinned):
        yield (state := advance(state, call, policy))


def fold(trajectory: Trajectory, policy: Policy, *, pinned: Set[int] = frozenset()) -> State:
    """Return the state after a trajectory whose past is unknown."""
    return list(states(trajectory, policy, pinned=pinned))[-1]


def call_of(trajectory: Trajectory, policy: Policy, *, pinned: Set[int] = frozenset()) -> Call:
    """Return the newest call of a trajectory, from its sizes."""
    moments = implied(trajectory)[-2:]
    return calls_of(trajectory, policy.sheet, policy.k_recent, pinned=pinned, moments=moments)[-1]


def why_not(state: State, call: Call, policy: Policy) -> str:
    """Return in words why a call is sent without an edit, looking some calls ahead."""
    if policy.mode == "never":
        return "edits are switched off"
    prompt, outside, steps = call.prompt + call.tail, call.outside, max(1, call.steps)
    for ahead in range(1, FORESIGHT_CALLS + 1):
        prompt += (call.prompt - call.opening) // steps
        outside += call.outside // steps
        state = advance(state, Call(steps + ahead, prompt, outside, call.opening), policy)
        if state.is_new:
            return f"an edit is due in about {ahead} {'call' if ahead == 1 else 'calls'}"
    return f"no edit is due within {FORESIGHT_CALLS} calls"

"""When to edit: one fold over the calls of a conversation, from sizes, prices and time alone.

`advance` is asked once a call, live as in replay. The `edit` of the state it returns is what the
call is sent with. Nothing else in this package decides when to edit. Where the past is unknown,
`fold` runs the same function over the calls that the messages imply.

There are three kinds of edit.

- *Window*: the prompt would not fit. It comes first and asks no price.
- *Free*: the cache is gone for certain, after a silence or because the request begins differently.
  Then the whole prompt is written anyway, and shortening it costs nothing but memory.
- *Warm*: all that follows the first change is written again. Until then each call pays rent: the
  price of reading what an edit would remove. The edit is due when the rent has reached its price
  and the price of forgetting. This is the ski-rental rule.

The bill with edits is never more than `max_cost_ratio` times the bill without, at any call, unless
the window forced an edit. docs/explanation/when-it-edits.md has the figures. That assumes:

- A cache holds the last call's prompt until its lifetime has passed. Where `usage` says that it
  did not, the bill so far follows `usage`, and only the call at hand is assumed.
- Without any edit every call would have found the cache as the edited calls found it.
- An edit leaves at most its room, unless `Call.removes` says what it really removed.
- No call is repeated because of an edit. The price of forgetting stands for that.
"""

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from agora.core.budget import Budget
from agora.core.calls import Billed, Call, calls_of
from agora.core.prices import PriceSheet
from agora.core.trajectory import Trajectory

WINDOW_SHARE = 0.5
"""The largest share of the window that an edit leaves filled; if full, every call would edit."""
FREE_TOKENS = 10_000
"""A free edit needs so many tokens that it may remove; below, it forgets more than it saves."""
FREE_SHARE = 0.1
"""The share of what an edit may remove that a free edit leaves."""
CLOCK_MARGIN_SECONDS = 60.0
"""Providers keep a cache somewhat longer than they say."""
LEAST_BREAK_EVEN = 0.05
"""An edit must save at the next call at least this share of that call's price: it may cause so
many more calls."""
PATIENCE_CALLS = 4
"""How many calls an edit that is due waits at most for the user's next words."""
RETHOUGHT_SHARE = 0.1
"""How much of the thinking that an edit takes out is taken to be thought again, at the price of
output. An assumption: nobody has measured it."""
FORESIGHT_CALLS = 100
"""How far `why_not` looks ahead."""

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
_START = State()
_SURVIVED = 0.9
"""A call that reads less than this share of what the cache should hold has lost it."""
_ROUNDING = 1 + 1e-9


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
    terms: "_Terms" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", _Terms.of(self))


class _Terms(NamedTuple):
    """What `advance` reads of a policy at every call, worked out once."""

    sheet: PriceSheet
    mode: EditsMode
    unit: float
    """Dollars per million tokens of uncached input."""
    read: float
    write: float
    output: float
    silence: float
    """Seconds after which the cache is gone."""
    warm_share: float
    """The share of what an edit may remove that a warm one leaves: no more than read / write. Up
    to there an edit saves on its own call what writing that share costs."""
    free_share: float
    ratio: float
    limit: int
    window: float
    roomiest: float
    minimum: int
    cliff: float
    least: int
    """Smaller prompts are left alone."""
    max_ratio: float
    forgetting: float

    @classmethod
    def of(cls, policy: Policy) -> "_Terms":
        sheet, budget = policy.sheet, policy.budget
        read, write, unit = sheet.expected_read, sheet.write, sheet.input or 1.0
        seconds = max([sheet.ttl_seconds, *(life.seconds for life in sheet.lifetimes)])
        tells = write > read and seconds > 0 and not sheet.ttl_assumed
        window = math.inf if sheet.window is None else sheet.window
        every_call = policy.edits == "by_price" and write <= read
        return cls(
            sheet=sheet,
            mode="every_call" if every_call else policy.edits,
            unit=unit,
            read=read,
            write=write,
            output=sheet.output,
            silence=seconds + CLOCK_MARGIN_SECONDS if tells else math.inf,
            warm_share=min(budget.min_ratio, read / write),
            free_share=min(budget.min_ratio, FREE_SHARE),
            ratio=budget.keep_ratio or 0.0,
            limit=budget.limit or 0,
            window=window,
            roomiest=window * WINDOW_SHARE,
            minimum=sheet.minimum_prefix,
            cliff=math.inf if sheet.cliff is None else sheet.cliff,
            least=0 if policy.edits == "every_call" else policy.min_tokens,
            max_ratio=policy.max_cost_ratio,
            forgetting=policy.forgetting,
        )


def advance(state: State | None, call: Call, policy: Policy) -> State:
    """Return the state after a call; its `edit` is what the call is sent with.

    `state` is that after the call before, None at the first call.
    """
    if state is None or call.steps < state.steps:
        state = _START
    terms = policy.terms
    (
        steps,
        prompt,
        outside,
        opening,
        tail,
        pending,
        reasoning,
        answer,
        beginning,
        idle,
        usage,
        removes,
    ) = call
    (
        edit,
        _,
        removed,
        calls,
        _,
        before,
        began,
        rent,
        paid,
        whole,
        last_paid,
        last_whole,
        _,
        output,
        scale,
        waited,
        spent,
        shortfall,
    ) = state
    if usage is None:
        paid, whole = paid + last_paid, whole + last_whole
    else:
        paid, whole, scale = _settled(state, usage, terms)
        answer = max(answer, round(usage.output / scale))
    output += answer * terms.output * scale
    total = prompt + tail
    if not calls and steps:
        # A conversation that began elsewhere may still be cached.
        before = total
    sent, held = total - removed, before - removed
    gone = (idle is not None and idle > terms.silence) or 0 != beginning != began != 0
    if gone:
        before = cached = opening = 0
    else:
        cached = held
    stay = _cost(terms, scale, sent, cached)
    full = _cost(terms, scale, total, before) if removed else stay
    token = terms.unit * scale
    calls += 1

    why: EditReason | None = None
    room = 0.0
    if terms.mode == "every_call":
        why = "every call" if prompt >= terms.least else None
    elif terms.mode != "never" and outside > removed:
        free = gone and outside - removed >= FREE_TOKENS
        least = prompt - (1 - (terms.free_share if free else terms.warm_share)) * outside
        room = terms.ratio * prompt + terms.limit
        if room < least:
            room = least
        if room * scale > terms.roomiest:
            room = max(prompt - outside, terms.roomiest / scale)
        gain = prompt - room - removed - shortfall
        if gain > 0:
            saved = (terms.write if gone else terms.read) * gain * token
            if sent * scale > terms.cliff:
                saved = stay - _cost(terms, scale, sent - gain, cached - gain)
            thinking = RETHOUGHT_SHARE * reasoning * terms.output * scale
            offer = rent + stay - thinking
            slack = terms.max_ratio * (whole + full) - paid
            rent += saved
            if (sent + pending) * scale > terms.window:
                why = "window"
            elif prompt < terms.least:
                pass
            elif gone:
                why = "free" if free and saved >= thinking else None
            elif terms.mode == "by_price" and rent >= terms.forgetting * gain * token + thinking:
                most = prompt - least - removed - shortfall
                deep = _warm(terms, scale, sent, opening, offer, slack, gain, most)
                if deep:
                    why, room = "warm", room - (deep - gain)
            if why in ("free", "warm"):
                growth = (total - opening) / calls
                next_call = (terms.read * sent + terms.write * growth) * token + output / calls
                if terms.read * gain * token < LEAST_BREAK_EVEN * next_call:
                    why = None
            if why == "warm" and waited < PATIENCE_CALLS and spent + saved < thinking:
                why, waited, spent = None, waited + 1, spent + saved

    taken = removes
    if taken is None:
        taken = 0 if terms.mode == "every_call" else int(prompt - room) - shortfall
    elif why in ("free", "warm", "window"):
        # The edit is written: what it really removes decides.
        gain = taken - removed
        shortfall = max(0, int(prompt - room) - taken)
        if gain <= 0 or (
            why == "warm" and not _warm(terms, scale, sent, opening, offer, slack, gain, gain)
        ):
            why = None
    if why is not None:
        edit = Edit(steps, None if why == "every call" else int(room), why)
        removed, held = taken, opening
        stay = _cost(terms, scale, total - removed, opening)
        rent, waited, spent = 0.0, 0, 0.0
    return State(
        edit,
        why is not None,
        removed,
        calls,
        steps,
        total,
        beginning or began,
        rent,
        paid,
        whole,
        stay,
        full,
        held,
        output,
        scale,
        waited,
        spent,
        shortfall,
    )


def _warm(
    terms: _Terms,
    scale: float,
    sent: int,
    opening: int,
    offer: float,
    slack: float,
    gain: float,
    most: float,
) -> float:
    """Return how many tokens a warm edit has to remove to be due, 0 if it is not.

    It costs the writing of all that follows the opening, and the price of forgetting. `offer` is
    the rent with what this call costs without the edit. `slack` is what the ceiling affords.
    """
    token = terms.unit * scale
    price = _cost(terms, scale, sent - gain, opening)
    if offer < price + terms.forgetting * gain * token:
        return 0.0
    if price > slack:
        # The ceiling affords less than the budget: each token left is written again.
        gain += (price - slack) / (terms.write * token)
        price = _cost(terms, scale, sent - gain, opening)
        if gain > most or price > slack * _ROUNDING:
            return 0.0
    return gain if sent - gain >= 2 * terms.minimum else 0.0


def _settled(state: State, usage: Billed, terms: _Terms) -> tuple[float, float, float]:
    """Return the bill with the last call, the bill without edits, and the scale.

    `usage` says what the last call cost, and whether its cache had survived.
    """
    sent = state.prompt - state.removed
    tokens = usage.uncached + usage.read + usage.written
    if tokens <= 0 or sent <= 0:
        return state.paid + state.last_paid, state.whole + state.last_whole, state.scale
    scale = tokens / sent
    billed = usage.uncached + terms.sheet.read * usage.read + terms.write * usage.written
    billed *= terms.unit
    if tokens > terms.cliff:
        billed *= terms.sheet.tier(tokens).input
    if state.is_new:
        whole = state.last_whole * scale / state.scale
    elif state.removed:
        read = usage.read / scale
        lives = read >= _SURVIVED * terms.sheet.hit * state.cached
        whole = billed - _cost(terms, scale, sent, read)
        whole += _cost(terms, scale, state.prompt, read + lives * state.removed)
    else:
        whole = billed
    return state.paid + billed, state.whole + whole, scale


def _cost(terms: _Terms, scale: float, prompt: float, cached: float) -> float:
    """Return what a prompt costs of which so much is in the cache."""
    minimum, write = terms.minimum, terms.write
    if prompt < minimum:
        cost = prompt
    elif cached < minimum or cached <= 0:
        cost = write * prompt
    else:
        cost = write * prompt - (write - terms.read) * cached
    if prompt * scale > terms.cliff:
        cost *= terms.sheet.tier(prompt * scale).input
    return cost * terms.unit * scale


def states(
    trajectory: Trajectory, policy: Policy, *, pinned: Set[int] = frozenset()
) -> Iterator[State]:
    """Yield the state after each call of a trajectory whose past is unknown.

    One call is assumed after each step and after each of the user's later messages, no pauses,
    and that each edit removed what its room implies.
    """
    state = None
    for call in calls_of(trajectory, policy.sheet, policy.k_recent, pinned=pinned):
        state = advance(state, call, policy)
        yield state


def fold(trajectory: Trajectory, policy: Policy, *, pinned: Set[int] = frozenset()) -> State:
    """Return the state after a trajectory whose past is unknown."""
    *_, state = states(trajectory, policy, pinned=pinned)
    return state


def call_of(trajectory: Trajectory, policy: Policy, *, pinned: Set[int] = frozenset()) -> Call:
    """Return the newest call of a trajectory, as far as its sizes tell."""
    steps, spoken = len(trajectory.steps), len(trajectory.utterances)
    moments = [(max(0, steps - 1), 0), (steps, spoken)]
    calls = calls_of(trajectory, policy.sheet, policy.k_recent, pinned=pinned, moments=moments)
    return calls[-1]


def why_not(state: State, call: Call, policy: Policy) -> str:
    """Return in words why a call is sent without an edit, looking some calls ahead."""
    if policy.edits == "never":
        return "edits are switched off"
    if policy.terms.mode == "every_call":
        return f"a prompt below {policy.min_tokens:,} tokens is left alone"
    steps = max(1, call.steps)
    step, outside = (call.prompt - call.opening) // steps, call.outside // steps
    for ahead in range(1, FORESIGHT_CALLS + 1):
        call = call._replace(
            steps=call.steps + 1,
            prompt=call.prompt + call.tail + step,
            outside=call.outside + outside,
            tail=0,
            pending=0,
            reasoning=0,
            idle_seconds=None,
            usage=None,
            removes=None,
        )
        state = advance(state, call, policy)
        if state.is_new:
            return f"an edit pays in about {ahead} {'call' if ahead == 1 else 'calls'}"
    return f"an edit does not pay within {FORESIGHT_CALLS} calls"

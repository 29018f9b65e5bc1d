"""When to edit: the epoch, found by rent or buy from sizes alone.

Between edits a prompt only grows at its end, and each call pays *rent*: what an
edit would remove, at the price of a cached read. An edit *buys* the shorter
prompt: all that follows the first change is written again. `RentOrBuy` edits at
the first call at which

1. the rent since the last edit has reached the price of buying, and
2. the bill so far with this edit is at most `ceiling` times the bill of never editing; an edit
   may leave less than the budget for that, down to the floor and the least share.

The first condition alone is the ski-rental rule: while the price of buying stays
the same it pays at most twice the avoidable part of the best schedule that knows
the future. The second holds at every call, so wherever the trajectory ends the
bill is at most `ceiling` times that of sending everything, unless the window
forced an edit. docs/concepts/bill.md has the proofs and what they assume.

Where the model binds thinking to the prefix an edit costs the reasoning of the loop it falls into.
There an edit that is due waits a few calls for the user to speak again, for as long as waiting
costs less than that reasoning is worth. Waiting is what never editing would do: it breaks no bound.

One call is made per step, so the sizes of the steps say what every earlier call
looked like, and no state is kept between calls.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, count, islice, repeat
from operator import add, mul, sub
from typing import NamedTuple, Protocol

from agora.core.budget import Budget
from agora.core.prices import PriceSheet
from agora.core.trajectory import Trajectory

MARKER_TOKENS = 16
"""The assumed cost of the bare marker of a run of elided steps, next to the floor."""
WINDOW_SHARE = 0.5
"""The largest share of the window that an edit leaves filled; if full, every call would edit."""
CEILING = 1.05
"""The most that the bill may be, as a ratio to never editing, wherever a trajectory ends; chosen by
evidence, see docs/decisions."""
MIN_TOKENS = 4_096
"""Prompts below this are left alone when edits go by price; see docs/decisions."""
PATIENCE_CALLS = 4
"""How many calls an edit that is due waits at most for the user to speak again."""
RETHOUGHT_SHARE = 0.1
"""How much of the reasoning that an edit takes away is taken to be thought again, at the price of
output. An assumption: nobody has measured it."""
FORESIGHT_STEPS = 1_000
"""How far `steps_until_due` looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of a trajectory, in tokens: everything a schedule may look at."""

    preamble: int
    """Everything before the first step."""
    steps: tuple[int, ...]
    said: tuple[int, ...]
    """Utterances after each step and before the next: never elided."""
    residues: tuple[int, ...]
    """What is left of each step when it is elided; all of it if it may not be."""
    asked: tuple[int, ...] = ()
    """How many user messages came after each step; each led to another call."""
    pending: int = 0
    """An assistant block that is still waiting for its observation."""
    unmarked: int = 0
    """What of the preamble a cache of marked places does not find again after an edit."""
    thinking: tuple[int, ...] = ()
    """What the thinking of each step costs that an edit after it would take out; empty where
    thinking is not bound to the prefix."""

    @classmethod
    def of(cls, trajectory: Trajectory, *, pinned: Set[int] = frozenset()) -> "Sizes":
        """Return the sizes of a trajectory; steps whose numbers are `pinned` stay whole."""
        said = [0] * (len(trajectory.steps) + 1)
        asked = said[:]
        for utterance in trajectory.utterances:
            said[utterance.after] += utterance.tokens
            asked[utterance.after] += utterance.by_user
        return cls(
            preamble=trajectory.preamble_tokens + said[0],
            steps=tuple(step.tokens for step in trajectory.steps),
            said=tuple(said[1:]),
            residues=tuple(
                step.tokens if step.fixed or step.number in pinned else step.residue_tokens
                for step in (
                    (step.without_thinking() for step in trajectory.steps)
                    if trajectory.bound
                    else trajectory.steps
                )
            ),
            asked=tuple(asked[1:]),
            pending=trajectory.pending_tokens,
            unmarked=trajectory.unmarked_tokens,
            thinking=tuple(step.thinking_tokens for step in trajectory.steps)
            if trajectory.bound
            else (),
        )

    @property
    def total(self) -> int:
        """The whole prompt, but for what is said after its newest step and what is pending."""
        return self.preamble + sum(self.steps) + sum(self.said[:-1])

    def upto(self, steps: int) -> "Sizes":
        """Return the sizes of the first `steps` steps."""
        return replace(
            self,
            steps=self.steps[:steps],
            said=self.said[:steps],
            residues=self.residues[:steps],
            asked=self.asked[:steps],
            pending=0,
            thinking=self.thinking[:steps],
        )

    def grown(self, steps: int) -> "Sizes":
        """Return these sizes with so many further steps, each of average size."""
        count = max(1, len(self.steps))
        return replace(
            self,
            steps=self.steps + (sum(self.steps) // count,) * steps,
            said=self.said + (sum(self.said) // count,) * steps,
            residues=self.residues + (sum(self.residues) // count,) * steps,
            asked=self.asked + (0,) * (steps + len(self.steps) - len(self.asked)),
            pending=0,
            thinking=(),
        )


class Change(NamedTuple):
    """A call from which a different edit is sent."""

    call: int
    """The call, by its number of steps."""
    epoch: int
    """0 if nothing is edited any more."""
    room: int


@dataclass(frozen=True, slots=True)
class Edit:
    """The edit that a call is sent with: everything a compressor asks of a schedule."""

    epoch: int
    """How many steps came before it: 0 when there was none yet, all of them when it is due now."""
    room: int | None = None
    """How many tokens it may leave of those steps and all before them; None: what the budget says.
    """
    sees_newest: bool = False
    """Whether it looks at what was said after its last step. Right only if every call is its own
    edit: one that must stay the same while more is said must not look there."""
    why: str = ""
    """Why nothing is edited, in words, if the schedule knows without looking ahead."""
    history: tuple[Change, ...] | None = None
    """Every change of the epoch so far, oldest first, if edits last longer than one call.

    More steps only add to it. None: each call stands alone and has to be asked about.
    """

    def by_call(self, calls: int) -> tuple[Change, ...]:
        """Return what the call after 0, 1, 2 … `calls` steps was sent with, by the history.

        >>> [change.epoch for change in Edit(2, history=(Change(2, 2, 900),)).by_call(3)]
        [0, 0, 2, 2]
        """
        sent: list[Change] = []
        last = _UNEDITED
        for change in self.history or ():
            sent.extend(repeat(last, change.call - len(sent)))
            last = change
        sent.extend(repeat(last, calls + 1 - len(sent)))
        return tuple(sent)


_UNEDITED = Change(0, 0, 0)


class Schedule(Protocol):
    """Decides which edit a call is sent with."""

    def edit(self, sizes: Sizes) -> Edit:
        """Return the edit that the call after all these steps is sent with."""
        ...


@dataclass(frozen=True, slots=True)
class EveryCall:
    """Edits at every call, as the paper does. Right if nothing is cached."""

    min_tokens: int = 0
    """A prompt below this is left alone, in the unit of the sizes."""

    def edit(self, sizes: Sizes) -> Edit:
        """Return an edit after all steps, or none while the prompt is small."""
        if self.min_tokens and sizes.total < self.min_tokens:
            why = f"a prompt below {self.min_tokens:,} tokens is left alone"
            return Edit(0, sees_newest=True, why=why)
        return Edit(len(sizes.steps), sees_newest=True)


@dataclass(frozen=True, slots=True)
class Never:
    """Never edits."""

    def edit(self, sizes: Sizes) -> Edit:  # noqa: ARG002 - the protocol's argument
        """Return no edit."""
        return Edit(0)


def steps_until_due(schedule: Schedule, sizes: Sizes) -> int | None:
    """Return about how many more steps of average size it takes until an edit is due.

    0 when one is due now, None when none will be within `FORESIGHT_STEPS`, or
    when the schedule keeps no history and so cannot be asked about the future.
    """
    now = len(sizes.steps)
    if schedule.edit(sizes).epoch == now:
        return 0
    for change in schedule.edit(sizes.grown(FORESIGHT_STEPS)).history or ():
        if change.epoch > now:
            return change.epoch - now
    return None


@dataclass(frozen=True, slots=True)
class RentOrBuy:
    """Edits when the rent has paid for it, and never lets the bill exceed `ceiling`.

    If reading costs as much as writing, buying is free and every call is an edit.
    """

    sheet: PriceSheet
    budget: Budget = field(default_factory=Budget)
    """Its ratio or limit, in the unit of the sizes."""
    k_recent: int = 2
    ceiling: float = CEILING
    """The most the bill may be, as a ratio to never editing; `math.inf` for rent or buy alone."""
    min_tokens: int = 0
    """A prompt below this is left alone unless the window forces an edit, in the unit of the sizes.

    Only what is sent has a price; what an agent forgets and does again has none. On a small prompt
    there is little to save and as much to forget.
    """
    marker_tokens: int = MARKER_TOKENS

    def edit(self, sizes: Sizes) -> Edit:
        """Return the edit that the call after all these steps is sent with."""
        history = tuple(self._changes(sizes))
        if not history:
            return Edit(0, history=())
        _, epoch, room = history[-1]
        return Edit(epoch, room, history=history)

    @property
    def min_ratio(self) -> float:
        """The share of what lies outside the floor that an edit leaves in any case.

        No more than read / write of the budget's: up to there an edit saves on its own call
        what writing that share costs, and its price does not grow with the trajectory. Above,
        it outgrows the ceiling, and no edit is due for a hundred steps and more.
        """
        return min(self.budget.min_ratio, self.sheet.expected_read / self.sheet.write)

    def _changes(self, sizes: Sizes) -> Iterator[Change]:
        """Yield every call at which the epoch changed, oldest first.

        All costs are in tokens at the price of uncached input. What is said after a
        call's newest step, and its pending block, come after the decision, so that a
        further message of the user does not move an epoch; only the window sees them.

        Each regime is one plain loop: 10,000 steps must take no more than 5 ms.
        """
        ledger = _Ledger.of(sizes, self)
        if self.sheet.write <= self.sheet.read:
            yield from self._while_edits_are_free(ledger)
        elif sizes.preamble >= self.sheet.minimum_prefix:
            block = max(1, self.sheet.block)
            found = sizes.preamble - (sizes.unmarked if self.sheet.breakpoints else 0)
            if found < self.sheet.minimum_prefix:
                found = 0
            yield from self._while_cached(ledger, _Opening(found // block * block))
        else:
            opening = yield from self._while_too_short_to_cache(ledger)
            yield from self._while_cached(ledger, opening)

    def _while_edits_are_free(self, ledger: "_Ledger") -> Iterator[Change]:
        """Yield an edit at every call: writing costs no more than reading."""
        ratio, limit, spare, roomiest, window = self._terms()
        least = self.min_tokens
        forced = bisect_right(ledger.peaks, window) + 1
        for call, total, old, _, _ in ledger.calls:
            if total < least and call < forced:
                continue
            target = max(ratio * total + limit, total - spare * old)
            yield Change(call, call, int(max(total - old, min(target, roomiest))))

    def _while_too_short_to_cache(self, ledger: "_Ledger") -> Generator[Change, None, "_Opening"]:
        """Yield the edits before the prompt reaches the minimum prefix, and return how it opens.

        Nothing is cached until then: an edit costs nothing, and neither does undoing it at the
        first call that is cached, which is written whole in any case.
        """
        ratio, limit, spare, roomiest, _ = self._terms()
        least = self.min_tokens
        warm = bisect_left(ledger.peaks, self.sheet.minimum_prefix) + 1
        gap = saved = 0.0
        for call, total, old, _, _ in islice(ledger.calls, warm - 1):
            target = max(ratio * total + limit, total - spare * old)
            target = max(total - old, min(target, roomiest))
            if total - gap > target and total >= least:
                gap = total - target
                yield Change(call, call, int(target))
            saved += gap
        if gap and warm <= len(ledger.steps):
            yield Change(warm, 0, 0)
        return _Opening(
            hit=0,
            saved=saved,
            full=(1 - self.sheet.expected_read) * ledger.earlier[warm - 1],
            largest=list(accumulate(ledger.steps, max)),
        )

    def _while_cached(self, ledger: "_Ledger", opening: "_Opening") -> Iterator[Change]:
        """Yield the edits that the rent has paid for, or that the window forces."""
        ratio, limit, spare, roomiest, window = self._terms()
        read, write, minimum = (
            self.sheet.expected_read,
            self.sheet.write,
            self.sheet.minimum_prefix,
        )
        least, slack, premium = self.min_tokens, self.ceiling - 1, write - read
        flat = math.inf if self.sheet.cliff is None else self.sheet.cliff
        peaks, earlier, done = ledger.peaks, ledger.earlier, ledger.done
        hit, saved, full, largest = opening
        gap = 0.0  # what the last edit removed
        rent = 0.0  # since the last edit
        waited, spent = 0, 0.0  # calls that a due edit has waited, and what that cost
        epoch = 0
        # Peaks never fall: what was said after a step comes before the next one.
        forced = bisect_right(peaks, window) + 1
        for call, total, old, newest, rate in ledger.calls:
            target = ratio * total + limit
            if target < total - spare * old:
                target = total - spare * old
            if target > roomiest:
                target = max(total - old, roomiest)
            excess = total - gap - target
            if excess <= 0:
                continue
            rent += rate * excess
            price = premium * (target - newest - hit)
            cliff = 0.0
            if total - gap > flat:
                price *= self.sheet.tier(target).input
                cliff = self._tier_cost(total - gap, newest) - self._tier_cost(target, newest)
                rent += cliff
            if rent < price and call < forced:
                continue
            extra = price - read * excess - cliff
            if call < forced:
                if total < least:
                    continue
                bill = write * total + read * earlier[call - 1] + full
                kept = saved + read * gap * (done[call] - done[epoch])
                over = extra - slack * bill - kept
                if over > 0:
                    # The ceiling affords less than the budget: each token left is written again.
                    target -= over / write
                    if target < total - spare * old:
                        continue
                    extra -= over
                # A fill leaves less room unused than its largest step takes.
                if largest and max(total - old, target - largest[call - 1]) < minimum:
                    continue
                if ledger.reasoning and waited < PATIENCE_CALLS:
                    spent += rate * excess
                    if spent < ledger.reasoning[call - 1]:
                        waited += 1
                        continue
            saved += read * gap * (done[call] - done[epoch]) - extra
            gap = total - target
            rent = 0.0
            waited, spent = 0, 0.0
            epoch = call
            forced = bisect_right(peaks, window + gap, call) + 1
            yield Change(call, call, int(target))

    def _tier_cost(self, prompt: float, newest: int) -> float:
        """Return what a call costs beyond the sheet's own prices because its prompt is so large."""
        tokens = self.sheet.expected_read * (prompt - newest) + self.sheet.write * newest
        return (self.sheet.tier(prompt).input - 1) * tokens

    def _terms(self) -> "_Terms":
        window = math.inf if self.sheet.window is None else self.sheet.window
        return _Terms(
            ratio=self.budget.keep_ratio or 0.0,
            limit=self.budget.limit or 0,
            spare=1 - self.min_ratio,
            roomiest=window * WINDOW_SHARE,
            window=window,
        )


class _Terms(NamedTuple):
    """What an edit may leave."""

    ratio: float
    limit: int
    spare: float
    """The share of what lies outside the floor that an edit may remove."""
    roomiest: float
    window: float


class _Opening(NamedTuple):
    """The account when the prompt begins to be cached."""

    hit: int
    """How much of the preamble an edit leaves cached."""
    saved: float = 0.0
    """The bill of never editing less this one; from then on as of the last edit."""
    full: float = 0.0
    """What never editing pays beyond reading each call's predecessor."""
    largest: Sequence[int] = ()
    """The largest step up to each call, where an edit could fall below the minimum prefix."""


class _Ledger(NamedTuple):
    """The calls that the sizes tell of, one after each step, and their sums."""

    calls: Iterator[tuple[int, int, int, int, float]]
    """Per call: its number, the prompt, what an edit could remove of it, the newest step, and what
    its further calls pay for a token that is read. Goes on where the regime before it stopped."""
    steps: Sequence[int]
    peaks: Sequence[int]
    """The prompt of each call with all that was said before the next step."""
    earlier: Sequence[int]
    """What all calls before the one after n steps sent together."""
    done: Sequence[int]
    """How many calls came before the one after n steps."""
    reasoning: Sequence[float] = ()
    """What the reasoning is worth that an edit at each call would take from the loop it is in."""

    @classmethod
    def of(cls, sizes: Sizes, schedule: RentOrBuy) -> "_Ledger":
        read, marker = schedule.sheet.expected_read, schedule.marker_tokens
        steps, said = sizes.steps, sizes.said
        new = list(map(add, steps, chain((0,), said))) if any(said) else steps
        totals = list(accumulate(new, initial=sizes.preamble))
        sent: Iterable[int] = totals
        rates: Iterable[float] = repeat(read)
        done: Sequence[int] = range(len(totals) + 1)
        if any(sizes.asked):
            weights = [1, *(1 + asked for asked in sizes.asked)]
            rates = map(mul, weights, repeat(read))
            done = list(accumulate(weights, initial=0))
            sent = map(mul, totals, weights)
        earlier = list(accumulate(sent))
        del totals[0]
        peaks = list(map(add, totals, said)) if any(said) else totals[:]
        peaks[-1:] = [peak + sizes.pending for peak in peaks[-1:]]
        lost = map(sub, steps, sizes.residues) if any(sizes.residues) else steps
        # The newest step holds the current observation and stays, even with k_recent 0.
        gone = chain(repeat(-marker, schedule.k_recent - 1), accumulate(lost, initial=-marker))
        calls = zip(count(1), totals, gone, steps, rates, strict=False)
        return cls(calls, steps, peaks, earlier, done, _reasoning(sizes, schedule.sheet))


def _reasoning(sizes: Sizes, sheet: PriceSheet) -> Sequence[float]:
    """Return what an edit at each call takes of the thinking since the user last spoke, as a price.

    In tokens at the price of uncached input. What was thought before the user spoke again is done
    with: providers themselves leave most of it out.
    """
    if not any(sizes.thinking):
        return ()
    price = RETHOUGHT_SHARE * sheet.output / sheet.input if sheet.input else 0.0
    worth: list[float] = []
    loop = 0
    for thinking, spoke in zip(sizes.thinking, chain((0,), sizes.asked, repeat(0)), strict=False):
        loop = thinking if spoke else loop + thinking
        worth.append(price * loop)
    return worth


def why_not(edit: Edit, schedule: Schedule, sizes: Sizes) -> str:
    """Return why there is no edit yet."""
    if edit.history is None:
        return edit.why
    steps = steps_until_due(schedule, sizes)
    if steps is None:
        return "at these prices an edit would not pay"
    return f"an edit pays in about {steps} {'step' if steps == 1 else 'steps'}"

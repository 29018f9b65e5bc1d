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

One call is made per step, so the sizes of the steps say what every earlier call
looked like, and no state is kept between calls.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import accumulate, chain, count, islice, repeat
from operator import add, mul, sub
from typing import NamedTuple, Protocol

from agora.core.budget import Budget
from agora.core.prices import PriceSheet
from agora.core.trajectory import Trajectory

MARKER_TOKENS = 16
"""What the bare marker of a run of elided steps is taken to cost beside the floor."""
WINDOW_SHARE = 0.5
"""The most of the window that an edit leaves filled: at the brim, every call would be an edit."""
LEAST_TOKENS = 4_096
"""Prompts below this are left alone when edits go by price; see docs/decisions."""
FORESIGHT_STEPS = 1_000
"""How far `steps_until_due` looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of a trajectory, in tokens: all that a schedule may look at."""

    preamble: int
    """All before the first step."""
    steps: tuple[int, ...]
    said: tuple[int, ...]
    """Utterances after each step and before the next: never elided."""
    residues: tuple[int, ...]
    """What stays of each step when it is elided; all of it where it may not be."""
    asked: tuple[int, ...] = ()
    """How many messages of the user came after each step; each led to a further call."""
    pending: int = 0
    """An assistant block that still waits for its observation."""

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
                for step in trajectory.steps
            ),
            asked=tuple(asked[1:]),
            pending=trajectory.pending_tokens,
        )

    @property
    def total(self) -> int:
        """The whole prompt, but for what is said after its newest step and what is pending."""
        return self.preamble + sum(self.steps) + sum(self.said[:-1])

    def grown(self, steps: int) -> "Sizes":
        """Return these sizes with so many further steps, each of average size."""
        count = max(1, len(self.steps))
        return Sizes(
            preamble=self.preamble,
            steps=self.steps + (sum(self.steps) // count,) * steps,
            said=self.said + (sum(self.said) // count,) * steps,
            residues=self.residues + (sum(self.residues) // count,) * steps,
            asked=self.asked + (0,) * (steps + len(self.steps) - len(self.asked)),
        )


class Schedule(Protocol):
    """Says at which call the prompt was last edited."""

    def epoch(self, sizes: Sizes) -> int:
        """Return how many steps came before the last edit.

        0 when there was none yet; the number of all steps when one is due at this very call.
        """
        ...


class Edit(NamedTuple):
    """What is sent from a call on: the prompt as it was edited after `epoch` steps."""

    call: int
    """The call, by its number of steps."""
    epoch: int
    """0 where nothing is edited."""
    room: int
    """How much the edit may leave, the floor aside."""


_NO_EDIT = Edit(0, 0, 0)


@dataclass(frozen=True, slots=True)
class EveryCall:
    """Edits at every call, as the paper does. Right where nothing is cached."""

    least_tokens: int = 0
    """A prompt below this is left alone, in the unit of the sizes."""

    def epoch(self, sizes: Sizes) -> int:
        """Return the number of all steps, or 0 while the prompt is small."""
        if self.least_tokens and sizes.total < self.least_tokens:
            return 0
        return len(sizes.steps)


@dataclass(frozen=True, slots=True)
class Never:
    """Never edits."""

    def epoch(self, sizes: Sizes) -> int:  # noqa: ARG002 - the protocol's argument
        """Return 0."""
        return 0


@dataclass(frozen=True, slots=True)
class RentOrBuy:
    """Edits when the rent has paid for it, and never lets the bill pass `ceiling`.

    Where reading costs what writing does, buying is free and every call is an edit.
    """

    sheet: PriceSheet
    budget: Budget = field(default_factory=Budget)
    """Its ratio or limit, in the unit of the sizes."""
    k_recent: int = 2
    ceiling: float = 1.02
    """The most the bill may be, as a ratio to never editing; `math.inf` for rent or buy alone."""
    least_tokens: int = 0
    """A prompt below this is left alone unless the window forces an edit, in the unit of the sizes.

    What is sent is priced; what an agent forgets, and does again, is not. On a small prompt there
    is little to save and as much to forget.
    """
    marker_tokens: int = MARKER_TOKENS
    idle_seconds: float | None = None
    """How long ago the last call was made. Unknown: the cache is taken to be warm."""
    cold: frozenset[int] = frozenset()
    """Earlier calls, by their number of steps, that found the cache cold.

    Sizes do not tell of a pause. A caller who once gave `idle_seconds` names that
    call here ever after, or its edit is undone at the next call and paid for twice.
    """

    def epoch(self, sizes: Sizes) -> int:
        """Return how many steps came before the last edit; see `Schedule.epoch`."""
        return self.edit(sizes).epoch

    def edit(self, sizes: Sizes) -> Edit:
        """Return the edit that the call after all these steps is sent with."""
        last = _NO_EDIT
        for edit in self._edits(sizes):
            last = edit
        return last

    def edits(self, sizes: Sizes) -> tuple[Edit, ...]:
        """Return what `edit` said at the call after 0, 1, 2 … steps, in one pass over them all."""
        edits: list[Edit] = []
        last = _NO_EDIT
        for edit in self._edits(sizes):
            edits.extend(repeat(last, edit.call - len(edits)))
            last = edit
        edits.extend(repeat(last, len(sizes.steps) + 1 - len(edits)))
        return tuple(edits)

    def epochs(self, sizes: Sizes) -> tuple[int, ...]:
        """Return the epochs of `edits`."""
        return tuple(edit.epoch for edit in self.edits(sizes))

    def steps_until_due(self, sizes: Sizes) -> int | None:
        """Return about how many further steps of average size it takes until an edit is due.

        0 when one is due now, None when none will be within `FORESIGHT_STEPS`.
        """
        now = len(sizes.steps)
        if self.epoch(sizes) == now:
            return 0
        for edit in self._edits(sizes.grown(FORESIGHT_STEPS)):
            if edit.epoch > now:
                return edit.epoch - now
        return None

    @property
    def least_ratio(self) -> float:
        """The share of what lies outside the floor that an edit leaves in any case.

        No more than read / write of the budget's: up to there an edit saves on its own call
        what writing that share costs, and its price does not grow with the trajectory. Above,
        it outgrows the ceiling, and no edit is due for a hundred steps and more.
        """
        return min(self.budget.least_ratio, self.sheet.read / self.sheet.write)

    def _edits(self, sizes: Sizes) -> Iterator[Edit]:
        """Yield every call at which the epoch changed, oldest first.

        All costs are in tokens at the price of uncached input. What is said after a
        call's newest step, and its pending block, come after the decision, so that a
        further message of the user does not move an epoch; only the window sees them.

        Written out in one loop: 10,000 steps are to cost no more than 5 ms.
        """
        sheet, minimum = self.sheet, self.sheet.minimum_prefix
        read, write = sheet.read, sheet.write
        premium = write - read
        slack = self.ceiling - 1
        window = math.inf if sheet.window is None else sheet.window
        ratio, limit = self.budget.keep_ratio or 0.0, self.budget.limit or 0
        spare = 1 - self.least_ratio
        roomiest = window * WINDOW_SHARE
        marker = self.marker_tokens
        least = self.least_tokens

        steps, said = sizes.steps, sizes.said
        new = list(map(add, steps, chain((0,), said))) if any(said) else steps
        totals = list(accumulate(new, initial=sizes.preamble))
        sent: Iterable[int] = totals
        rates: Iterable[float] = repeat(read)
        done: Sequence[int] = range(len(totals) + 1)  # calls before the one after n steps
        if any(sizes.asked):
            weights = [1, *(1 + asked for asked in sizes.asked)]
            rates = map(mul, weights, repeat(read))
            done = list(accumulate(weights, initial=0))
            sent = map(mul, totals, weights)
        earlier = list(accumulate(sent))  # what all of those sent together
        del totals[0]
        peaks = list(map(add, totals, said)) if any(said) else totals[:]
        peaks[-1:] = [peak + sizes.pending for peak in peaks[-1:]]
        lost = map(sub, steps, sizes.residues) if any(sizes.residues) else steps
        # The newest step holds the current observation and stays, even with k_recent 0.
        gone = chain(repeat(-marker, self.k_recent - 1), accumulate(lost, initial=-marker))
        calls = zip(count(1), totals, gone, steps, rates, strict=False)
        if premium <= 0:
            forced = bisect_right(peaks, window) + 1
            for call, total, old, _, _ in calls:
                if total < least and call < forced:
                    continue
                target = max(ratio * total + limit, total - spare * old)
                yield Edit(call, call, int(max(total - old, min(target, roomiest))))
            return

        gap = 0.0  # what the last edit removed
        saved = 0.0  # the bill of never editing less this one, at the last edit
        full = 0.0  # what never editing pays beyond reading each call's predecessor
        block = max(1, sheet.block)
        hit = sizes.preamble // block * block
        largest: Sequence[int] = ()
        warm = 0
        if sizes.preamble < minimum:
            # Before call `warm` nothing is cached: an edit costs nothing then, and nor does its
            # undoing at that call, which is written whole in any case.
            warm = bisect_left(peaks, minimum) + 1
            for call, total, old, _, _ in islice(calls, warm - 1):
                target = max(ratio * total + limit, total - spare * old)
                target = max(total - old, min(target, roomiest))
                if total - gap > target and total >= least:
                    gap = total - target
                    yield Edit(call, call, int(target))
                saved += gap
            if gap and warm <= len(steps):
                yield Edit(warm, 0, 0)
            gap, hit = 0.0, 0
            full = (1 - read) * earlier[warm - 1]
            largest = list(accumulate(steps, max))

        rent = 0.0  # since the last edit
        epoch = 0
        pauses = iter(sorted(call for call in self._cold(len(steps)) if call > warm))
        pause = next(pauses, len(totals) + 1)
        # Peaks never fall: what was said after a step comes before the next one.
        forced = bisect_right(peaks, window) + 1
        alarm = min(forced, pause)
        for call, total, old, newest, rate in calls:
            target = ratio * total + limit
            if target < total - spare * old:
                target = total - spare * old
            if target > roomiest:
                target = max(total - old, roomiest)
            excess = total - gap - target
            if excess > 0:
                rent += rate * excess
                price = premium * (target - newest - hit)
                if rent < price and call < alarm:
                    continue
                extra = price - read * excess
            elif call != pause:
                continue
            if call == pause:
                pause = next(pauses, len(totals) + 1)
                alarm = min(forced, pause)
                full += premium * (total - newest)
                saved += premium * gap
                if excess <= 0 or (total < least and call < forced):
                    continue
                extra = -write * excess
            elif call < forced:
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
            if largest and call < forced and max(total - old, target - largest[call - 1]) < minimum:
                continue
            saved += read * gap * (done[call] - done[epoch]) - extra
            gap = total - target
            rent = 0.0
            epoch = call
            forced = bisect_right(peaks, window + gap, call) + 1
            alarm = min(forced, pause)
            yield Edit(call, call, int(target))

    def _cold(self, calls: int) -> Set[int]:
        """Return the calls that found nothing cached."""
        if self.idle_seconds is None or self.idle_seconds <= self.sheet.ttl_seconds:
            return self.cold
        return self.cold | {calls}

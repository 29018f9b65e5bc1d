"""What a recorded trajectory would have cost: one bill per policy, call by call."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise

from agora.adapters import broken_rules
from agora.adapters.spoken import may_act_by_text
from agora.compressor import Compressor
from agora.core.budget import Budget
from agora.core.compression import Decision
from agora.core.memo import ENTRY_WEIGHT, room_for
from agora.core.prefix_cache import PrefixCache
from agora.core.prices import PriceSheet
from agora.core.renditions.markers import Markers, PaperMarkers, code_of
from agora.core.renditions.rendition import Rendition
from agora.core.schedule import Edit
from agora.core.scorer import Scorer
from agora.core.tokens import EstimatedTokens
from agora.core.trajectory import Trajectory
from agora.logs import Recording, Usage
from agora.logs.moments import Moment
from agora.replay.arriving import with_references
from agora.replay.clearing import Placeholders, cleared, clears, is_triggered
from agora.replay.compacted import Compacted, compacted, summary_tokens
from agora.replay.measure import MOST_CALLS as MOST_CALLS
from agora.replay.measure import Measured, measure
from agora.replay.needs import Needs, rereads
from agora.replay.prompts import Prompt, Writer, held_prefix
from agora.scorers.built_in import default_scorer
from agora.scorers.recency import RecencyScorer

_SHOWN_OF_AN_ACTION = 200
_READ_OF_AN_ACTION = 2_000
"""How many characters of an elided step's action are kept for looking at."""


MOST_DECISIONS = 32_000
"""Steps that a policy which decides again at every call may look at, summed over its calls: all
calls of a trajectory of 250 steps. Of a longer one evenly spaced pairs of calls are decided, and
what lies between is read off the line from one to the next (docs/guides/replay.md)."""
MOST_COMPARED = 4_000
"""The same by a sheet that is only there to compare: it may be one without a cache."""
_MOST_HELD = 12_000_000
"""Characters of one trajectory whose words and names are held while it is replayed."""


class _Counter:
    """Estimates tokens, and remembers those of names: every edit counts the same ones again."""

    def count(self, text: str) -> int:
        """Return the number of tokens in `text`."""
        return _count_name(text) if len(text) <= _NAME else _ESTIMATE.count(text)


_NAME = 48
_ESTIMATE = EstimatedTokens()
_count_name = lru_cache(maxsize=65_536)(_ESTIMATE.count)


class Policy(StrEnum):
    """A way of sending what was recorded."""

    AS_IT_WAS = "as it was"
    AGORA = "AGORA"
    REFERENCES = "references alone"
    CLEARING = "provider's clearing"
    EVERY_CALL = "paper: every call"
    FLOOR = "floor only"


@dataclass(frozen=True, slots=True)
class CallBill:
    """How the tokens of one call were billed, and whether its prompt was edited for it."""

    uncached: int
    read: int
    written: int
    edited: bool

    def scaled(self, factor: float) -> "CallBill":
        """Return it with each kind of token times `factor`."""
        return CallBill(
            round(self.uncached * factor),
            round(self.read * factor),
            round(self.written * factor),
            self.edited,
        )


@dataclass(frozen=True, slots=True)
class PolicyBill:
    """What all calls of a trajectory cost under one policy, input only."""

    calls: tuple[CallBill, ...]
    dollars: float
    needing: int = 0
    """Actions that need a name from an earlier step, of the calls that were decided."""
    met: int = 0
    """Those of them whose prompt still had every name they need."""
    estimated: int = 0
    """Calls that were not decided but estimated from their neighbours."""
    acting: int = 0
    """All actions of the calls that were decided, whether they need such a name or not."""
    offered: bool = True
    """Whether there is such a way for the model; if not, the calls are as they were."""

    @property
    def tokens(self) -> int:
        """What was sent in all calls together."""
        return sum(call.uncached + call.read + call.written for call in self.calls)

    @property
    def edits(self) -> int:
        """How many calls were not the call before with something added."""
        return sum(call.edited for call in self.calls)


@dataclass(frozen=True, slots=True)
class ElidedStep:
    """A step that AGORA would have elided by the end, and what it would have left of it."""

    number: int
    tokens: int
    action: str
    skeleton: str
    score: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One recorded trajectory under every policy."""

    id: str
    model: str
    sheet: str
    format: str
    task: str
    steps: int
    tokens: int
    """The whole prompt as the last call sent it."""
    bills: Mapping[Policy, PolicyBill]
    elided: tuple[ElidedStep, ...]
    illegal: str = ""
    """The first rule that the recorded messages break: then AGORA leaves them alone."""
    usage: tuple[Usage, ...] = ()
    """What the provider reported for each call, where the log has it. The bills are scaled to it:
    together their tokens under `AS_IT_WAS` are those that were billed, or nearly."""
    shortened: str = ""
    """Why it is taken for shortened already, or empty: then it is left alone, too."""
    lost: int = 0
    """Calls at which the cache had been lost in time, as usage shows: every policy loses it."""
    lacks: str = ""
    """What the log does not show of every call, in words, if `unseen_tokens` says how much."""
    unseen_tokens: int = 0
    """How large that is, in the provider's tokens: a prefix that is always sent."""
    tokens_scale: float = 1.0
    """The provider's tokens for each of our estimate."""
    rereads: int = 0
    """Actions that did again, word for word, what an earlier one had done."""
    rereads_after_edit: int = 0
    """Those of them that came after AGORA's first edit."""
    steps_after_edit: int = 0
    """All steps that came after it."""
    below_threshold: bool = False
    """Whether AGORA left all of it alone because no prompt reached `min_tokens`."""
    acts_by_text: bool = False
    """Whether ten or more turns show no step: perhaps an agent that acts by text."""
    compacted: Compacted | None = None
    """What became of the compaction that it goes on from, if it does."""
    summary_tokens: int = 0
    """Of the call of an agent that compacts: what it wrote, by our estimate."""


def replay_by(
    recording: Recording,
    sheets: Sequence[PriceSheet],
    policies: Sequence[Policy] = tuple(Policy),
    compressor: Compressor | None = None,
) -> tuple[Replayed, ...]:
    """Return the replay by each price sheet; what no price changes is worked out once.

    A sheet with lifetimes is that of the one which most was written for. `compressor` is what
    AGORA's own bill is of, but for its price sheet and its counter.

    Raises:
        TooManyCallsError: there are more calls than `MOST_CALLS`.
        ParseError: the messages do not read as a trajectory.
    """
    measured = measure(recording, _Counter())
    # Every edit reads all steps before it again.
    with room_for(min(_MOST_HELD, _memo_weight(measured.trajectory))):
        return _replayed(recording, measured, sheets, policies, compressor or Compressor())


def _memo_weight(trajectory: Trajectory) -> int:
    """Return what the texts of a trajectory weigh in a memo, with a fifth to spare."""
    texts = sum(len(s.action) + len(s.observation) + 2 * ENTRY_WEIGHT for s in trajectory.steps)
    return (len(trajectory.preamble) + texts) * 6 // 5


def _replayed(
    recording: Recording,
    measured: Measured,
    sheets: Sequence[PriceSheet],
    policies: Sequence[Policy],
    base: Compressor,
) -> tuple[Replayed, ...]:
    broken = broken_rules(recording.request())
    trajectory, moments = measured.trajectory, measured.moments
    needs = Needs(trajectory)
    bills: list[dict[Policy, PolicyBill]] = [{} for _ in sheets]
    paid = [sheet.for_ttl(measured.ttl) for sheet in sheets]
    agoras = [
        Agora(
            measured,
            replace(base, sheet=sheet, counter=_Counter()),
            MOST_COMPARED if at else MOST_DECISIONS,
        )
        for at, sheet in enumerate(paid)
    ]
    alone = bool(broken or measured.shortened)
    for policy in policies:
        if policy is Policy.CLEARING:
            continue
        if policy is Policy.AGORA and not alone:
            for sheet, agora, own in zip(paid, agoras, bills, strict=True):
                [own[policy]] = _bill(_by_price(agora), measured, [sheet], needs)
            continue
        sent = measured
        if policy is Policy.REFERENCES and not alone:
            arrived = with_references(recording, trajectory, base, _Counter())
            sent = replace(measured, trajectory=arrived)
        prompts = _prompts(policy, sent, base.scorer, alone=alone)
        for own, bill in zip(bills, _bill(prompts, measured, paid, needs), strict=True):
            own[policy] = bill
    if Policy.CLEARING in policies:
        _add_clearing(bills, measured, paid, needs, alone=alone)
    again = rereads(trajectory.steps)
    after = compacted(recording, measured.shown, _Counter())
    return tuple(
        Replayed(
            id=recording.id,
            model=recording.model or "",
            sheet=sheet.name,
            format=recording.format,
            task=recording.task,
            steps=len(trajectory.steps),
            tokens=round(trajectory.tokens * measured.unseen.scale),
            bills=_as_billed(own, measured, sheet),
            elided=() if alone else _elided_by_the_end(agora),
            illegal=str(broken[0]) if broken else "",
            usage=measured.usage,
            shortened=measured.shortened,
            lost=sum(place > 0 for place in measured.held),
            lacks=recording.lacks if measured.unseen.tokens else "",
            unseen_tokens=measured.unseen.tokens,
            tokens_scale=measured.unseen.scale,
            rereads=len(again),
            rereads_after_edit=sum(number > edit for number in again),
            steps_after_edit=len(trajectory.steps) - edit,
            below_threshold=trajectory.tokens < base.min_tokens,
            acts_by_text=may_act_by_text(recording.request(), trajectory),
            compacted=after,
            summary_tokens=summary_tokens(recording, _Counter()),
        )
        for sheet, agora, own in zip(paid, agoras, bills, strict=True)
        for edit in [_first_edit(moments, own.get(Policy.AGORA), len(trajectory.steps))]
    )


def _add_clearing(
    bills: Sequence[dict[Policy, PolicyBill]],
    measured: Measured,
    sheets: Sequence[PriceSheet],
    needs: Needs,
    *,
    alone: bool,
) -> None:
    """Add what the provider's own clearing would have cost, beside sending all as it was."""
    found = [own[Policy.AS_IT_WAS] for own in bills]
    offered = [clears(sheet) for sheet in sheets]
    if any(offered) and not alone and is_triggered(measured):
        writer = Writer(
            measured.trajectory, lambda _: Placeholders(), _Counter(), measured.held.values()
        )
        billed = _bill(cleared(measured, writer), measured, sheets, needs)
        found = [new if has else was for was, new, has in zip(found, billed, offered, strict=True)]
    for own, bill, has in zip(bills, found, offered, strict=True):
        own[Policy.CLEARING] = replace(bill, offered=has)


def _as_billed(
    bills: dict[Policy, PolicyBill], measured: Measured, sheet: PriceSheet
) -> dict[Policy, PolicyBill]:
    """Return the bills with tokens counted as the provider counted them.

    Our count is an estimate; where the provider's own is known, every policy is
    scaled by what one of ours is worth. What AGORA decides stays as it was: in use it
    decides by the estimate. What had been shortened on its way is billed as it was.
    """
    if not measured.usage:
        return bills
    if measured.shortened:
        calls = tuple(CallBill(u.uncached, u.read, u.written, False) for u in measured.usage)
        return {
            policy: replace(bill, calls=calls, dollars=_dollars(calls, sheet))
            for policy, bill in bills.items()
        }
    scale = measured.unseen.scale
    return {policy: _scaled(bill, scale, sheet) for policy, bill in bills.items()}


def _scaled(bill: PolicyBill, factor: float, sheet: PriceSheet) -> PolicyBill:
    calls = tuple(call.scaled(factor) for call in bill.calls)
    return replace(bill, calls=calls, dollars=_dollars(calls, sheet))


def _dollars(calls: Sequence[CallBill], sheet: PriceSheet) -> float:
    return sum(
        sheet.dollars(uncached=call.uncached, read=call.read, written=call.written)
        for call in calls
    )


def _first_edit(moments: Sequence[Moment], agora: PolicyBill | None, steps: int) -> int:
    """Return how many steps came before AGORA's first edit; all of them if there was none."""
    calls = () if agora is None else agora.calls
    found = (m.steps for m, call in zip(moments, calls, strict=False) if call.edited)
    return next(found, steps)


def _cut(trajectory: Trajectory, moment: Moment) -> Trajectory:
    """Return the trajectory as it was at a call."""
    return replace(
        trajectory,
        steps=trajectory.steps[: moment.steps],
        utterances=trajectory.utterances[: moment.said],
        pending_tokens=0,
    )


def _prompts(
    policy: Policy, measured: Measured, scorer: Scorer, *, alone: bool
) -> Iterator[Prompt | None]:
    """Yield each call's prompt, None where a call is not decided but estimated.

    For the policies that do not look at prices; `_by_price` is for the one that does.
    """
    whole = Writer(
        measured.trajectory, lambda _: PaperMarkers(), _Counter(), measured.held.values()
    )
    if policy in (Policy.AS_IT_WAS, Policy.REFERENCES) or alone:
        for moment in measured.moments:
            yield Prompt(whole.prompt(moment, ()), (), edited=False)
        return
    if policy is Policy.EVERY_CALL:
        # The paper's preset has a scorer of its own where none was named.
        compressor = replace(
            Compressor.paper(None if scorer == default_scorer() else scorer),
            budget=Budget(keep_ratio=0.25, min_ratio=0.0),
            counter=_Counter(),
        )
    else:
        compressor = Compressor(
            scorer=RecencyScorer(),
            counter=_Counter(),
            budget=Budget(limit=0),
            schedule="every_call",
            forms=None,
        )
    yield from _each_call(Agora(measured, compressor, MOST_DECISIONS, whole))


def _each_call(agora: "Agora") -> Iterator[Prompt | None]:
    """Yield the prompts of a compressor that decides at every call, or at a sample of them."""
    before: Sequence[Rendition] = ()
    moments = agora.measured.moments
    decided = _sampled(moments, agora.most)
    for place, moment in enumerate(moments):
        if place not in decided:
            yield None
            continue
        edit, decisions = agora.at(moment)
        elided = _elided(decisions)
        yield Prompt(agora.writer.prompt(moment, elided, edit.epoch), elided, elided != before)
        before = elided


def _sampled(moments: Sequence[Moment], most: int) -> Container[int]:
    """Return the places of the calls to decide: all, or evenly spaced pairs of neighbours.

    The first of a pair is what the cache holds when the second is sent.
    """
    looked_at = sum(moment.steps for moment in moments)
    if looked_at <= most:
        return range(len(moments))
    pairs = max(2, len(moments) * most // looked_at // 2)
    starts = {pair * (len(moments) - 2) // (pairs - 1) for pair in range(pairs)}
    return starts | {start + 1 for start in starts}


class Agora:
    """A compressor's edits of one trajectory. One that several calls share is decided once."""

    def __init__(
        self, measured: Measured, compressor: Compressor, most: int, writer: Writer | None = None
    ) -> None:
        self.measured = measured
        self.most = most
        """How many steps may be looked at in all where every call is an edit of its own."""
        self.trajectory = measured.trajectory
        self.compressor = compressor
        self.schedule = compressor.schedule_for()
        self.writer = writer or Writer(
            measured.trajectory,
            self._markers,
            _Counter(),
            measured.held.values(),
        )
        self._last: tuple[Edit, tuple[Decision, ...]] = (Edit(0), ())

    def _markers(self, first: int) -> Markers:
        code = code_of(self.trajectory.task, self.trajectory.steps[0])
        return self.compressor.markers(recall=self.measured.recall, code=code, first=first)

    @cached_property
    def edits(self) -> "Sequence[Edit] | None":
        """The edit in force after each number of steps; None where each call is its own."""
        edit = self.schedule.edit(self.compressor.sizes(self.trajectory))
        if edit.history is None:
            return None
        by_call = edit.by_call(len(self.trajectory.steps))
        return [Edit(epoch, room) for _, epoch, room in by_call]

    @cached_property
    def _said(self) -> Sequence[int]:
        """How many utterances there were before the step that follows each number of them."""
        said = [0] * (len(self.trajectory.steps) + 1)
        for utterance in self.trajectory.utterances:
            said[utterance.after] += 1
        return list(accumulate(said))

    def at(self, moment: Moment) -> tuple[Edit, tuple[Decision, ...]]:
        """Return the edit that a call is sent with, and what it does with each step.

        Nothing, where the prompt would not be shorter: then the call is sent as it is.
        """
        if self.edits is None:
            now = _cut(self.trajectory, moment)
            edit = self.schedule.edit(self.compressor.sizes(now))
            return edit, self._decided(now, edit) if edit.epoch else ()
        edit = self.edits[moment.steps]
        if edit.epoch == moment.steps and moment.said < self._said[moment.steps]:
            # What was said later, before the next step, may have been too much for the window.
            found = self.schedule.edit(self.compressor.sizes(_cut(self.trajectory, moment)))
            edit = Edit(found.epoch, found.room)
        if edit.epoch and edit != self._last[0]:
            self._last = edit, self._decided(self.trajectory, edit)
        return edit, self._last[1] if edit.epoch else ()

    def _decided(self, trajectory: Trajectory, edit: Edit) -> tuple[Decision, ...]:
        decisions = self.compressor.decide(trajectory, edit)
        elided = _elided(decisions)
        return decisions if not elided or self.writer.gains(elided, edit.epoch) else ()


def _by_price(agora: Agora) -> Iterator[Prompt | None]:
    """Yield AGORA's prompts: decided once per epoch, appended to in between."""
    if agora.edits is None:
        # Nothing to wait for: each call is its own edit and sees what was said until then.
        yield from _each_call(agora)
        return
    epoch = 0
    elided: Sequence[Rendition] = ()
    before: Sequence[Rendition] = ()
    for moment in agora.measured.moments:
        edit, decisions = agora.at(moment)
        if edit.epoch != epoch:
            epoch = edit.epoch
            elided = _elided(decisions)
        yield Prompt(agora.writer.prompt(moment, elided, epoch), elided, elided != before)
        before = elided


def _elided(decisions: Sequence[Decision]) -> tuple[Rendition, ...]:
    return tuple(d.rendition for d in decisions if d.rendition is not None)


def _elided_by_the_end(agora: Agora) -> tuple[ElidedStep, ...]:
    """Return what the last call's prompt would have left out."""
    last, trajectory = agora.measured.moments[-1], agora.trajectory
    shown = agora.measured.shown.steps
    _, decisions = agora.at(last)
    return tuple(
        ElidedStep(
            number=d.number,
            tokens=shown[d.number - 1].tokens,
            action=" ".join(trajectory.steps[d.number - 1].action[:_READ_OF_AN_ACTION].split())[
                :_SHOWN_OF_AN_ACTION
            ],
            skeleton=d.text,
            score=d.score,
        )
        for d in decisions
        if d.outcome == "elided"
    )


def _bill(
    prompts: Iterator[Prompt | None],
    measured: Measured,
    sheets: Sequence[PriceSheet],
    needs: Needs,
) -> list[PolicyBill]:
    """Return what the prompts cost by each sheet, each prompt written once."""
    moments, at_seconds = measured.moments, measured.at_seconds
    caches = [PrefixCache(sheet) for sheet in sheets]
    calls: list[list[CallBill | None]] = [[] for _ in sheets]
    acting = needing = met = 0
    changed: int | None = None
    for place, (moment, prompt) in enumerate(zip(moments, prompts, strict=True)):
        changed = measured.held.get(place, changed)
        if prompt is None:
            for own in calls:
                own.append(None)
            continue
        acts = moment.steps + 1
        acting += acts <= needs.steps
        if acts <= needs.steps and needs.of(acts):
            needing += 1
            met += not prompt.elided or needs.met(
                acts, [(r.number, r.text, r.in_place) for r in prompt.elided]
            )
        now = at_seconds[place] if at_seconds else 0.0
        if changed is not None:
            # What is cached now is not what the calls so far have left there.
            caches = [PrefixCache(sheet) for sheet in sheets]
            held, changed = held_prefix(prompt.segments, changed), None
            for cache in caches if held else ():
                cache.send(held, now)
        for own, cache in zip(calls, caches, strict=True):
            bill = cache.send(prompt.segments, now)
            own.append(CallBill(bill.uncached, bill.read, bill.written, prompt.edited))
    estimated = sum(call is None for call in calls[0])
    return [
        PolicyBill(
            filled := tuple(_estimated(own)),
            _dollars(filled, sheet),
            needing,
            met,
            estimated,
            acting,
        )
        for own, sheet in zip(calls, sheets, strict=True)
    ]


def _estimated(calls: Sequence[CallBill | None]) -> Iterator[CallBill]:
    """Yield the calls; what was not decided lies on the line between its decided neighbours.

    Of a pair only the second call counts as decided: the first found the cache as
    an older pair had left it.
    """
    if None not in calls:
        yield from (call for call in calls if call is not None)
        return
    known = [0] + [n for n in range(1, len(calls)) if calls[n] and calls[n - 1]]
    for left, right in pairwise(known):
        before, after = calls[left], calls[right]
        assert before is not None  # noqa: S101 - they were decided
        assert after is not None  # noqa: S101
        yield from (_between(before, after, n / (right - left)) for n in range(right - left))
    last = calls[known[-1]]
    assert last is not None  # noqa: S101
    yield last


def _between(before: CallBill, after: CallBill, share: float) -> CallBill:
    """Return the bill so far along the way from one call to another."""
    kinds = zip(
        (before.uncached, before.read, before.written),
        (after.uncached, after.read, after.written),
        strict=True,
    )
    uncached, read, written = (round(a + (b - a) * share) for a, b in kinds)
    return CallBill(uncached, read, written, before.edited if not share else after.edited)

"""What a recorded trajectory would have cost: one bill per policy, call by call."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from agora.adapters import broken_rules, parse
from agora.adapters.spoken import may_act_by_text
from agora.compressor import Compressor
from agora.core.budget import Budget
from agora.core.compression import Decision
from agora.core.elide import Markers, PaperMarkers
from agora.core.memo import ENTRY_WEIGHT, room_for
from agora.core.prefix_cache import PrefixCache, Segment
from agora.core.prices import PriceSheet
from agora.core.request import Request
from agora.core.schedule import Edit, Sizes
from agora.core.scorer import Scorer
from agora.core.tokens import EstimatedTokens, TokenCounter
from agora.core.trajectory import Step, Trajectory
from agora.errors import TooManyCallsError
from agora.logs import Recording, Usage
from agora.replay.needs import Needs, rereads
from agora.scorers.built_in import default_scorer
from agora.scorers.recency import RecencyScorer

_SHOWN_OF_AN_ACTION = 200
_READ_OF_AN_ACTION = 2_000
"""How many characters of an elided step's action are kept for looking at."""


MOST_CALLS = 4_000
"""Calls of one trajectory; no window holds a prompt of so many steps."""
MOST_DECISIONS = 32_000
"""Steps that a policy which decides again at every call may look at, summed over its calls: all
calls of a trajectory of 250 steps. Of a longer one evenly spaced pairs of calls are decided, and
what lies between is read off the line from one to the next (docs/guides/replay.md)."""
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
    together their tokens under `AS_IT_WAS` are those that were billed."""
    rereads: int = 0
    """Actions that did again, word for word, what an earlier one had done."""
    rereads_after_edit: int = 0
    """Those of them that came after AGORA's first edit."""
    steps_after_edit: int = 0
    """All steps that came after it."""
    below_threshold: bool = False
    """Whether AGORA left all of it alone because no prompt reached `least_tokens`."""
    acts_by_text: bool = False
    """Whether ten or more turns show no step: perhaps an agent that acts by text."""


@dataclass(frozen=True, slots=True)
class _Moment:
    """A call: how many steps and utterances came before it."""

    steps: int
    said: int


class _Rest(NamedTuple):
    """What is left of an elided step."""

    number: int
    line: str
    noted: bool = False
    """Whether its action stays, with a note in place of its results."""


class _Prompt(NamedTuple):
    """What one call sends."""

    segments: list[Segment]
    elided: Sequence[_Rest]
    edited: bool
    """Whether it is not the prompt before with something added."""


def replay_by(
    recording: Recording,
    sheets: Sequence[PriceSheet],
    policies: Sequence[Policy] = tuple(Policy),
    compressor: Compressor | None = None,
) -> tuple[Replayed, ...]:
    """Return the replay by each price sheet; what no price changes is worked out once.

    `compressor` is what AGORA's own bill is of, but for its price sheet and its counter.

    Raises:
        TooManyCallsError: there are more calls than `MOST_CALLS`.
        ParseError: the messages do not read as a trajectory.
    """
    request = recording.request()
    trajectory = parse(request, _Counter()).trajectory
    # Every edit reads all steps before it again.
    with room_for(min(_MOST_HELD, _memo_weight(trajectory))):
        return _replayed(recording, request, trajectory, sheets, policies, compressor)


def _memo_weight(trajectory: Trajectory) -> int:
    """Return what the texts of a trajectory weigh in a memo, with a fifth to spare."""
    texts = sum(len(s.action) + len(s.observation) + 2 * ENTRY_WEIGHT for s in trajectory.steps)
    return (len(trajectory.preamble) + texts) * 6 // 5


def _replayed(
    recording: Recording,
    request: Request,
    trajectory: Trajectory,
    sheets: Sequence[PriceSheet],
    policies: Sequence[Policy],
    compressor: Compressor | None,
) -> tuple[Replayed, ...]:
    broken = broken_rules(request)
    moments = list(_moments(trajectory))
    if (recording.calls and recording.calls[-1] >= len(recording.messages)) or (
        len(recording.usage) == len(moments) + 1
    ):
        # Its answer was never sent back, but the call was made, and it was the longest.
        moments.append(_Moment(len(trajectory.steps), len(trajectory.utterances)))
    if not moments:
        # Without a step all that was said is preamble: taken for what one call sent.
        moments.append(_Moment(0, 0))
    if len(moments) > MOST_CALLS:
        raise TooManyCallsError(len(moments), MOST_CALLS)
    at_seconds = recording.at_seconds if len(recording.at_seconds) == len(moments) else None
    needs = Needs(trajectory)
    bills: list[dict[Policy, PolicyBill]] = [{} for _ in sheets]
    base = compressor or Compressor()
    agoras = [
        _Agora(trajectory, replace(base, sheet=sheet, counter=_Counter())) for sheet in sheets
    ]
    for policy in policies:
        if policy is Policy.AGORA and not broken:
            for sheet, agora, own in zip(sheets, agoras, bills, strict=True):
                prompts = _by_price(agora, moments)
                [own[policy]] = _bill(prompts, moments, [sheet], at_seconds, needs)
            continue
        prompts = _prompts(policy, trajectory, moments, base.scorer, legal=not broken)
        for own, bill in zip(
            bills, _bill(prompts, moments, sheets, at_seconds, needs), strict=True
        ):
            own[policy] = bill
    usage = recording.usage if len(recording.usage) == len(moments) else ()
    again = rereads(trajectory.steps)
    return tuple(
        Replayed(
            id=recording.id,
            model=recording.model or "",
            sheet=sheet.name,
            format=recording.format,
            task=recording.task,
            steps=len(trajectory.steps),
            tokens=trajectory.tokens,
            bills=_as_billed(own, usage, sheet),
            elided=() if broken else _elided_by_the_end(agora, moments),
            illegal=str(broken[0]) if broken else "",
            usage=usage,
            rereads=len(again),
            rereads_after_edit=sum(number > edit for number in again),
            steps_after_edit=len(trajectory.steps) - edit,
            below_threshold=trajectory.tokens < base.least_tokens,
            acts_by_text=may_act_by_text(recording.request(), trajectory),
        )
        for sheet, agora, own in zip(sheets, agoras, bills, strict=True)
        for edit in [_first_edit(moments, own.get(Policy.AGORA), len(trajectory.steps))]
    )


def _as_billed(
    bills: dict[Policy, PolicyBill], usage: Sequence[Usage], sheet: PriceSheet
) -> dict[Policy, PolicyBill]:
    """Return the bills with tokens counted as the provider counted them.

    Our count is an estimate; where the provider's own is known, every policy is
    scaled by the ratio of the two. What AGORA decides stays as it was: in use it
    decides by the estimate.
    """
    was = bills.get(Policy.AS_IT_WAS)
    if not usage or was is None or not was.tokens:
        return bills
    factor = sum(one.prompt for one in usage) / was.tokens
    return {policy: _scaled(bill, factor, sheet) for policy, bill in bills.items()}


def _scaled(bill: PolicyBill, factor: float, sheet: PriceSheet) -> PolicyBill:
    calls = tuple(call.scaled(factor) for call in bill.calls)
    return replace(bill, calls=calls, dollars=_dollars(calls, sheet))


def _dollars(calls: Sequence[CallBill], sheet: PriceSheet) -> float:
    return sum(
        sheet.dollars(uncached=call.uncached, read=call.read, written=call.written)
        for call in calls
    )


def _first_edit(moments: Sequence[_Moment], agora: PolicyBill | None, steps: int) -> int:
    """Return how many steps came before AGORA's first edit; all of them if there was none."""
    calls = () if agora is None else agora.calls
    found = (m.steps for m, call in zip(moments, calls, strict=False) if call.edited)
    return next(found, steps)


def _moments(trajectory: Trajectory) -> Iterator[_Moment]:
    """Yield the calls: one before each step and before each thing the agent said."""
    said = 0
    for done in range(len(trajectory.steps) + 1):
        while said < len(trajectory.utterances) and trajectory.utterances[said].after <= done:
            if not trajectory.utterances[said].by_user:
                yield _Moment(done, said)
            said += 1
        if done < len(trajectory.steps):
            yield _Moment(done, said)


def _cut(trajectory: Trajectory, moment: _Moment) -> Trajectory:
    """Return the trajectory as it was at a call."""
    return replace(
        trajectory,
        steps=trajectory.steps[: moment.steps],
        utterances=trajectory.utterances[: moment.said],
        pending_tokens=0,
    )


def _prompts(
    policy: Policy,
    trajectory: Trajectory,
    moments: Sequence[_Moment],
    scorer: Scorer,
    *,
    legal: bool,
) -> Iterator[_Prompt | None]:
    """Yield each call's prompt, None where a call is not decided but estimated.

    For the policies that do not look at prices; `_by_price` is for the one that does.
    """
    whole = _Writer(trajectory, PaperMarkers(), _Counter())
    if policy is Policy.AS_IT_WAS or not legal:
        for moment in moments:
            yield _Prompt(whole.prompt(moment, ()), (), edited=False)
        return
    if policy is Policy.EVERY_CALL:
        # The paper's preset has a scorer of its own where none was named.
        compressor = replace(
            Compressor.paper(None if scorer == default_scorer() else scorer),
            budget=Budget(keep_ratio=0.25, least_ratio=0.0),
            counter=_Counter(),
        )
    else:
        compressor = Compressor(
            scorer=RecencyScorer(),
            counter=_Counter(),
            budget=Budget(limit=0),
            schedule="every_call",
            skeleton_share=0.0,
        )
    yield from _each_call(trajectory, moments, compressor, whole)


def _each_call(
    trajectory: Trajectory,
    moments: Sequence[_Moment],
    compressor: Compressor,
    writer: "_Writer",
) -> Iterator[_Prompt | None]:
    """Yield the prompts of a compressor that decides at every call, or at a sample of them."""
    before: Sequence[_Rest] = ()
    schedule = compressor.schedule_for()
    decided = _sampled(moments)
    for place, moment in enumerate(moments):
        if place not in decided:
            yield None
            continue
        now = _cut(trajectory, moment)
        edit = schedule.edit(Sizes.of(now))
        elided = (
            _elided(compressor.decide(now, edit), forms=compressor.uses_forms) if edit.epoch else ()
        )
        yield _Prompt(writer.prompt(moment, elided), elided, elided != before)
        before = elided


def _sampled(moments: Sequence[_Moment]) -> Container[int]:
    """Return the places of the calls to decide: all, or evenly spaced pairs of neighbours.

    The first of a pair is what the cache holds when the second is sent.
    """
    looked_at = sum(moment.steps for moment in moments)
    if looked_at <= MOST_DECISIONS:
        return range(len(moments))
    pairs = max(2, len(moments) * MOST_DECISIONS // looked_at // 2)
    starts = {pair * (len(moments) - 2) // (pairs - 1) for pair in range(pairs)}
    return starts | {start + 1 for start in starts}


class _Agora:
    """AGORA's edits of one trajectory. One that several calls share is decided once."""

    def __init__(self, trajectory: Trajectory, compressor: Compressor) -> None:
        self.trajectory = trajectory
        self.compressor = compressor
        self.schedule = compressor.schedule_for()
        self._last: tuple[Edit, tuple[Decision, ...]] = (Edit(0), ())

    @cached_property
    def edits(self) -> "Sequence[Edit] | None":
        """The edit in force after each number of steps; None where each call is its own."""
        edit = self.schedule.edit(Sizes.of(self.trajectory))
        if edit.history is None:
            return None
        by_call = edit.by_call(len(self.trajectory.steps))
        return [Edit(epoch, room) for _, epoch, room in by_call]

    def decisions(self, edit: Edit) -> tuple[Decision, ...]:
        """Return what an edit that no later step changes does with each step."""
        if not edit.epoch:
            return ()
        if edit != self._last[0]:
            self._last = edit, self.compressor.decide(self.trajectory, edit)
        return self._last[1]


def _by_price(agora: _Agora, moments: Sequence[_Moment]) -> Iterator[_Prompt | None]:
    """Yield AGORA's prompts: decided once per epoch, appended to in between."""
    trajectory, edits = agora.trajectory, agora.edits
    writer = _Writer(trajectory, agora.compressor.markers(), _Counter())
    if edits is None:
        # Nothing to wait for: each call is its own edit and sees what was said until then.
        yield from _each_call(trajectory, moments, agora.compressor, writer)
        return
    epoch = 0
    elided: Sequence[_Rest] = ()
    before: Sequence[_Rest] = ()
    for moment in moments:
        edit = edits[moment.steps]
        if edit.epoch != epoch:
            epoch = edit.epoch
            elided = _elided(agora.decisions(edit), forms=agora.compressor.uses_forms)
        yield _Prompt(writer.prompt(moment, elided), elided, elided != before)
        before = elided


def _elided(decisions: Sequence[Decision], *, forms: bool) -> tuple[_Rest, ...]:
    return tuple(
        _Rest(d.number, d.skeleton, noted=forms and d.form == "action")
        for d in decisions
        if d.outcome == "elided"
    )


def _elided_by_the_end(agora: _Agora, moments: Sequence[_Moment]) -> tuple[ElidedStep, ...]:
    """Return what the last call's prompt would have left out."""
    if not moments:
        return ()
    last, trajectory = moments[-1], agora.trajectory
    decisions: Sequence[Decision] = ()
    if agora.edits is not None:
        decisions = agora.decisions(agora.edits[last.steps])
    else:
        now = _cut(trajectory, last)
        edit = agora.schedule.edit(Sizes.of(now))
        if edit.epoch:
            decisions = agora.compressor.decide(now, edit)
    return tuple(
        ElidedStep(
            number=d.number,
            tokens=d.tokens,
            action=" ".join(trajectory.steps[d.number - 1].action[:_READ_OF_AN_ACTION].split())[
                :_SHOWN_OF_AN_ACTION
            ],
            skeleton=d.skeleton,
            score=d.score,
        )
        for d in decisions
        if d.outcome == "elided"
    )


class _Edited(NamedTuple):
    """The prompt that was written last: the segments of so many, without the elided steps."""

    elided: Sequence[_Rest]
    size: int
    segments: list[Segment]


class _Writer:
    """Writes the prompts of one trajectory as the segments that a cache compares."""

    def __init__(self, trajectory: Trajectory, markers: Markers, counter: TokenCounter) -> None:
        self._markers = markers
        self._counter = counter
        self._written: dict[str, Segment] = {}
        self._last = _Edited((), 0, [])
        self._whole = [Segment("preamble", trajectory.preamble_tokens, breakpoint=True)]
        self._steps: list[Step | None] = [None]
        """For each of the whole prompt's segments the step that it is, if it is one."""
        said = 0
        for done in range(len(trajectory.steps) + 1):
            if done:
                step = trajectory.steps[done - 1]
                self._whole.append(Segment(step.number, step.tokens))
                self._steps.append(step)
            while said < len(trajectory.utterances) and trajectory.utterances[said].after <= done:
                self._whole.append(Segment(("said", said), trajectory.utterances[said].tokens))
                self._steps.append(None)
                said += 1

    def prompt(self, moment: _Moment, elided: Sequence[_Rest]) -> list[Segment]:
        """Return the prompt of a call without the elided steps.

        A marker stands at the end of the message before it, so it is a segment
        of its own right after that message.
        """
        size = 1 + moment.steps + moment.said
        segments = self._whole[:size] if not elided else self._edited(size, elided)
        # As agents do that cache at all: the end of what never changes, and the newest message.
        newest = segments[-1]
        segments[-1] = Segment(newest.key, newest.tokens, breakpoint=True)
        return segments

    def _edited(self, size: int, elided: Sequence[_Rest]) -> list[Segment]:
        """Return the first so many segments without the elided steps.

        Between two edits the prompt only grows at its end, so only that is written again.
        """
        last = self._last
        if elided is not last.elided or size < last.size:
            last = _Edited(
                elided, size, self._without(size, {rest.number: rest for rest in elided})
            )
        elif size > last.size:
            # What was elided at an edit came before it.
            last = _Edited(elided, size, last.segments + self._whole[last.size : size])
        self._last = last
        return last.segments[:]

    def _without(self, size: int, elided: Mapping[int, _Rest]) -> list[Segment]:
        segments: list[Segment] = []
        run: list[tuple[int, str]] = []
        for segment, step in zip(self._whole[:size], self._steps, strict=False):
            rest = elided.get(step.number) if step is not None else None
            if step is not None and rest is not None and step.form == "drop" and not rest.noted:
                run.append((step.number, rest.line))
                continue
            if run:
                segments.append(self._marker(self._markers.run(run)))
                run = []
            if step is None or rest is None:
                segments.append(segment)
            else:
                text = self._markers.mask(step.number, rest.line)
                left = step.action_tokens if rest.noted else step.residue_tokens
                tokens = left + self._marker(text).tokens
                segments.append(Segment((step.number, text), tokens))
        if run:
            segments.append(self._marker(self._markers.run(run)))
        return segments

    def _marker(self, text: str) -> Segment:
        """Return the segment of a marker. Its text is counted once, it comes back at many calls."""
        if text not in self._written:
            self._written[text] = Segment(text, self._counter.count(text))
        return self._written[text]


def _bill(
    prompts: Iterator[_Prompt | None],
    moments: Sequence[_Moment],
    sheets: Sequence[PriceSheet],
    at_seconds: Sequence[float] | None,
    needs: Needs,
) -> list[PolicyBill]:
    """Return what the prompts cost by each sheet, each prompt written once."""
    caches = [PrefixCache(sheet) for sheet in sheets]
    calls: list[list[CallBill | None]] = [[] for _ in sheets]
    needing = met = 0
    for place, (moment, prompt) in enumerate(zip(moments, prompts, strict=True)):
        if prompt is None:
            for own in calls:
                own.append(None)
            continue
        acts = moment.steps + 1
        if acts <= needs.steps and needs.of(acts):
            needing += 1
            met += not prompt.elided or needs.met(acts, prompt.elided)
        for own, cache in zip(calls, caches, strict=True):
            bill = cache.send(prompt.segments, at_seconds[place] if at_seconds else 0.0)
            own.append(CallBill(bill.uncached, bill.read, bill.written, prompt.edited))
    estimated = sum(call is None for call in calls[0])
    return [
        PolicyBill(
            filled := tuple(_estimated(own)),
            _dollars(filled, sheet),
            needing,
            met,
            estimated,
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

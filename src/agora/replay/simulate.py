"""What a recorded trajectory would have cost: one bill per policy, call by call."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate

from agora.compressor import Compressor
from agora.core.compression import Decision
from agora.core.forms import Form
from agora.core.markers import Markers, tag_of
from agora.core.prefix_cache import PrefixCache
from agora.core.prices import PriceSheet
from agora.core.schedule import Change, Edit
from agora.core.tokens import EstimatedTokens
from agora.core.trajectory import Trajectory
from agora.formats import broken_rules
from agora.formats.text_agents import may_act_by_text
from agora.logs import Recording, Usage
from agora.logs.moments import Moment
from agora.replay.clearing import cleared, clears, is_triggered
from agora.replay.measure import MOST_CALLS as MOST_CALLS
from agora.replay.measure import Measured, measure
from agora.replay.needs import Needs
from agora.replay.prompts import Prompt, Writer, held_prefix

_SHOWN_OF_AN_ACTION = 200
_READ_OF_AN_ACTION = 2_000
"""How many characters of an elided step's action are kept for looking at."""


class Policy(StrEnum):
    """A way of sending what was recorded."""

    AS_IT_WAS = "as it was"
    AGORA = "AGORA"
    CLEARING = "Anthropic context editing"


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
    """Actions that need a name from an earlier step."""
    met: int = 0
    """Those of them whose prompt still had every name they need."""
    offered: bool = True
    """False if the model's provider has no such policy; the calls are then as they were."""

    @property
    def tokens(self) -> int:
        """The tokens sent in all calls together."""
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
    """Why the trajectory seems to have been shortened already: then it is left alone, too."""
    lost: int = 0
    """Calls before which the provider's cache had expired or was lost: every policy loses it."""
    lacks: str = ""
    """What the log does not show of every call, in words, if `unseen_tokens` says how much."""
    unseen_tokens: int = 0
    """How large that is, in the provider's tokens: a prefix that is always sent."""
    tokens_scale: float = 1.0
    """The provider's tokens for each of our estimate."""
    below_threshold: bool = False
    """True if AGORA left all of it alone because no prompt reached `min_tokens`."""
    acts_by_text: bool = False
    """True if ten or more turns show no step: perhaps an agent that acts by text."""


def replay_by(
    recording: Recording,
    sheets: Sequence[PriceSheet],
    compressor: Compressor | None = None,
) -> tuple[Replayed, ...]:
    """Return the replay by each price sheet.

    Sheets with several lifetimes use the one that most of the log's cache writes asked for.
    AGORA's bill is that of `compressor` with the schedule by price, at the prices of each sheet.

    Raises:
        AgoraError: There are more calls than `MOST_CALLS`.
        ParseError: The messages do not read as a trajectory.
    """
    counter = EstimatedTokens()
    measured = measure(recording, counter)
    needs = Needs(measured.trajectory)
    broken = broken_rules(recording.request())
    base = replace(compressor or Compressor(), schedule="by_price", counter=counter)
    illegal = str(broken[0]) if broken else ""
    return tuple(
        _replayed(recording, measured, needs, sheet.for_ttl(measured.ttl), base, illegal)
        for sheet in sheets
    )


def _replayed(
    recording: Recording,
    measured: Measured,
    needs: Needs,
    sheet: PriceSheet,
    base: Compressor,
    illegal: str,
) -> Replayed:
    trajectory, unseen = measured.trajectory, measured.unseen
    agora = Agora(measured, replace(base, sheet=sheet))
    left_alone = bool(illegal or measured.shortened)
    whole = _bill(_whole_prompts(agora.writer, measured), measured, sheet, needs)
    edited = cleared_bill = whole
    if not left_alone:
        edited = _bill(agora.prompts(), measured, sheet, needs)
        if clears(sheet) and is_triggered(measured):
            cleared_bill = _bill(cleared(measured, EstimatedTokens()), measured, sheet, needs)
    cleared_bill = replace(cleared_bill, offered=clears(sheet))
    bills = {Policy.AS_IT_WAS: whole, Policy.AGORA: edited, Policy.CLEARING: cleared_bill}
    return Replayed(
        id=recording.id,
        model=recording.model or "",
        sheet=sheet.name,
        format=recording.format,
        task=recording.task,
        steps=len(trajectory.steps),
        tokens=round(trajectory.tokens * unseen.scale),
        bills={policy: _as_billed(bill, measured, sheet) for policy, bill in bills.items()},
        elided=() if left_alone else _elided_by_the_end(agora),
        illegal=illegal,
        usage=measured.usage,
        shortened=measured.shortened,
        lost=sum(place > 0 for place in measured.held),
        lacks=recording.lacks if unseen.tokens else "",
        unseen_tokens=unseen.tokens,
        tokens_scale=unseen.scale,
        below_threshold=trajectory.tokens < base.min_tokens,
        acts_by_text=may_act_by_text(recording.request(), trajectory),
    )


def _whole_prompts(writer: Writer, measured: Measured) -> Iterator[Prompt]:
    for moment in measured.moments:
        yield Prompt(writer.prompt(moment, ()), (), edited=False)


def _as_billed(bill: PolicyBill, measured: Measured, sheet: PriceSheet) -> PolicyBill:
    """Return a bill with tokens counted as the provider counted them.

    AGORA estimates tokens. Where the log has the provider's count, every policy is scaled by the
    ratio of the two; AGORA's decisions stay those by the estimate. A prompt that had been
    shortened already is billed as the provider billed it.
    """
    if not measured.usage:
        return bill
    if measured.shortened:
        calls = tuple(CallBill(u.uncached, u.read, u.written, False) for u in measured.usage)
    else:
        calls = tuple(call.scaled(measured.unseen.scale) for call in bill.calls)
    return replace(bill, calls=calls, dollars=_dollars(calls, sheet))


def _dollars(calls: Sequence[CallBill], sheet: PriceSheet) -> float:
    return sum(
        sheet.dollars(uncached=call.uncached, read=call.read, written=call.written)
        for call in calls
    )


class Agora:
    """A compressor's edits of one trajectory. One that several calls share is decided once."""

    def __init__(self, measured: Measured, compressor: Compressor) -> None:
        self.measured = measured
        self.trajectory = measured.trajectory
        self.compressor = compressor
        self.writer = Writer(
            measured.trajectory, self._markers, EstimatedTokens(), measured.held.values()
        )
        self._schedule = compressor.schedule_for()
        edit = self._schedule.edit(compressor.sizes(self.trajectory))
        self._by_call: Sequence[Change] | None = None
        """The edit in force after each number of steps; None if every call is an edit of its own,
        as without a cache."""
        if edit.history is not None:
            self._by_call = edit.by_call(len(self.trajectory.steps))
        said = [0] * (len(self.trajectory.steps) + 1)
        for utterance in self.trajectory.utterances:
            said[utterance.after] += 1
        self._said = list(accumulate(said))
        """How many utterances there were before the step that follows each number of them."""
        self._last: tuple[Edit, tuple[Decision, ...]] = (Edit(0), ())

    def prompts(self) -> Iterator[Prompt]:
        """Yield each call's prompt; between two edits it only grows at its end."""
        epoch = 0
        elided: Sequence[Form] = ()
        for moment in self.measured.moments:
            before = elided
            edit, decisions = self.at(moment)
            if edit.epoch != epoch or self._by_call is None:
                epoch = edit.epoch
                elided = _elided(decisions)
            yield Prompt(self.writer.prompt(moment, elided, epoch), elided, elided != before)

    def at(self, moment: Moment) -> tuple[Edit, tuple[Decision, ...]]:
        """Return the edit that a call is sent with, and what it does with each step.

        No decisions if the edited prompt would not be shorter: then the call is sent as it is.
        """
        if self._by_call is None:
            now = _until(self.trajectory, moment)
            edit = self._schedule.edit(self.compressor.sizes(now))
            return edit, self._decided(now, edit) if edit.epoch else ()
        change = self._by_call[moment.steps]
        edit = Edit(change.epoch, change.room)
        if edit.epoch == moment.steps and moment.said < self._said[moment.steps]:
            # What was said later, before the next step, may have been too much for the window.
            now = _until(self.trajectory, moment)
            then = self._schedule.edit(self.compressor.sizes(now))
            edit = Edit(then.epoch, then.room)
        if edit.epoch and edit != self._last[0]:
            self._last = edit, self._decided(self.trajectory, edit)
        return edit, self._last[1] if edit.epoch else ()

    def _decided(self, trajectory: Trajectory, edit: Edit) -> tuple[Decision, ...]:
        decisions = self.compressor.decide(trajectory, edit)
        elided = _elided(decisions)
        return decisions if not elided or self.writer.gains(elided, edit.epoch) else ()

    def _markers(self, first: int) -> Markers:
        tag = tag_of(self.trajectory.task, self.trajectory.steps[0])
        return self.compressor.markers(recall=self.measured.recall, tag=tag, first=first)


def _until(trajectory: Trajectory, moment: Moment) -> Trajectory:
    """Return the trajectory as it was at a call."""
    return replace(
        trajectory,
        steps=trajectory.steps[: moment.steps],
        utterances=trajectory.utterances[: moment.said],
        pending_tokens=0,
    )


def _elided(decisions: Sequence[Decision]) -> tuple[Form, ...]:
    return tuple(d.form for d in decisions if d.form is not None)


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
    prompts: Iterator[Prompt], measured: Measured, sheet: PriceSheet, needs: Needs
) -> PolicyBill:
    """Return what the prompts of all calls cost, each sent to a simulated cache."""
    cache = PrefixCache(sheet)
    calls: list[CallBill] = []
    needing = met = 0
    for place, (moment, prompt) in enumerate(zip(measured.moments, prompts, strict=True)):
        acts = moment.steps + 1
        if acts <= needs.steps and needs.of(acts):
            needing += 1
            met += not prompt.elided or needs.met(
                acts, [(r.number, r.text, r.in_place) for r in prompt.elided]
            )
        now = measured.at_seconds[place] if measured.at_seconds else 0.0
        if place in measured.held:
            # What is cached now is not what the calls so far have left there.
            cache = PrefixCache(sheet)
            held = held_prefix(prompt.segments, measured.held[place])
            if held:
                cache.send(held, now)
        bill = cache.send(prompt.segments, now)
        calls.append(CallBill(bill.uncached, bill.read, bill.written, prompt.edited))
    return PolicyBill(tuple(calls), _dollars(calls, sheet), needing, met)

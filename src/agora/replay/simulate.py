"""Simulate the bill of a recorded trajectory for each policy, call by call.

AGORA's bill is a fold over the calls of the log as they were made, by the function that decides
live: several steps a call, pauses, the requested time to live. The bill of the simulated cache for
a call is the usage by which the next call is decided.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from agora.compressor import Compressor
from agora.core.calls import Billed, Call, calls_of
from agora.core.compression import Decision
from agora.core.forms import Form
from agora.core.markers import Markers, tag_of
from agora.core.prefix_cache import Bill, PrefixCache
from agora.core.prices import PriceSheet
from agora.core.repeats import NO_REPEATS, Habit, Repeats, asked_by, count_repeats
from agora.core.schedule import EditReason, State, advance
from agora.core.schedule import Policy as SchedulePolicy
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

_ALWAYS = 1e12
"""A time to live that never ends, in seconds."""
_SHOWN_OF_AN_ACTION = 200
_READ_OF_AN_ACTION = 2_000
"""How many characters of an elided step's action are kept for looking at."""


class Policy(StrEnum):
    """A way of sending the recorded calls."""

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
    has_names: bool | None = None
    """True if its prompt had every name that its action takes from an earlier step, None if that
    takes none."""

    def scaled(self, factor: float) -> "CallBill":
        """Return it with each kind of token times `factor`."""
        return CallBill(
            round(self.uncached * factor),
            round(self.read * factor),
            round(self.written * factor),
            self.edited,
            self.has_names,
        )


@dataclass(frozen=True, slots=True)
class PolicyBill:
    """The input bill of a trajectory under one policy."""

    calls: tuple[CallBill, ...]
    dollars: float
    saved: Mapping[EditReason, float] = field(default_factory=dict)
    """Dollars saved by the edits of each kind."""
    repeats: Repeats = NO_REPEATS
    """Recorded calls that repeat one that is shortened: they were made although it was not."""
    offered: bool = True
    """False if the model's provider has no such policy; the calls are then as they were."""

    @property
    def tokens(self) -> int:
        """The tokens sent in all calls together."""
        return sum(call.uncached + call.read + call.written for call in self.calls)

    @property
    def edits(self) -> int:
        """The number of calls that do not extend the previous call."""
        return sum(call.edited for call in self.calls)

    @property
    def needing(self) -> int:
        """How many actions need a name from an earlier step."""
        return sum(call.has_names is not None for call in self.calls)

    @property
    def met(self) -> int:
        """The number of those actions with every needed name in the prompt."""
        return sum(call.has_names is True for call in self.calls)

    @property
    def extra_calls(self) -> int:
        """The expected extra calls: each action that misses a name asks for it again."""
        return self.needing - self.met


@dataclass(frozen=True, slots=True)
class ElidedStep:
    """A step that AGORA would have elided by the end, and the text it would have left."""

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
    """The provider's usage of each call, if the log has it. The bills are scaled to it, so that the
    tokens under `AS_IT_WAS` sum up to about those that were billed."""
    shortened: str = ""
    """Why the trajectory seems to have been shortened already: then it is left alone, too."""
    lost: int = 0
    """Calls before which the provider's cache had expired or was lost: every policy loses it."""
    lacks: str = ""
    """The hidden parts of every call in words, if `unseen_tokens` has their size."""
    unseen_tokens: int = 0
    """How large that is, in the provider's tokens: a prefix that is always sent."""
    tokens_scale: float = 1.0
    """The provider's tokens for each of our estimate."""
    below_threshold: bool = False
    """True if AGORA left all of it alone because no prompt reached `min_tokens`."""
    call_dollars: float = 0.0
    """The mean cost of a call, its answer included."""
    acts_by_text: bool = False
    """True if ten or more turns show no step: perhaps an agent that acts by text."""


def replay_by(
    recording: Recording,
    sheets: Sequence[PriceSheet],
    compressor: Compressor | None = None,
) -> tuple[Replayed, ...]:
    """Return the replay by each price sheet.

    Sheets with several lifetimes use the one that most of the log's cache writes asked for.
    AGORA's bill is that of `compressor`, at the prices of each sheet.

    Raises:
        AgoraError: There are more calls than `MOST_CALLS`.
        ParseError: The messages do not read as a trajectory.
    """
    counter = EstimatedTokens()
    measured = measure(recording, counter)
    needs = Needs(measured.trajectory)
    broken = broken_rules(recording.request())
    base = replace(compressor or Compressor(), counter=counter)
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
    whole = Account(measured, sheet, needs)
    for moment in measured.moments:
        whole.send(Prompt(agora.writer.prompt(moment, ()), (), edited=False))
    edited, cleared_by = whole, whole
    if not left_alone:
        edited = Account(measured, sheet, needs)
        agora.send(edited)
        if clears(sheet) and is_triggered(measured):
            cleared_by = Account(measured, sheet, needs)
            for prompt in cleared(measured, EstimatedTokens()):
                cleared_by.send(prompt)
    bills = {
        Policy.AS_IT_WAS: whole.bill(),
        Policy.AGORA: edited.bill(),
        Policy.CLEARING: replace(cleared_by.bill(), offered=clears(sheet)),
    }
    bills = {policy: _as_billed(bill, measured, sheet) for policy, bill in bills.items()}
    as_it_was = bills[Policy.AS_IT_WAS]
    if not left_alone:
        saved = _saved(as_it_was, bills[Policy.AGORA], agora.shares, sheet)
        bills[Policy.AGORA] = replace(bills[Policy.AGORA], saved=saved, repeats=agora.repeats)
    output = sheet.dollars(output=sum(usage.output for usage in measured.usage))
    return Replayed(
        id=recording.id,
        model=recording.model or "",
        sheet=sheet.name,
        format=recording.format,
        task=recording.task,
        steps=len(trajectory.steps),
        tokens=round(trajectory.tokens * unseen.scale),
        bills=bills,
        elided=() if left_alone else _elided_by_the_end(agora),
        illegal=illegal,
        usage=measured.usage,
        shortened=measured.shortened,
        lost=sum(place > 0 for place in measured.held),
        lacks=recording.lacks if unseen.tokens else "",
        unseen_tokens=unseen.tokens,
        tokens_scale=unseen.scale,
        call_dollars=(as_it_was.dollars + output) / len(measured.moments),
        below_threshold=trajectory.tokens < base.min_tokens,
        acts_by_text=may_act_by_text(recording.request(), trajectory),
    )


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


def _saved(
    whole: PolicyBill,
    edited: PolicyBill,
    shares: Iterable[Mapping[EditReason, float]],
    sheet: PriceSheet,
) -> Mapping[EditReason, float]:
    """Return the dollars saved by the edits of each kind."""
    saved: dict[EditReason, float] = defaultdict(float)
    for before, after, share in zip(whole.calls, edited.calls, shares, strict=True):
        less = _dollars([before], sheet) - _dollars([after], sheet)
        for why, part in share.items():
            saved[why] += part * less
    return dict(saved)


def _dollars(calls: Sequence[CallBill], sheet: PriceSheet) -> float:
    return sum(
        sheet.dollars(uncached=call.uncached, read=call.read, written=call.written)
        for call in calls
    )


class Account:
    """The calls of one policy, each sent to a simulated cache.

    If usage shows at which calls the log's own cache was gone, the simulated one is gone there.
    Otherwise it is gone when its time to live is over.
    """

    def __init__(self, measured: Measured, sheet: PriceSheet, needs: Needs) -> None:
        self.calls: list[CallBill] = []
        self._measured = measured
        self._needs = needs
        self._sheet = sheet
        self._gone = measured.held
        own = measured.own_sheet
        if own and sheet.name in (own, f"{own} ({measured.ttl})"):
            self._sheet = replace(sheet, ttl_seconds=_ALWAYS)
            self._gone = measured.lost
        self._cache = PrefixCache(self._sheet)

    def send(self, prompt: Prompt) -> Bill:
        """Bill the prompt of the next call."""
        place, measured = len(self.calls), self._measured
        acts = measured.moments[place].steps + 1
        has_names = None
        if acts <= self._needs.steps and self._needs.of(acts):
            has_names = not prompt.elided or self._needs.met(
                acts, [(form.number, form.text, form.in_place) for form in prompt.elided]
            )
        now = measured.at_seconds[place] if measured.at_seconds else 0.0
        if place in self._gone:
            # The cache does not have the tokens of the calls so far.
            self._cache = PrefixCache(self._sheet)
            held = held_prefix(prompt.segments, self._gone[place])
            if held and self._gone[place]:
                self._cache.send(held, now)
        bill = self._cache.send(prompt.segments, now)
        self.calls.append(
            CallBill(bill.uncached, bill.read, bill.written, prompt.edited, has_names)
        )
        return bill

    def bill(self) -> PolicyBill:
        """Return the bill of all calls so far."""
        return PolicyBill(tuple(self.calls), _dollars(self.calls, self._sheet))


class Agora:
    """A compressor's edits of one trajectory, call by call as they were made."""

    def __init__(
        self, measured: Measured, compressor: Compressor, policy: SchedulePolicy | None = None
    ) -> None:
        self.measured = measured
        self.trajectory = measured.trajectory
        self.compressor = compressor
        self.writer = Writer(measured.trajectory, self._markers, EstimatedTokens(), measured.cuts)
        self.decisions: tuple[Decision, ...] = ()
        """The decision of the edit in force on each step."""
        self.made: list[tuple[EditReason, int]] = []
        """Each edit, with how many tokens more than the one before it removed."""
        self.shares: list[Mapping[EditReason, float]] = []
        """By call: how the tokens that its prompt lacks divide among the kinds of edits."""
        self.repeats = NO_REPEATS
        """The recorded calls that repeat one that is shortened here."""
        self.state: State | None = None
        """The schedule's state after the last call that was sent."""
        self._policy = policy or compressor.policy()
        self._elided: tuple[Form, ...] = ()

    def send(self, account: "Account") -> None:
        """Send every call's prompt to the account; between two edits it only grows at its end."""
        removed: Counter[EditReason] = Counter()
        bill: Bill | None = None
        asked = [asked_by(step) for step in self.trajectory.steps]
        habit, steps = Habit(), 0
        for call, moment in zip(self._calls(), self.measured.moments, strict=True):
            shortened = {form.number for form in self._elided}
            habit, new = count_repeats(habit, asked[: moment.steps], steps, shortened)
            self.repeats, steps = self.repeats.plus(new), moment.steps
            before = self.state
            state = self._advance(call._replace(usage=self._usage(bill)), moment)
            elided, epoch = self._elided, state.edit.steps if state.edit else 0
            bill = account.send(
                Prompt(self.writer.prompt(moment, elided, epoch), elided, state.is_new)
            )
            if state.is_new and state.edit:
                more = state.removed - (before.removed if before else 0)
                removed[state.edit.why] += more
                self.made.append((state.edit.why, more))
                self.shares.append({state.edit.why: 1.0})
            else:
                self.shares.append({why: n / (removed.total() or 1) for why, n in removed.items()})

    def _calls(self) -> list[Call]:
        """Return the sizes of the calls, each with the silence before it."""
        measured, policy = self.measured, self._policy
        calls = calls_of(
            self.trajectory,
            policy.sheet,
            policy.k_recent,
            pinned=self.compressor.kept(self.trajectory, plans=False).keys(),
            moments=[(moment.steps, moment.said) for moment in measured.moments],
        )
        times = measured.at_seconds
        for at in range(1, len(times)):
            calls[at] = calls[at]._replace(idle_seconds=times[at] - times[at - 1])
        return calls

    def _usage(self, bill: Bill | None) -> Billed | None:
        """Return the usage that the provider would have reported for the last call."""
        if bill is None:
            return None
        scale, place = self.measured.unseen.scale, len(self.shares) - 1
        output = self.measured.usage[place].output if self.measured.usage else 0
        uncached, read, written = (
            round(tokens * scale) for tokens in (bill.uncached, bill.read, bill.written)
        )
        return Billed(uncached, read, written, output)

    def _advance(self, call: Call, moment: Moment) -> State:
        """Return the state after a call. An edit is written before it is taken, as it is live."""
        state = advance(self.state, call, self._policy)
        if state.is_new and state.edit:
            now = self.trajectory
            if state.edit.why == "every call":
                now = _until(now, moment)
            decisions = self.compressor.decide(now, state.edit)
            elided, removes = _elided(decisions), 0
            if elided and self.writer.gains(elided, state.edit.steps):
                edited = self.writer.prompt(moment, elided, state.edit.steps)
                removes = call.prompt + call.tail - sum(segment.tokens for segment in edited)
            state = advance(self.state, call._replace(removes=removes), self._policy)
            if state.is_new:
                self.decisions, self._elided = (decisions, elided) if removes else ((), ())
        self.state = state
        return state

    def _markers(self, first: int) -> Markers:
        tag = tag_of(self.trajectory.task, self.trajectory.steps[0])
        return self.compressor.markers(recall=self.measured.recall, tag=tag, first=first)


def _until(trajectory: Trajectory, moment: Moment) -> Trajectory:
    """Return the trajectory at the time of a call."""
    return replace(
        trajectory,
        steps=trajectory.steps[: moment.steps],
        utterances=trajectory.utterances[: moment.said],
        pending_tokens=0,
    )


def _elided(decisions: Sequence[Decision]) -> tuple[Form, ...]:
    return tuple(d.form for d in decisions if d.form is not None)


def _elided_by_the_end(agora: Agora) -> tuple[ElidedStep, ...]:
    """Return the steps that the last call's prompt would have left out."""
    trajectory, shown = agora.trajectory, agora.measured.shown.steps
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
        for d in agora.decisions
        if d.outcome == "elided"
    )

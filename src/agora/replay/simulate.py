"""What a recorded trajectory would have cost: one bill per policy, call by call."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from agora.adapters import ADAPTERS, Context, validate
from agora.compressor import Compressor
from agora.core.budget import Budget
from agora.core.compression import Decision
from agora.core.elide import Markers, PaperMarkers, SkeletonMarkers
from agora.core.prefix_cache import PrefixCache, Segment
from agora.core.prices import PriceSheet
from agora.core.schedule import RentOrBuy, Sizes
from agora.core.tokens import EstimatedTokens, TokenCounter
from agora.core.trajectory import Step, Trajectory
from agora.errors import TooManyCallsError
from agora.replay.logs import Recording
from agora.scorers.lexical import LexicalScorer
from agora.scorers.recency import RecencyScorer

_SHOWN_OF_AN_ACTION = 200
_READ_OF_AN_ACTION = 2_000
"""How many characters of an elided step's action are kept for looking at."""


MOST_CALLS = 4_000
"""Calls of one trajectory. Deciding anew at each call takes time with the square of their number,
and no window holds a prompt of so many steps."""


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


@dataclass(frozen=True, slots=True)
class PolicyBill:
    """What all calls of a trajectory cost under one policy, input only."""

    calls: tuple[CallBill, ...]
    dollars: float

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


@dataclass(frozen=True, slots=True)
class _Moment:
    """A call: how many steps and utterances came before it."""

    steps: int
    said: int


def replay(
    recording: Recording, sheet: PriceSheet, policies: Sequence[Policy] = tuple(Policy)
) -> Replayed:
    """Return what the recorded calls would have cost by this price sheet under each policy."""
    return replay_by(recording, (sheet,), policies)[0]


def replay_by(
    recording: Recording,
    sheets: Sequence[PriceSheet],
    policies: Sequence[Policy] = tuple(Policy),
) -> tuple[Replayed, ...]:
    """Return the replay by each price sheet; what no price changes is worked out once.

    Raises:
        TooManyCallsError: there are more calls than `MOST_CALLS`.
        ParseError: the messages do not read as a trajectory.
    """
    context = Context(
        counter=_Counter(),
        system=recording.system,
        tools=recording.tools,
        observations=recording.observations,
    )
    adapter = ADAPTERS[recording.format]
    trajectory = adapter.parse(recording.messages, context).trajectory
    broken = validate(
        recording.messages,
        format=recording.format,
        system=recording.system,
        tools=recording.tools,
    )
    moments = list(_moments(trajectory))
    if recording.calls and recording.calls[-1] >= len(recording.messages):
        # Its answer was never sent back, but the call was made, and it was the longest.
        moments.append(_Moment(len(trajectory.steps), len(trajectory.utterances)))
    if not moments:
        # Without a step all that was said is preamble: taken for what one call sent.
        moments.append(_Moment(0, 0))
    if len(moments) > MOST_CALLS:
        raise TooManyCallsError(len(moments), MOST_CALLS)
    at_seconds = recording.at_seconds if len(recording.at_seconds) == len(moments) else None
    bills: list[dict[Policy, PolicyBill]] = [{} for _ in sheets]
    agoras = [Compressor(sheet=sheet, counter=_Counter()) for sheet in sheets]
    for policy in policies:
        if policy is Policy.AGORA and not broken:
            for sheet, agora, own in zip(sheets, agoras, bills, strict=True):
                [own[policy]] = _bill(_by_price(trajectory, moments, agora), [sheet], at_seconds)
            continue
        prompts = _prompts(policy, trajectory, moments, legal=not broken)
        for own, bill in zip(bills, _bill(prompts, sheets, at_seconds), strict=True):
            own[policy] = bill
    return tuple(
        Replayed(
            id=recording.id,
            model=recording.model or "",
            sheet=sheet.name,
            format=recording.format,
            task=recording.task,
            steps=len(trajectory.steps),
            tokens=trajectory.tokens,
            bills=own,
            elided=() if broken else _elided_by_the_end(trajectory, moments, agora),
            illegal=str(broken[0]) if broken else "",
        )
        for sheet, agora, own in zip(sheets, agoras, bills, strict=True)
    )


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
    *,
    legal: bool,
) -> Iterator[tuple[list[Segment], bool]]:
    """Yield each call's prompt, and whether it is not the one before with something added.

    For the policies that do not look at prices; `_by_price` is for the one that does.
    """
    whole = _Writer(trajectory, PaperMarkers(), _Counter())
    if policy is Policy.AS_IT_WAS or not legal:
        for moment in moments:
            yield whole.prompt(moment, ()), False
        return
    if policy is Policy.EVERY_CALL:
        compressor = replace(
            Compressor.paper(LexicalScorer()),
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
) -> Iterator[tuple[list[Segment], bool]]:
    """Yield the prompts of a compressor that decides anew at every call."""
    before: Sequence[tuple[int, str]] = ()
    schedule = compressor.schedule_for()
    for moment in moments:
        now = _cut(trajectory, moment)
        due = schedule.epoch(Sizes.of(now))
        elided = _elided(compressor.decide(now, moment.steps)) if due else ()
        yield writer.prompt(moment, elided), elided != before
        before = elided


def _by_price(
    trajectory: Trajectory, moments: Sequence[_Moment], agora: Compressor
) -> Iterator[tuple[list[Segment], bool]]:
    """Yield AGORA's prompts: decided once per epoch, appended to in between."""
    writer = _Writer(trajectory, SkeletonMarkers(), _Counter())
    schedule = agora.schedule_for()
    if not isinstance(schedule, RentOrBuy):
        # Nothing to wait for: each call is an edit of its own and sees what was said till then.
        yield from _each_call(trajectory, moments, agora, writer)
        return
    edits = schedule.edits(Sizes.of(trajectory))
    decided: dict[int, Sequence[tuple[int, str]]] = {0: ()}
    before: Sequence[tuple[int, str]] = ()
    for moment in moments:
        _, epoch, room = edits[moment.steps]
        if epoch not in decided:
            decided = {0: (), epoch: _elided(agora.decide(trajectory, epoch, room=room))}
        elided = decided[epoch]
        yield writer.prompt(moment, elided), elided != before
        before = elided


def _elided(decisions: Sequence[Decision]) -> tuple[tuple[int, str], ...]:
    return tuple((d.number, d.skeleton) for d in decisions if d.outcome == "elided")


def _elided_by_the_end(
    trajectory: Trajectory, moments: Sequence[_Moment], agora: Compressor
) -> tuple[ElidedStep, ...]:
    """Return what the last call's prompt would have left out."""
    if not moments:
        return ()
    last = moments[-1]
    now = _cut(trajectory, last)
    schedule = agora.schedule_for()
    room = None
    if isinstance(schedule, RentOrBuy):
        _, epoch, room = schedule.edits(Sizes.of(trajectory))[last.steps]
    else:
        epoch = schedule.epoch(Sizes.of(now))
    if not epoch:
        return ()
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
        for d in agora.decide(now, epoch, room=room)
        if d.outcome == "elided"
    )


class _Writer:
    """Writes the prompts of one trajectory as the segments that a cache compares."""

    def __init__(self, trajectory: Trajectory, markers: Markers, counter: TokenCounter) -> None:
        self._markers = markers
        self._counter = counter
        self._written: dict[str, Segment] = {}
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

    def prompt(self, moment: _Moment, elided: Sequence[tuple[int, str]]) -> list[Segment]:
        """Return the prompt of a call without the elided steps.

        A marker stands at the end of the message before it, so it is a segment
        of its own right after that message.
        """
        size = 1 + moment.steps + moment.said
        segments = self._whole[:size] if not elided else self._without(size, dict(elided))
        # As agents do that cache at all: the end of what never changes, and the newest message.
        newest = segments[-1]
        segments[-1] = Segment(newest.key, newest.tokens, breakpoint=True)
        return segments

    def _without(self, size: int, lines: Mapping[int, str]) -> list[Segment]:
        segments: list[Segment] = []
        run: list[tuple[int, str]] = []
        for segment, step in zip(self._whole[:size], self._steps, strict=False):
            line = lines.get(step.number) if step is not None else None
            if step is not None and line is not None and step.form == "drop":
                run.append((step.number, line))
                continue
            if run:
                segments.append(self._marker(self._markers.run(run)))
                run = []
            if step is None or line is None:
                segments.append(segment)
            else:
                text = self._markers.mask(step.number, line)
                tokens = step.residue_tokens + self._marker(text).tokens
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
    prompts: Iterator[tuple[list[Segment], bool]],
    sheets: Sequence[PriceSheet],
    at_seconds: Sequence[float] | None,
) -> list[PolicyBill]:
    """Return what the prompts cost by each sheet, each prompt written once."""
    caches = [PrefixCache(sheet) for sheet in sheets]
    calls: list[list[CallBill]] = [[] for _ in sheets]
    dollars = [0.0] * len(sheets)
    for place, (prompt, edited) in enumerate(prompts):
        for i, cache in enumerate(caches):
            bill = cache.send(prompt, at_seconds[place] if at_seconds else 0.0)
            calls[i].append(CallBill(bill.uncached, bill.read, bill.written, edited))
            dollars[i] += bill.dollars
    return [PolicyBill(tuple(own), total) for own, total in zip(calls, dollars, strict=True)]

"""The stages put together: parse, floor, schedule, score, fill, elide, render."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agora.adapters import (
    ADAPTERS,
    Context,
    Parsed,
    Rendered,
    detect,
    known_format,
    validate,
)
from agora.adapters.base import Observations
from agora.adapters.recall import offers_recall
from agora.core.budget import Budget
from agora.core.compression import Compression, Decision, Reason, Rung
from agora.core.elide import Markers, PaperMarkers, SkeletonMarkers
from agora.core.floor import floor
from agora.core.prices import PriceSheet, sheet_for
from agora.core.recall import recalled
from agora.core.schedule import LEAST_TOKENS, EveryCall, Never, RentOrBuy, Schedule, Sizes
from agora.core.scorer import Scorer
from agora.core.select import Past, select
from agora.core.tokens import Characters, EstimatedTokens, TokenCounter
from agora.core.trajectory import Anchor, Step, Trajectory
from agora.errors import AgoraError, GuardError, IllegalInputError, ScoreError, UnknownFormatError
from agora.scorers.features import FeaturesScorer
from agora.scorers.lexical import LexicalScorer
from agora.scorers.recency import RecencyScorer

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compressor:
    """Compresses prompts by whole steps. Stateless: the same messages give the same bytes.

    >>> compression = Compressor().compress([{"role": "user", "content": "Find the key."}])
    >>> compression.summary()
    'unchanged: 9 tokens, nothing to elide'
    """

    scorer: Scorer = field(default_factory=LexicalScorer)
    budget: Budget = field(default_factory=Budget)
    k_recent: int = 2
    """How many of the newest steps are always kept."""
    theta_hi: float | None = None
    """A score above which a step joins the floor and may overspend, as in the paper."""
    schedule: Schedule | Literal["by_price", "every_call", "never"] = "by_price"
    """When to edit. By price: when the price sheet says that an edit pays."""
    least_tokens: int = LEAST_TOKENS
    """By price, a prompt smaller than this is left alone: what an agent forgets there costs it more
    steps than the edit saves. In the budget's unit; docs/decisions has the figures."""
    sheet: PriceSheet | None = None
    """The price sheet, where that of the model is not the right one."""
    skeleton_share: float = 0.6
    """How much of the room that the floor leaves is for skeletons; 0 writes none. Chosen by
    `just bench-coverage`; see docs/log.md."""
    counter: TokenCounter | None = None
    """Counts tokens; by default an estimate that knows scripts."""
    paper_markers: bool = False
    strict: bool = False
    """Raise instead of handing back the caller's messages when something goes wrong."""

    @classmethod
    def paper(cls, scorer: Scorer | None = None) -> "Compressor":
        """Return the paper's compressor: characters, every call, no skeletons, its marker."""
        return cls(
            scorer=scorer or LexicalScorer(),
            budget=Budget(keep_ratio=0.25, least_ratio=0.0, unit="characters"),
            theta_hi=0.9,
            schedule="every_call",
            least_tokens=0,
            skeleton_share=0.0,
            paper_markers=True,
        )

    def compress(
        self,
        messages: Any,
        *,
        model: str | None = None,
        format: str | None = None,
        system: object = None,
        tools: object = None,
        thinking: bool | None = None,
        pins: Collection[int] = (),
        observations: Observations | None = None,
        idle_seconds: float | None = None,
        cold: Collection[int] = (),
    ) -> Compression:
        """Return the messages to send instead, with the account of what was elided and why.

        Args:
            messages: a prompt in one of the five formats. It is never changed.
            model: the model they go to, for its prices. Without it editing is taken to be dear.
            format: their format; found out when not given.
            system: system text that stands beside the messages, where the format has it so.
            tools: the request's tools; they are counted, and the recall tool is looked for.
            thinking: whether extended thinking is on (Anthropic); found out when not given.
            pins: numbers of steps that have to stay.
            observations: `"user"` when an agent acts by text and user messages after the first
                are what it observes.
            idle_seconds: how long ago the last call was made, if known: a cold cache makes an
                edit free. Sizes do not tell of a pause, so name the call in `cold` ever after.
            cold: the numbers of steps at earlier calls that found the cache cold.

        Raises:
            AgoraError: only if `strict`.

        """
        context = Context(
            counter=self._counter(),
            system=system,
            tools=tools,
            thinking=thinking,
            observations=observations,
        )
        try:
            schedule = self.schedule_for(model, idle_seconds=idle_seconds, cold=cold)
            return _Call(
                compressor=self,
                messages=messages,
                format=format or "",
                pins=frozenset(pins),
                schedule=schedule,
                context=context,
            ).run()
        except Exception as error:
            if self.strict:
                raise
            reason = Reason.UNREADABLE if isinstance(error, UnknownFormatError) else Reason.FAILED
            if reason is Reason.FAILED:
                _log.warning("messages handed on unchanged: %s", _say(error))
            return _untouched(messages, reason, format=format or "", detail=_say(error))

    def decide(
        self,
        trajectory: Trajectory,
        epoch: int,
        *,
        room: int | None = None,
        model: str | None = None,
        pins: Collection[int] = (),
    ) -> tuple[Decision, ...]:
        """Return what an edit after `epoch` steps makes of each step, without writing messages.

        For looking at many edits of one trajectory: it is parsed once. `room`
        is what the edit may leave, where a schedule says so.
        """
        selection = _Call(
            compressor=self,
            messages=None,
            format="",
            pins=frozenset(pins),
            schedule=self.schedule_for(model),
            context=Context(counter=self._counter()),
        ).select(trajectory, epoch, room)
        if isinstance(selection, Reason):
            return _all_kept(trajectory, selection)
        return selection.decisions

    def schedule_for(
        self,
        model: str | None = None,
        *,
        idle_seconds: float | None = None,
        cold: Collection[int] = (),
    ) -> Schedule:
        """Return when prompts to a model are edited: by its prices, or as this compressor says."""
        if self.schedule == "every_call":
            return EveryCall()
        if self.schedule == "never":
            return Never()
        if not isinstance(self.schedule, str):
            return self.schedule
        sheet = self.sheet or sheet_for(model or "")
        if sheet.write <= sheet.read:
            return EveryCall(self.least_tokens)
        return RentOrBuy(
            sheet,
            budget=self.budget,
            k_recent=self.k_recent,
            least_tokens=self.least_tokens,
            idle_seconds=idle_seconds,
            cold=frozenset(cold),
        )

    def _counter(self) -> TokenCounter:
        if self.counter is not None:
            return self.counter
        return Characters() if self.budget.unit == "characters" else EstimatedTokens()


@dataclass(slots=True, kw_only=True)
class _Call:
    """One call of `compress` on its way through the stages."""

    compressor: Compressor
    messages: Any
    format: str
    pins: frozenset[int]
    schedule: Schedule
    context: Context

    def run(self) -> Compression:
        context = self.context
        self.format = (
            known_format(self.format)
            if self.format
            else detect(self.messages, system=context.system)
        )
        broken = self._broken(self.messages)
        illegal = [rule for rule in broken if not rule.strict]
        if illegal:
            if self.compressor.strict:
                raise IllegalInputError([str(rule) for rule in illegal])
            detail = str(illegal[0])
            return _untouched(
                self.messages, Reason.ILLEGAL_INPUT, format=self.format, detail=detail
            )
        parsed = ADAPTERS[self.format].parse(self.messages, context)
        trajectory = parsed.trajectory
        if not trajectory.steps:
            return self._unchanged(trajectory, Reason.NOTHING_TO_ELIDE)
        sizes = Sizes.of(trajectory, pinned=self.pins)
        epoch, room = _last_edit(self.schedule, sizes)
        if not epoch:
            detail = _until_due(self.schedule, sizes)
            return self._unchanged(trajectory, Reason.NOT_WORTH_IT_YET, detail)
        selection = self.select(trajectory, epoch, room)
        if isinstance(selection, Reason):
            return self._unchanged(trajectory, selection)
        return self._render(parsed, selection, {rule.code for rule in broken})

    def select(self, trajectory: Trajectory, epoch: int, room: int | None) -> "_Selection | Reason":
        """Choose among the steps up to the epoch, or say why there is nothing to choose."""
        compressor = self.compressor
        past = Past.of(trajectory, epoch, newest=isinstance(self.schedule, EveryCall))
        held = dict(
            floor(
                past.steps,
                k_recent=compressor.k_recent,
                pins=self.pins,
                recalled=recalled(past.steps),
            )
        )
        budget = room
        if budget is None:
            budget = compressor.budget.of(past.tokens, floor=past.floor_tokens(held))
        if len(held) == len(past.steps):
            return Reason.NOTHING_TO_ELIDE
        if past.tokens <= budget:
            return Reason.WITHIN_BUDGET
        scores, rung, detail = _score(compressor, past)
        if compressor.theta_hi is not None:
            for step, score in zip(past.steps, scores, strict=True):
                if score > compressor.theta_hi:
                    held.setdefault(step.number, "sure to be needed")
        decisions = select(
            past,
            scores,
            held=held,
            budget=budget,
            skeleton_share=compressor.skeleton_share,
            counter=self.context.counter,
        )
        if all(decision.outcome != "elided" for decision in decisions):
            return Reason.NOTHING_TO_ELIDE
        later = tuple(
            Decision(step.number, "kept", "after the epoch", step.tokens)
            for step in trajectory.steps[epoch:]
        )
        return _Selection(
            decisions + later, epoch, budget + trajectory.tokens - past.tokens, rung, detail
        )

    def _render(self, parsed: Parsed, selection: "_Selection", broken: set[str]) -> Compression:
        trajectory = parsed.trajectory
        elided = {d.number: d.skeleton for d in selection.decisions if d.outcome == "elided"}
        markers: Markers = (
            PaperMarkers()
            if self.compressor.paper_markers
            else SkeletonMarkers(recall=offers_recall(self.context.tools))
        )
        rendered = ADAPTERS[self.format].render(parsed, elided, markers)
        before = trajectory.tokens
        after = self._tokens_after(trajectory, elided, rendered)
        while after > selection.most_tokens and any(elided.values()):
            # Counts of parts do not add up exactly: lines give way until the whole fits.
            _shorten(elided, selection, after - selection.most_tokens, self.context.counter)
            rendered = ADAPTERS[self.format].render(parsed, elided, markers)
            after = self._tokens_after(trajectory, elided, rendered)
        if after >= before:
            return self._unchanged(trajectory, Reason.NOTHING_GAINED)
        new = [
            rule
            for rule in self._broken(rendered.messages, before=self.messages)
            if rule.code not in broken
        ]
        if new:
            error = GuardError([str(rule) for rule in new])
            if self.compressor.strict:
                raise error
            _log.warning("messages handed on unchanged: %s", error)
            return self._unchanged(trajectory, Reason.GUARD, detail=str(error))
        return Compression(
            messages=rendered.messages,
            reason=Reason.COMPRESSED,
            rung=selection.rung,
            tokens_before=before,
            tokens_after=after,
            decisions=tuple(
                replace(d, skeleton=elided[d.number]) if d.number in elided else d
                for d in selection.decisions
            ),
            format=self.format,
            epoch=selection.epoch,
            detail=selection.detail,
            positions=rendered.positions,
            trajectory=trajectory,
        )

    def _tokens_after(
        self, trajectory: Trajectory, elided: Mapping[int, str], rendered: Rendered
    ) -> int:
        steps = trajectory.steps
        removed = sum(steps[n - 1].tokens - steps[n - 1].residue_tokens for n in elided)
        # One token more for each text that was added, for the gap before it.
        added = sum(self.context.counter.count(text) + 1 for text in rendered.added)
        return trajectory.tokens - removed + added

    def _broken(self, messages: Any, before: Any = None) -> list[Any]:
        return validate(
            messages,
            format=self.format,
            system=self.context.system,
            tools=self.context.tools,
            thinking=self.context.thinking,
            strict=True,
            before=before,
        )

    def _unchanged(self, trajectory: Trajectory, reason: Reason, detail: str = "") -> Compression:
        return replace(
            _untouched(self.messages, reason, format=self.format, detail=detail),
            tokens_before=trajectory.tokens,
            tokens_after=trajectory.tokens,
            decisions=_all_kept(trajectory, reason),
            trajectory=trajectory,
        )


@dataclass(frozen=True, slots=True)
class _Selection:
    decisions: tuple[Decision, ...]
    epoch: int
    most_tokens: int
    """What the whole prompt may cost: the budget, and what came after the epoch."""
    rung: Rung
    detail: str


def _all_kept(trajectory: Trajectory, reason: Reason) -> tuple[Decision, ...]:
    return tuple(
        Decision(step.number, "kept", str(reason), step.tokens) for step in trajectory.steps
    )


def _shorten(
    elided: dict[int, str], selection: _Selection, tokens: int, counter: TokenCounter
) -> None:
    """Take away lines worth at least `tokens`, those of the lowest scores first."""
    scores = {d.number: d.score or 0.0 for d in selection.decisions}
    for number in sorted(elided, key=lambda number: (scores[number], number)):
        if tokens > 0 and elided[number]:
            tokens -= counter.count(elided[number])
            elided[number] = ""


def _score(compressor: Compressor, past: Past) -> tuple[Sequence[float], Rung, str]:
    """Return the scores, from the rung below if the scorer fails."""
    anchor, steps = past.anchor, past.steps
    try:
        return _scores(compressor.scorer, anchor, steps), Rung.SCORED, ""
    except Exception as error:
        if compressor.strict:
            raise
        detail = _say(error)
    try:
        # Needs no model of language and no package; damaged files are all that it can meet.
        scores, rule = _scores(FeaturesScorer(), anchor, steps), "features"
    except Exception:
        scores, rule = RecencyScorer().score(anchor, steps), "recency"
    _log.warning("scored by %s instead: %s", rule, detail)
    return scores, Rung.RULE, detail


def _scores(scorer: Scorer, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
    scores = list(scorer.score(anchor, steps))
    _check(scores, len(steps), type(scorer).__name__)
    return scores


def _check(scores: Sequence[float], steps: int, scorer: str) -> None:
    if len(scores) != steps:
        raise ScoreError(scorer, f"{len(scores)} scores for {steps} steps")
    for score in scores:
        # Not a number fails the comparison, and so does what is not finite.
        if not (isinstance(score, (int, float)) and 0 <= score <= 1):
            raise ScoreError(scorer, f"the score {score!r}")


def _last_edit(schedule: Schedule, sizes: Sizes) -> tuple[int, int | None]:
    """Return the epoch, and what the edit there may leave if the schedule says so."""
    if isinstance(schedule, RentOrBuy):
        edit = schedule.edit(sizes)
        return edit.epoch, edit.room
    return schedule.epoch(sizes), None


def _until_due(schedule: Schedule, sizes: Sizes) -> str:
    if isinstance(schedule, EveryCall):
        return f"a prompt below {schedule.least_tokens:,} tokens is left alone"
    if not isinstance(schedule, RentOrBuy):
        return ""
    steps = schedule.steps_until_due(sizes)
    if steps is None:
        return "at these prices an edit would not pay"
    return f"an edit pays in about {steps} {'step' if steps == 1 else 'steps'}"


def _untouched(messages: Any, reason: Reason, *, format: str, detail: str = "") -> Compression:
    return Compression(
        messages=messages,
        reason=reason,
        rung=Rung.UNTOUCHED,
        tokens_before=0,
        tokens_after=0,
        format=format,
        detail=detail,
    )


def _say(error: Exception) -> str:
    return str(error) if isinstance(error, AgoraError) else f"{type(error).__name__}: {error}"

"""The compressor, top to bottom: parse a request, choose an edit, select steps, write messages."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agora.adapters import (
    ADAPTERS,
    Parsed,
    Rendered,
    broken_rules,
    make_request,
    parse,
)
from agora.adapters.recall import offers_recall
from agora.adapters.spoken import ACTS_BY_TEXT, may_act_by_text
from agora.core.budget import Budget
from agora.core.compression import Compression, Decision, Form, Reason, Rung
from agora.core.elide import FormMarkers, Markers, PaperMarkers, SkeletonMarkers
from agora.core.floor import floor, kept_by_tool
from agora.core.forms import Forms, Plan, plan
from agora.core.past import Past
from agora.core.prices import PriceSheet, sheet_for
from agora.core.recall import recalled
from agora.core.request import Observations, Request
from agora.core.schedule import (
    LEAST_TOKENS,
    Edit,
    EveryCall,
    Never,
    RentOrBuy,
    Schedule,
    Sizes,
    steps_until_due,
)
from agora.core.scorer import Scorer, scores_of
from agora.core.select import select
from agora.core.tokens import Characters, EstimatedTokens, TokenCounter
from agora.core.trajectory import Step, Trajectory
from agora.core.worth import StepWorth, worth_of
from agora.errors import (
    AgoraError,
    GuardError,
    IllegalInputError,
    SettingError,
    UnknownFormatError,
)
from agora.scorers.built_in import BUILT_IN, NAMES, default_scorer
from agora.scorers.features import FeaturesScorer
from agora.scorers.recency import RecencyScorer
from agora.scorers.rule import RuleWorth

_log = logging.getLogger(__name__)
_SCHEDULES = ("by_price", "every_call", "never")
ScheduleName = Literal["by_price", "every_call", "never", "by-price", "every-call"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compressor:
    """Compresses prompts by whole steps. Stateless: the same messages give the same bytes.

    Settings are checked on creation: one that is out of range or misspelt raises
    `SettingError`, which is a `ValueError`.

    >>> compression = Compressor().compress([{"role": "user", "content": "Find the key."}])
    >>> compression.summary()
    'unchanged: 9 tokens, nothing to elide'
    """

    scorer: Scorer = field(default_factory=default_scorer)
    """Scores the steps; `agora.load_scorer` returns one by name."""
    budget: Budget = field(default_factory=Budget)
    k_recent: int = 2
    """How many of the newest steps are always kept."""
    theta_hi: float | None = None
    """A score above which a step joins the floor and may overspend, as in the paper."""
    schedule: Schedule | ScheduleName = "by_price"
    """When to edit. By price: when an edit pays for itself by the price sheet. `every-call` and
    `by-price` are accepted too."""
    least_tokens: int = LEAST_TOKENS
    """By price, a smaller prompt is left alone: the extra steps of an agent that forgets cost more
    there than the edit saves. In the budget's unit; docs/decisions has the figures."""
    sheet: PriceSheet | None = None
    """The price sheet to use instead of the model's own."""
    skeleton_share: float = 0.6
    """The share of the room left by the floor that skeletons may use; 0 writes none. Chosen by
    `just bench-coverage`; see docs/log.md."""
    forms: Forms | None = field(default_factory=Forms)
    """How steps may be shortened; None keeps each whole or leaves it out. They need skeletons:
    with a `skeleton_share` of 0 they are not used, and otherwise take its place."""
    keep_tools: Collection[str] = ()
    """Tools whose steps belong to the floor. With `forms` so do instruction files that were read
    and the newest plan, whatever read or wrote them."""
    counter: TokenCounter | None = None
    """Counts tokens; by default an estimate that depends on the script of the text."""
    paper_markers: bool = False
    shadow: bool = False
    """Decide and say what would be elided, but return the caller's own messages."""
    strict: bool = False
    """Raise instead of returning the caller's own messages when something goes wrong."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedule", _known_schedule(self.schedule))
        if not callable(getattr(self.scorer, "score", None)):
            needed = "an object with a score method; agora.load_scorer(name) returns one"
            raise SettingError("scorer", repr(self.scorer), needed, NAMES)
        if not isinstance(self.budget, Budget):
            needed = "a Budget, such as Budget(keep_ratio=0.25) or Budget(limit=6_000)"
            raise SettingError("budget", repr(self.budget), needed)
        _check_count("k_recent", self.k_recent)
        _check_count("least_tokens", self.least_tokens)
        _check_share("skeleton_share", self.skeleton_share)
        if self.theta_hi is not None:
            _check_share("theta_hi", self.theta_hi)
        if self.forms is not None and not isinstance(self.forms, Forms):
            needed = "a Forms, such as agora.Forms(), or None"
            raise SettingError("forms", repr(self.forms), needed)
        if isinstance(self.keep_tools, str) or not all(isinstance(n, str) for n in self.keep_tools):
            needed = 'names of tools, such as ("read_policy",)'
            raise SettingError("keep_tools", repr(self.keep_tools), needed)
        object.__setattr__(self, "keep_tools", tuple(self.keep_tools))
        if self.sheet is not None and not isinstance(self.sheet, PriceSheet):
            needed = "a PriceSheet; agora.core.prices.sheet_for(model) returns one"
            raise SettingError("sheet", repr(self.sheet), needed)
        if self.counter is not None and not callable(getattr(self.counter, "count", None)):
            raise SettingError("counter", repr(self.counter), "an object with a count method")

    @classmethod
    def paper(cls, scorer: Scorer | None = None) -> "Compressor":
        """Return the paper's compressor: characters, every call, no skeletons, its marker."""
        return cls(
            scorer=scorer or BUILT_IN["lexical"](),
            budget=Budget(keep_ratio=0.25, least_ratio=0.0, unit="characters"),
            theta_hi=0.9,
            schedule="every_call",
            least_tokens=0,
            skeleton_share=0.0,
            paper_markers=True,
            forms=None,
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
    ) -> Compression:
        """Return the messages to send instead, and what was elided and why.

        Args:
            messages: a prompt in one of the seven formats. It is never changed.
            model: the model they go to, for its prices. Without it edits are assumed expensive.
            format: their format; detected when not given.
            system: the system text, where the format keeps it outside the messages.
            tools: the request's tools; they are counted, and searched for the recall tool.
            thinking: whether extended thinking is on (Anthropic, also on Bedrock); detected when
                not given.
            pins: numbers of the steps that must stay.
            observations: `"user"` when an agent acts by text and user messages after the first
                are what it observes, `"none"` when none of them is. When not given, those in a
                frame that only programs write are.

        Raises:
            AgoraError: only if `strict`.

        """
        try:
            schedule = self.schedule_for(model)
            request = make_request(
                messages,
                format=format,
                system=system,
                tools=tools,
                thinking=thinking,
                observations=observations,
                model=model,
            )
            compression = self._compressed(request, schedule, frozenset(pins))
            return _in_shadow(compression, messages) if self.shadow else compression
        except Exception as error:
            if self.strict:
                raise
            reason = Reason.UNREADABLE if isinstance(error, UnknownFormatError) else Reason.FAILED
            if reason is Reason.FAILED:
                _log.warning("messages handed on unchanged: %s", _say(error))
            return _untouched(messages, reason, format=format or "", detail=_say(error))

    def schedule_for(self, model: str | None = None) -> Schedule:
        """Return when prompts to a model are edited: by its prices, or by the setting."""
        schedule = self.schedule
        if schedule == "every_call" or schedule == "every-call":
            return EveryCall()
        if schedule == "never":
            return Never()
        if schedule != "by_price" and schedule != "by-price":
            return schedule
        sheet = self.sheet or sheet_for(model or "")
        if sheet.write <= sheet.read:
            return EveryCall(self.least_tokens)
        return RentOrBuy(
            sheet, budget=self.budget, k_recent=self.k_recent, least_tokens=self.least_tokens
        )

    def decide(
        self, trajectory: Trajectory, edit: Edit, *, pins: Collection[int] = ()
    ) -> tuple[Decision, ...]:
        """Return what an edit does with each step, without writing messages.

        For looking at many edits of one trajectory: it is parsed once.
        """
        selection = self._select(trajectory, edit, frozenset(pins))
        if isinstance(selection, Reason):
            return _all_kept(trajectory, selection)
        return selection.decisions

    def _compressed(
        self, request: Request, schedule: Schedule, pins: frozenset[int]
    ) -> Compression:
        broken = broken_rules(request, strict=True)
        illegal = [rule for rule in broken if not rule.strict]
        if illegal:
            if self.strict:
                raise IllegalInputError([str(rule) for rule in illegal])
            untouched = _untouched(
                request.messages,
                Reason.ILLEGAL_INPUT,
                format=request.format,
                detail=str(illegal[0]),
            )
            return replace(untouched, rule=illegal[0].code)
        parsed = parse(request, self._counter())
        trajectory = parsed.trajectory
        if not trajectory.steps:
            detail = ACTS_BY_TEXT if may_act_by_text(request, trajectory) else ""
            return _unchanged(request, parsed, Reason.NOTHING_TO_ELIDE, detail)
        sizes = Sizes.of(trajectory, pinned=pins | self._kept(trajectory.steps, plans=False).keys())
        edit = schedule.edit(sizes)
        if not edit.epoch:
            detail = _why_not(edit, schedule, sizes)
            return _unchanged(request, parsed, Reason.NOT_WORTH_IT_YET, detail)
        selection = self._select(trajectory, edit, pins)
        if isinstance(selection, Reason):
            return _unchanged(request, parsed, selection)
        return self._written(request, parsed, selection, {rule.code for rule in broken})

    def _select(
        self, trajectory: Trajectory, edit: Edit, pins: frozenset[int]
    ) -> "_Selection | Reason":
        """Select among the steps up to the epoch, or say why there is nothing to select."""
        past = Past.of(trajectory, edit.epoch, newest=edit.sees_newest)
        held = dict(
            floor(
                past.steps,
                k_recent=self.k_recent,
                pins=pins,
                recalled=recalled(past.steps),
                kept=self._kept(past.steps),
            )
        )
        budget = edit.room
        if budget is None:
            budget = self.budget.of(past.tokens, floor=past.floor_tokens(held))
        if len(held) == len(past.steps):
            return Reason.NOTHING_TO_ELIDE
        if past.tokens <= budget:
            return Reason.WITHIN_BUDGET
        planned: Plan | None = None
        if self.forms is None or not self.uses_forms:
            scores, rung, detail = _score(self, past)
            self._hold(held, past.steps, scores)
            decisions = select(
                past,
                scores,
                held=held,
                budget=budget,
                skeleton_share=self.skeleton_share,
                counter=self._counter(),
            )
        else:
            worths, rung, detail = _worth(self, past, held)
            self._hold(held, past.steps, [max(w.action, w.observation) for w in worths])
            planned = plan(
                past,
                worths,
                held=held,
                forms=self.forms,
                markers=self.markers(),
                counter=self._counter(),
            )
            decisions = planned.decide(budget)
        if all(decision.outcome != "elided" for decision in decisions):
            return Reason.NOTHING_TO_ELIDE
        later = tuple(
            Decision(step.number, "kept", "after the epoch", step.tokens)
            for step in trajectory.steps[edit.epoch :]
        )
        return _Selection(
            decisions + later,
            edit.epoch,
            budget + trajectory.tokens - past.tokens,
            rung,
            detail,
            planned,
            budget,
        )

    def _hold(self, held: dict[int, str], steps: Sequence[Step], scores: Sequence[float]) -> None:
        """Add to the floor what is sure to be needed, where the setting says from what score."""
        if self.theta_hi is not None:
            for step, score in zip(steps, scores, strict=True):
                if score > self.theta_hi:
                    held.setdefault(step.number, "sure to be needed")

    def _kept(self, steps: Sequence[Step], *, plans: bool = True) -> Mapping[int, str]:
        """Return the steps that their tool puts into the floor, with the reason."""
        if not self.uses_forms and not self.keep_tools:
            return {}
        return kept_by_tool(steps, self.keep_tools, known=self.uses_forms, plans=plans)

    @property
    def uses_forms(self) -> bool:
        """Whether steps have forms: they need skeletons."""
        return self.forms is not None and self.skeleton_share > 0

    def markers(self, *, recall: bool = False) -> Markers:
        """Return what writes the markers; with `recall` they mention the recall tool."""
        if self.paper_markers:
            return PaperMarkers()
        if self.forms is not None and self.uses_forms:
            return FormMarkers(recall=recall, signed=self.forms.signed)
        return SkeletonMarkers(recall=recall)

    def _written(
        self, request: Request, parsed: Parsed, selection: "_Selection", broken: set[str]
    ) -> Compression:
        """Write the messages without the elided steps, if they are shorter and still legal."""
        counter = self._counter()
        trajectory = parsed.trajectory
        markers = self.markers(recall=offers_recall(request.tools))
        adapter = ADAPTERS[request.format]
        before = trajectory.tokens
        while True:
            elided = {d.number: d.skeleton for d in selection.decisions if d.outcome == "elided"}
            noted = selection.noted()
            # An adapter of somebody else's may know no notes.
            more = (noted,) if noted else ()
            rendered = adapter.render(parsed, elided, markers, *more)
            after = _tokens_after(trajectory, elided, noted, rendered, counter)
            if after <= selection.most_tokens:
                break
            # Counts of parts do not add up exactly: something gives way until the whole fits.
            fitting = selection.smaller(after - selection.most_tokens, counter)
            if fitting is None:
                break
            selection = fitting
        if after >= before:
            return _unchanged(request, parsed, Reason.NOTHING_GAINED)
        edited = replace(request, messages=rendered.messages)
        new = [
            rule
            for rule in broken_rules(edited, strict=True, before=request.messages)
            if rule.code not in broken
        ]
        if new:
            error = GuardError([str(rule) for rule in new])
            if self.strict:
                raise error
            _log.warning("messages handed on unchanged: %s", error)
            return _unchanged(request, parsed, Reason.GUARD, detail=str(error))
        return Compression(
            messages=rendered.messages,
            reason=Reason.COMPRESSED,
            rung=selection.rung,
            tokens_before=before,
            tokens_after=after,
            decisions=selection.decisions,
            format=request.format,
            epoch=selection.epoch,
            detail=selection.detail,
            positions=rendered.positions,
            trajectory=trajectory,
            owners=parsed.owners,
            spans=parsed.spans,
            observed=parsed.observed,
        )

    def _counter(self) -> TokenCounter:
        if self.counter is not None:
            return self.counter
        return Characters() if self.budget.unit == "characters" else EstimatedTokens()


@dataclass(frozen=True, slots=True)
class _Selection:
    decisions: tuple[Decision, ...]
    epoch: int
    most_tokens: int
    """What the whole prompt may cost: the budget, and what came after the epoch."""
    rung: Rung
    detail: str
    plan: Plan | None = None
    """Where steps have forms: what they were chosen from."""
    budget: int = 0
    """What the plan was filled to."""

    def noted(self) -> frozenset[int]:
        """Return the steps whose results are replaced in place though they could be removed."""
        if self.plan is None:
            return frozenset()
        return frozenset(d.number for d in self.decisions if d.form == "action")

    def smaller(self, tokens: int, counter: TokenCounter) -> "_Selection | None":
        """Return a selection that costs about `tokens` less, or None if nothing can give way."""
        if self.plan is None:
            decisions = _shorter(self.decisions, tokens, counter)
            return replace(self, decisions=decisions) if decisions != self.decisions else None
        past = self.plan.past
        budget = self.budget
        while budget > past.fixed_tokens:
            budget = max(past.fixed_tokens, budget - tokens)
            decided = self.plan.decide(budget)
            decisions = decided + self.decisions[len(decided) :]
            if decisions != self.decisions:
                return replace(self, decisions=decisions, budget=budget)
            tokens *= 2
        return None


def _known_schedule(schedule: Any) -> Any:
    """Return a schedule, or the name of one as it is written here."""
    if callable(getattr(schedule, "edit", None)):
        return schedule
    name = str(schedule).replace("-", "_")
    if name not in _SCHEDULES:
        needed = "by_price, every_call or never, or an object with an edit method"
        raise SettingError("schedule", repr(schedule), needed, _SCHEDULES)
    return name


def _check_count(setting: str, value: object) -> None:
    if not isinstance(value, int) or value < 0:
        raise SettingError(setting, repr(value), "a whole number, 0 or more")


def _check_share(setting: str, value: object) -> None:
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise SettingError(setting, repr(value), "a number from 0 to 1")


def _why_not(edit: Edit, schedule: Schedule, sizes: Sizes) -> str:
    if edit.history is None:
        return edit.why
    steps = steps_until_due(schedule, sizes)
    if steps is None:
        return "at these prices an edit would not pay"
    return f"an edit pays in about {steps} {'step' if steps == 1 else 'steps'}"


def _score(compressor: Compressor, past: Past) -> tuple[Sequence[float], Rung, str]:
    """Return the scores, from the rung below if the scorer fails."""
    anchor, steps = past.anchor, past.steps
    try:
        return scores_of(compressor.scorer, anchor, steps), Rung.SCORED, ""
    except Exception as error:
        if compressor.strict:
            raise
        detail = _say(error)
    try:
        # Needs no language model and no package; only damaged files can stop it.
        scores, rule = scores_of(FeaturesScorer(), anchor, steps), "features"
    except Exception:
        scores, rule = RecencyScorer().score(anchor, steps), "recency"
    _log.warning("scored by %s instead: %s", rule, detail)
    return scores, Rung.RULE, detail


def _worth(
    compressor: Compressor, past: Past, held: Mapping[int, str]
) -> tuple[Sequence[StepWorth], Rung, str]:
    """Return what the parts of steps are worth, by rule if the scorer fails."""
    try:
        return worth_of(compressor.scorer, past, held.keys()), Rung.SCORED, ""
    except Exception as error:
        if compressor.strict:
            raise
        detail = _say(error)
    _log.warning("valued by rule instead: %s", detail)
    return RuleWorth().worth(past, held.keys()), Rung.RULE, detail


def _tokens_after(
    trajectory: Trajectory,
    elided: Mapping[int, str],
    noted: Collection[int],
    rendered: Rendered,
    counter: TokenCounter,
) -> int:
    steps = [trajectory.steps[n - 1] for n in elided]
    left = (s.action_tokens if s.number in noted else s.residue_tokens for s in steps)
    removed = sum(step.tokens for step in steps) - sum(left)
    # One token more for each text that was added, for the gap before it.
    added = sum(counter.count(text) + 1 for text in rendered.added)
    return trajectory.tokens - removed + added


def _shorter(
    decisions: tuple[Decision, ...], tokens: int, counter: TokenCounter
) -> tuple[Decision, ...]:
    """Return the decisions without lines worth at least `tokens`, those of low scores first."""
    found = list(decisions)
    for decision in sorted(decisions, key=lambda d: (d.score or 0.0, d.number)):
        if tokens > 0 and decision.skeleton:
            tokens -= counter.count(decision.skeleton)
            form: Form = "gone" if decision.form == "line" else decision.form
            found[decision.number - 1] = replace(decision, skeleton="", form=form)
    return tuple(found)


def _all_kept(trajectory: Trajectory, reason: Reason) -> tuple[Decision, ...]:
    return tuple(
        Decision(step.number, "kept", str(reason), step.tokens) for step in trajectory.steps
    )


def _unchanged(request: Request, parsed: Parsed, reason: Reason, detail: str = "") -> Compression:
    trajectory = parsed.trajectory
    return replace(
        _untouched(request.messages, reason, format=request.format, detail=detail),
        tokens_before=trajectory.tokens,
        tokens_after=trajectory.tokens,
        decisions=_all_kept(trajectory, reason),
        trajectory=trajectory,
        owners=parsed.owners,
        spans=parsed.spans,
        observed=parsed.observed,
    )


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


def _in_shadow(compression: Compression, messages: Any) -> Compression:
    """Return the caller's own messages with the account of the edit that was not made."""
    if not compression.changed:
        return compression
    return replace(compression, messages=messages, reason=Reason.SHADOW, positions=())


def _say(error: Exception) -> str:
    return str(error) if isinstance(error, AgoraError) else f"{type(error).__name__}: {error}"

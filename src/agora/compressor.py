"""The compressor, top to bottom: parse a request, choose an edit, select steps, write messages."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agora.adapters import (
    Parsed,
    broken_rules,
    format_named,
    known_format,
    make_request,
    parse,
)
from agora.adapters.lifetimes import asked_ttl
from agora.adapters.objects import handed_back, plain
from agora.adapters.recall import offers_recall
from agora.adapters.rendering import tokens_after
from agora.adapters.spoken import ACTS_BY_TEXT, may_act_by_text
from agora.bound_thinking import (
    edited_at,
    fail_open,
    may_follow_an_edit,
    remove_older,
    remove_unheld,
    remove_until,
)
from agora.core.actions import Tools
from agora.core.budget import Budget
from agora.core.compression import (
    Compression,
    Decision,
    Reason,
    Rung,
    all_kept,
    in_shadow,
    untouched,
)
from agora.core.floor import floor, kept_by_tool
from agora.core.past import Past
from agora.core.prices import PriceSheet, sheet_for
from agora.core.recall import recalled
from agora.core.renditions.draft import Forms
from agora.core.renditions.markers import FormMarkers, Markers, code_of
from agora.core.request import Observations, Request
from agora.core.schedule import (
    CEILING,
    MIN_TOKENS,
    Edit,
    EveryCall,
    Never,
    RentOrBuy,
    Schedule,
    Sizes,
    why_not,
)
from agora.core.scorer import Scorer
from agora.core.selection.chosen import Selection
from agora.core.selection.plan import Plan, plan
from agora.core.selection.remembered import Remembered
from agora.core.settings import (
    check_apart,
    check_count,
    check_schedule,
    step_numbers,
    tool_names,
)
from agora.core.tokens import Characters, EstimatedTokens, TokenCounter
from agora.core.trajectory import Step, Trajectory
from agora.core.worth import StepWorth, worth_of
from agora.errors import (
    AgoraError,
    IllegalMessagesError,
    SettingError,
    UnknownFormatError,
)
from agora.paper import Atom, PaperCompressor
from agora.scorers.built_in import NAMES, default_scorer
from agora.scorers.rule import RuleWorth

_log = logging.getLogger(__name__)
ScheduleName = Literal["by_price", "every_call", "never"]


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
    schedule: Schedule | ScheduleName = "by_price"
    """When to edit. By price: when an edit pays for itself by the price sheet."""
    min_tokens: int = MIN_TOKENS
    """By price, a smaller prompt is left alone: the extra steps of an agent that forgets cost more
    there than the edit saves. In the budget's unit; docs/decisions has the figures."""
    ceiling: float = CEILING
    """By price, the most that the bill may be at any call, as a ratio to never editing, if the
    trajectory ended there: 1.05 risks five per cent for edits that pay later. `math.inf`: no limit.
    """
    sheet: PriceSheet | None = None
    """The price sheet to use instead of the model's own."""
    forms: Forms = field(default_factory=Forms)
    """How steps may be shortened."""
    keep_tools: Collection[str] = ()
    """Tools whose steps belong to the floor. So do instruction files that were read and the newest
    plan, whatever read or wrote them."""
    changing_tools: Collection[str] = ()
    """Tools that change something, whatever they are called: their steps are never gone. What a
    request's own tools say of themselves (`readOnlyHint`) comes first."""
    reading_tools: Collection[str] = ()
    """Tools that only read, whatever they are called: their steps may be gone."""
    counter: TokenCounter | None = None
    """Counts tokens; by default an estimate that depends on the script of the text."""
    binds_thinking: bool | None = None
    """Whether the model checks its thinking against all that precedes it, so that an edit has to
    take out what is older; None: as the model's name says."""
    _selections: Remembered[Selection | Reason] = field(
        default_factory=Remembered, init=False, repr=False, compare=False
    )
    shadow: bool = False
    """Decide and say what would be elided, but return the caller's own messages."""
    strict: bool = False
    """Raise instead of returning the caller's own messages when something goes wrong."""

    def __post_init__(self) -> None:
        check_schedule(self.schedule)
        if not callable(getattr(self.scorer, "score", None)):
            needed = "an object with a score method; agora.load_scorer(name) returns one"
            raise SettingError("scorer", repr(self.scorer), needed, NAMES)
        if not isinstance(self.budget, Budget):
            needed = "a Budget, such as Budget(keep_ratio=0.25) or Budget(limit=6_000)"
            raise SettingError("budget", repr(self.budget), needed)
        check_count("k_recent", self.k_recent)
        check_count("min_tokens", self.min_tokens)
        if not isinstance(self.ceiling, int | float) or not self.ceiling >= 1:
            needed = "a ratio to never editing, 1 or more, such as 1.05"
            raise SettingError("ceiling", repr(self.ceiling), needed)
        if not isinstance(self.forms, Forms):
            raise SettingError("forms", repr(self.forms), "a Forms, such as agora.Forms()")
        for setting in ("keep_tools", "changing_tools", "reading_tools"):
            object.__setattr__(self, setting, tool_names(setting, getattr(self, setting)))
        check_apart(Tools(self.reading_tools, self.changing_tools))
        if self.sheet is not None and not isinstance(self.sheet, PriceSheet):
            needed = "a PriceSheet; agora.core.prices.sheet_for(model) returns one"
            raise SettingError("sheet", repr(self.sheet), needed)
        if self.counter is not None and not callable(getattr(self.counter, "count", None)):
            raise SettingError("counter", repr(self.counter), "an object with a count method")

    @classmethod
    def paper(cls, scorer: Scorer, atom: Callable[[Step], Atom] | None = None) -> PaperCompressor:
        """Return the paper's method as written; `agora.paper` describes it.

        Args:
            scorer: The trained scorer, from `agora.load_scorer(folder)`.
            atom: Turns a step into what the scorer reads; by default the scorer's generic rule.
        """
        return PaperCompressor(scorer, atom)

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
        sized: Callable[[Trajectory], Trajectory] | None = None,
    ) -> Compression:
        """Return the messages to send instead, and what was elided and why.

        Args:
            messages: a prompt in one of the six formats. It is never changed.
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
            sized: returns the trajectory in other sizes, where more is sent than the messages
                show: of a log without system text and tools.

        Raises:
            SettingError: `pins` are no numbers of steps.
            UnknownFormatError: there is no format of the name given as `format`.
            AgoraError: any other only if `strict`.

        """
        pinned = step_numbers(pins)
        if format:
            # A name that is misspelt is the caller's mistake; what messages hold may be anybody's.
            known_format(format)
        request: Request | None = None
        try:
            request = make_request(
                plain(messages),
                format=format,
                system=system,
                tools=plain(tools),
                thinking=thinking,
                observations=observations,
                model=model,
            )
            request = replace(request, bound=self.binds_thinking)
            schedule = self.schedule_for(model, asked_ttl(request))
            compression = self._compressed(request, schedule, pinned, sized)
            if self.shadow:
                compression = in_shadow(compression, request.messages)
            return handed_back(remove_unheld(request, compression), request, messages)
        except Exception as error:
            if self.strict:
                raise
            reason = Reason.UNREADABLE if isinstance(error, UnknownFormatError) else Reason.FAILED
            if reason is Reason.FAILED:
                _log.warning("messages handed on unchanged: %s", _say(error))
            handed_on = untouched(messages, reason, format=format or "", detail=_say(error))
            if request is None:
                return handed_on
            handed_on = replace(handed_on, messages=request.messages)
            return handed_back(fail_open(request, handed_on), request, messages)

    def schedule_for(self, model: str | None = None, ttl: str | None = None) -> Schedule:
        """Return when prompts to a model are edited: by its prices, or by the setting.

        `ttl` is the time to live that the request asks of the cache, as it spells it.
        """
        schedule = self.schedule
        if schedule == "every_call":
            return EveryCall()
        if schedule == "never":
            return Never()
        if schedule != "by_price":
            return schedule
        sheet = (self.sheet or sheet_for(model or "")).for_ttl(ttl)
        if sheet.write <= sheet.read:
            return EveryCall(self.min_tokens)
        return RentOrBuy(
            sheet,
            budget=self.budget,
            k_recent=self.k_recent,
            ceiling=self.ceiling,
            min_tokens=self.min_tokens,
        )

    def sizes(self, trajectory: Trajectory, *, pins: Collection[int] = ()) -> Sizes:
        """Return what the schedule is asked about a trajectory.

        The only place that makes it: whoever asks when an edit is due asks this, so that
        compressor, replay, explain and gateway name the same edits.
        """
        kept = self._kept(trajectory, plans=False).keys()
        return Sizes.of(trajectory, pinned=step_numbers(pins) | kept)

    def decide(
        self, trajectory: Trajectory, edit: Edit, *, pins: Collection[int] = ()
    ) -> tuple[Decision, ...]:
        """Return what an edit does with each step, without writing messages.

        For looking at many edits of one trajectory: it is parsed once.
        """
        selection = self._select(trajectory, edit, step_numbers(pins))
        if isinstance(selection, Reason):
            return all_kept(trajectory, selection)
        return selection.decisions

    def _compressed(
        self,
        request: Request,
        schedule: Schedule,
        pins: frozenset[int],
        sized: Callable[[Trajectory], Trajectory] | None,
    ) -> Compression:
        broken = broken_rules(request, strict=True)
        illegal = [rule for rule in broken if not rule.strict]
        if illegal:
            if self.strict:
                raise IllegalMessagesError("the messages", [str(rule) for rule in illegal])
            handed_on = untouched(
                request.messages,
                Reason.ILLEGAL_INPUT,
                format=request.format,
                detail=str(illegal[0]),
            )
            return replace(handed_on, rule=illegal[0].code)
        parsed = parse(request, self._counter())
        if sized is not None:
            parsed = replace(parsed, trajectory=sized(parsed.trajectory))
        trajectory = parsed.trajectory
        if not trajectory.steps:
            detail = ACTS_BY_TEXT if may_act_by_text(request, trajectory) else ""
            return _unchanged(request, parsed, Reason.NOTHING_TO_ELIDE, detail)
        sizes = self.sizes(trajectory, pins=pins)
        edit = schedule.edit(sizes)
        request = replace(request, edited_at=edited_at(request, parsed, edit))
        if edit.epoch:
            selection = self._select(trajectory, edit, pins)
            if isinstance(selection, Reason):
                compression = _unchanged(request, parsed, selection)
            else:
                illegal_before = {rule.code for rule in broken}
                compression = self._written(request, parsed, selection, illegal_before)
        else:
            detail = why_not(edit, schedule, sizes)
            compression = _unchanged(request, parsed, Reason.NOT_WORTH_IT_YET, detail)
        compression = replace(compression, edited_at=request.edited_at)
        if compression.changed or not may_follow_an_edit(edit, self.k_recent):
            return compression
        return remove_until(compression, request.edited_at, parsed.thinking_tokens)

    def _select(
        self, trajectory: Trajectory, edit: Edit, pins: frozenset[int]
    ) -> Selection | Reason:
        """Select among the steps up to the epoch, or say why there is nothing to select."""
        past = Past.of(trajectory, edit.epoch, newest=edit.sees_newest)
        # All that a choice depends on besides the settings, compared by content.
        key = (past, edit.room, pins)
        chosen = self._selections.get(key)
        if chosen is None:
            chosen = self._choose(past, edit.room, pins)
            # What a failing scorer left to the rule is tried again.
            if isinstance(chosen, Reason) or chosen.rung is not Rung.RULE:
                self._selections.put(key, chosen)
        if isinstance(chosen, Reason):
            return chosen
        later = tuple(
            Decision(step.number, "kept", "after the epoch", step.tokens)
            for step in trajectory.steps[edit.epoch :]
        )
        before = past.tokens
        if trajectory.bound:
            before += sum(step.thinking_tokens for step in trajectory.steps[: edit.epoch])
        return replace(
            chosen,
            decisions=chosen.decisions + later,
            most_tokens=chosen.budget + trajectory.tokens - before,
        )

    def _choose(self, past: Past, room: int | None, pins: frozenset[int]) -> Selection | Reason:
        """Select among the steps of a past."""
        held = dict(
            floor(
                past.steps,
                k_recent=self.k_recent,
                pins=pins,
                recalled=recalled(past.steps),
                kept=self._kept(past),
            )
        )
        budget = room
        if budget is None:
            budget = self.budget.of(past.tokens, floor=past.floor_tokens(held))
        if len(held) == len(past.steps):
            return Reason.NOTHING_TO_ELIDE
        if past.tokens <= budget:
            return Reason.WITHIN_BUDGET
        worths, rung, detail = _worth(self, past, held)
        planned = self._planned(past, worths, held)
        decisions = planned.decide(budget)
        if all(decision.outcome != "elided" for decision in decisions):
            return Reason.NOTHING_TO_ELIDE
        return Selection(decisions, len(past.steps), budget, rung, detail, planned, budget)

    def _planned(self, past: Past, worths: Sequence[StepWorth], held: Mapping[int, str]) -> Plan:
        return plan(
            past,
            worths,
            held=held,
            forms=self.forms,
            tools=self._tools(past),
            markers=self.markers(code=code_of(past.anchor.task, past.steps[0])),
            counter=self._counter(),
        )

    def _kept(self, seen: Trajectory | Past, *, plans: bool = True) -> Mapping[int, str]:
        """Return the steps that their tool puts into the floor, with the reason."""
        return kept_by_tool(seen.steps, self.keep_tools, plans=plans, tools=self._tools(seen))

    def _tools(self, seen: Trajectory | Past) -> Tools:
        """Return which tools read and which change something, by the settings and the request."""
        tools = Tools(self.reading_tools, self.changing_tools)
        return tools.with_declared(seen.reading_tools, seen.changing_tools)

    def markers(self, *, recall: bool = False, code: str = "", first: int = 0) -> Markers:
        """Return what writes the markers of an edit whose first shortened step has that number.

        With `recall` they mention the recall tool; with `code` they can be told from a tool's text.
        """
        return FormMarkers(recall=recall, code=code, first=first)

    def _written(
        self, request: Request, parsed: Parsed, selection: Selection, broken: set[str]
    ) -> Compression:
        """Write the messages with each step as it was decided, if shorter and still legal."""
        counter = self._counter()
        trajectory = parsed.trajectory
        code = code_of(trajectory.task, trajectory.steps[0])
        recall = offers_recall(request.tools)
        adapter = format_named(request.format).adapter
        before = trajectory.tokens
        while True:
            renditions = selection.renditions()
            markers = self.markers(recall=recall, code=code, first=min(renditions, default=0))
            rendered = adapter.render(parsed, renditions, markers)
            rendered, older, thinking = remove_older(rendered, request, parsed.thinking_tokens)
            after = tokens_after(trajectory, renditions, rendered, counter) - older
            if after <= selection.most_tokens:
                break
            # Counts of parts do not add up exactly: something gives way until the whole fits.
            fitting = selection.smaller(after - selection.most_tokens)
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
            error = IllegalMessagesError("the compressed messages", [str(rule) for rule in new])
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
            thinking=thinking,
        )

    def _counter(self) -> TokenCounter:
        if self.counter is not None:
            return self.counter
        return Characters() if self.budget.unit == "characters" else EstimatedTokens()


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
    return worth_of(RuleWorth(), past, held.keys()), Rung.RULE, detail


def _unchanged(request: Request, parsed: Parsed, reason: Reason, detail: str = "") -> Compression:
    trajectory = parsed.trajectory
    return replace(
        untouched(request.messages, reason, format=request.format, detail=detail),
        tokens_before=trajectory.tokens,
        tokens_after=trajectory.tokens,
        decisions=all_kept(trajectory, reason),
        trajectory=trajectory,
        owners=parsed.owners,
        spans=parsed.spans,
        observed=parsed.observed,
    )


def _say(error: Exception) -> str:
    return str(error) if isinstance(error, AgoraError) else f"{type(error).__name__}: {error}"

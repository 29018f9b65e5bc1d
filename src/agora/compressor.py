"""The compressor, top to bottom: parse, protect, schedule, choose, render, check."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

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
from agora.core.choose import Choices, choices_of
from agora.core.compression import (
    Compression,
    Decision,
    FallbackLevel,
    Reason,
    all_kept,
    in_shadow,
    untouched,
)
from agora.core.forms import Form
from agora.core.markers import Markers, tag_of
from agora.core.memo import Memo
from agora.core.past import Past
from agora.core.prices import PriceSheet, sheet_for
from agora.core.protected import kept_by_tool, protected_steps
from agora.core.recall import recalled
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
from agora.core.scorer import NAMES, Scorer, scores_of
from agora.core.settings import check_settings, step_numbers, tool_names
from agora.core.tokens import Characters, EstimatedTokens, TokenCounter
from agora.core.trajectory import Step, Trajectory
from agora.errors import AgoraError, IllegalMessagesError, UnknownFormatError
from agora.formats import (
    Parsed,
    broken_rules,
    format_named,
    known_format,
    make_request,
    parse,
)
from agora.formats.cache_ttl import asked_ttl
from agora.formats.render import tokens_after
from agora.formats.sdk_objects import to_dicts, with_sdk_objects
from agora.formats.text_agents import ACTS_BY_TEXT, may_act_by_text
from agora.formats.tools import offers_recall
from agora.paper import Atom, PaperCompressor
from agora.scorers.recency import RecencyScorer

_log = logging.getLogger(__name__)
ScheduleName = Literal["by_price", "every_call", "never"]
_SELECTIONS = 64
_ATTEMPTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Compressor:
    """Compresses prompts by whole steps. Stateless: the same messages give the same bytes.

    A setting that is out of range or misspelt raises `SettingError`, which is a `ValueError`.

    >>> compression = Compressor().compress([{"role": "user", "content": "Find the key."}])
    >>> compression.summary()
    'unchanged: 9 tokens, nothing to elide'
    """

    scorer: Scorer = field(default_factory=RecencyScorer)
    """Puts steps in the order in which they get room; by default the newest come first."""
    budget: Budget = field(default_factory=Budget)
    k_recent: int = 2
    """How many of the newest steps always stay whole."""
    schedule: Schedule | ScheduleName = "by_price"
    """When to edit. By price: when an edit pays for itself by the price sheet."""
    min_tokens: int = MIN_TOKENS
    """By price, a smaller prompt is left alone: the extra steps of an agent that forgets cost more
    there than the edit saves. In the budget's unit; docs/decisions has the figures."""
    ceiling: float = CEILING
    """By price, the highest bill at any call, as a ratio to never editing, if the trajectory ended
    there: 1.05 risks five per cent for edits that pay later. `math.inf`: no limit."""
    sheet: PriceSheet | None = None
    """The price sheet to use instead of the model's own."""
    keep_tools: Collection[str] = ()
    """Tools whose steps always stay whole. So do instruction files that were read, and the newest
    plan, whatever tool read or wrote them."""
    changing_tools: Collection[str] = ()
    """Tools that change something, whatever their names: their steps are never omitted. What a
    request's own tools say of themselves (`readOnlyHint`) comes first."""
    reading_tools: Collection[str] = ()
    """Tools that only read, whatever their names: their steps may be omitted."""
    counter: TokenCounter | None = None
    """Counts tokens; by default an estimate that depends on the script of the text."""
    binds_thinking: bool | None = None
    """True if the model checks its thinking against all that precedes it, so that an edit removes
    older thinking. None: by the model's name."""
    shadow: bool = False
    """Decide and report what would be elided, but return the caller's own messages."""
    strict: bool = False
    """Raise instead of returning the caller's own messages when something goes wrong."""
    _selections: Memo["_Selection | Reason"] = field(
        default_factory=lambda: Memo(_SELECTIONS), init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        for setting in ("keep_tools", "changing_tools", "reading_tools"):
            object.__setattr__(self, setting, tool_names(setting, getattr(self, setting)))
        check_settings(self, NAMES)

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
            messages: A prompt in one of the six formats. It is never changed.
            model: The model it goes to, for its prices. Without it edits are assumed expensive.
            format: The format; detected by default.
            system: The system text, where the format keeps it outside the messages.
            tools: The request's tools. They are counted, and searched for the recall tool.
            thinking: True if extended thinking is on (Anthropic, also on Bedrock); detected by
                default.
            pins: The numbers of steps that must stay.
            observations: `"user"` if an agent acts by text and user messages after the first are
                its observations, `"none"` if none of them is. By default those in a frame that
                only programs write are observations.
            sized: Returns the trajectory in other sizes, if more is sent than the messages show,
                such as the system text and tools that a log leaves out.

        Raises:
            SettingError: A pin is not a valid step number.
            UnknownFormatError: There is no format of the name given as `format`.
            AgoraError: Any other error, only if `strict`.
        """
        pinned = step_numbers(pins)
        if format:
            # A misspelt name is the caller's mistake; messages may be anybody's.
            known_format(format)
        request: Request | None = None
        try:
            request = make_request(
                to_dicts(messages),
                format=format,
                system=system,
                tools=to_dicts(tools),
                thinking=thinking,
                observations=observations,
                model=model,
            )
            request = replace(request, bound=self.binds_thinking)
            schedule = self.schedule_for(model, asked_ttl(request))
            compression = self._compressed(request, schedule, pinned, sized)
            if self.shadow:
                compression = in_shadow(compression, request.messages)
            return with_sdk_objects(remove_unheld(request, compression), request, messages)
        except Exception as error:
            if self.strict:
                raise
            reason = Reason.UNREADABLE if isinstance(error, UnknownFormatError) else Reason.FAILED
            if reason is Reason.FAILED:
                _log.warning("messages handed on unchanged: %s", _sentence(error))
            unchanged = untouched(messages, reason, format=format or "", detail=_sentence(error))
            if request is None:
                return unchanged
            unchanged = replace(unchanged, messages=request.messages)
            return with_sdk_objects(fail_open(request, unchanged), request, messages)

    def schedule_for(self, model: str | None = None, ttl: str | None = None) -> Schedule:
        """Return the schedule for a model: by its prices, or by the setting.

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

        Compressor, replay, explain and service all ask this, so that they name the same edits.
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
        return selection.decide()

    def _compressed(
        self,
        request: Request,
        schedule: Schedule,
        pins: frozenset[int],
        sized: Callable[[Trajectory], Trajectory] | None,
    ) -> Compression:
        violations = broken_rules(request, strict=True)
        illegal = [rule for rule in violations if not rule.strict]
        if illegal:
            if self.strict:
                raise IllegalMessagesError("the messages", [str(rule) for rule in illegal])
            reason, detail = Reason.ILLEGAL_INPUT, str(illegal[0])
            unchanged = untouched(request.messages, reason, format=request.format, detail=detail)
            return replace(unchanged, rule=illegal[0].code)
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
                codes = {rule.code for rule in violations}
                compression = self._rendered(request, parsed, selection, codes)
        else:
            detail = why_not(edit, schedule, sizes)
            compression = _unchanged(request, parsed, Reason.NOT_WORTH_IT_YET, detail)
        compression = replace(compression, edited_at=request.edited_at)
        if compression.changed or not may_follow_an_edit(edit, self.k_recent):
            return compression
        return remove_until(compression, request.edited_at, parsed.thinking_tokens)

    def _select(
        self, trajectory: Trajectory, edit: Edit, pins: frozenset[int]
    ) -> "_Selection | Reason":
        """Work out the choices among the steps of an edit, or why there are none."""
        past = Past.of(trajectory, edit.epoch, newest=edit.sees_newest)
        # All that a choice depends on besides the settings, compared by content.
        key = (past, edit.room, pins)
        selection = self._selections.get(key)
        if selection is None:
            selection = self._choices(past, edit.room, pins)
            # A failing scorer is asked again.
            if isinstance(selection, Reason) or not selection.detail:
                self._selections.put(key, selection)
        if isinstance(selection, Reason):
            return selection
        before = past.tokens
        if trajectory.bound:
            before += sum(step.thinking_tokens for step in trajectory.steps[: edit.epoch])
        most = selection.budget + trajectory.tokens - before
        return selection._replace(trajectory=trajectory, most_tokens=most)

    def _choices(self, past: Past, room: int | None, pins: frozenset[int]) -> "_Selection | Reason":
        protected = protected_steps(
            past.steps,
            k_recent=self.k_recent,
            pins=pins,
            recalled=recalled(past.steps),
            kept=self._kept(past),
        )
        budget = room
        if budget is None:
            budget = self.budget.of(past.tokens, floor=past.least_tokens(protected))
        if len(protected) == len(past.steps):
            return Reason.NOTHING_TO_ELIDE
        if past.tokens <= budget:
            return Reason.WITHIN_BUDGET
        scores, detail = self._scores(past)
        choices = choices_of(
            past,
            scores,
            protected=protected,
            tools=self._tools(past),
            markers=self.markers(tag=tag_of(past.anchor.task, past.steps[0])),
            counter=self._counter(),
        )
        if all(decision.outcome != "elided" for decision in choices.decide(budget)):
            return Reason.NOTHING_TO_ELIDE
        return _Selection(choices, budget, detail)

    def _scores(self, past: Past) -> tuple[Sequence[float], str]:
        """Return a score for each step, by recency if the scorer fails, and why it failed."""
        try:
            return scores_of(self.scorer, past.anchor, past.steps), ""
        except Exception as error:
            if self.strict:
                raise
            detail = _sentence(error)
        _log.warning("newest steps first instead: %s", detail)
        return RecencyScorer().score(past.anchor, past.steps), detail

    def _kept(self, seen: Trajectory | Past, *, plans: bool = True) -> Mapping[int, str]:
        return kept_by_tool(seen.steps, self.keep_tools, plans=plans, tools=self._tools(seen))

    def _tools(self, seen: Trajectory | Past) -> Tools:
        tools = Tools(self.reading_tools, self.changing_tools)
        return tools.with_declared(seen.reading_tools, seen.changing_tools)

    def markers(self, *, recall: bool = False, tag: str = "", first: int = 0) -> Markers:
        """Return the markers of an edit whose first shortened step has the number `first`.

        With `recall` they mention the recall tool; with `tag` they differ from a tool's text.
        """
        return Markers(recall=recall, tag=tag, first=first)

    def _rendered(
        self, request: Request, parsed: Parsed, selection: "_Selection", violations: set[str]
    ) -> Compression:
        """Write the messages with each step as it was decided, if shorter and still legal."""
        counter = self._counter()
        trajectory = parsed.trajectory
        tag = tag_of(trajectory.task, trajectory.steps[0])
        recall = offers_recall(request.tools)
        adapter = format_named(request.format)
        # Counts of parts do not add up exactly: the budget shrinks until the whole fits.
        for attempt in range(_ATTEMPTS):
            decisions = selection.decide()
            forms: dict[int, Form] = {d.number: d.form for d in decisions if d.form is not None}
            markers = self.markers(recall=recall, tag=tag, first=min(forms, default=0))
            rendered = adapter.render(parsed, forms, markers)
            rendered, older, thinking = remove_older(rendered, request, parsed.thinking_tokens)
            after = tokens_after(trajectory, forms, rendered, counter) - older
            excess = after - selection.most_tokens
            if excess <= 0 or selection.budget <= selection.choices.past.fixed_tokens:
                break
            selection = selection._replace(budget=selection.budget - excess * 2**attempt)
        if after >= trajectory.tokens:
            return _unchanged(request, parsed, Reason.NOTHING_GAINED)
        edited = replace(request, messages=rendered.messages)
        new = [
            rule
            for rule in broken_rules(edited, strict=True, before=request.messages)
            if rule.code not in violations
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
            fallback_level=FallbackLevel.PARTIAL if selection.detail else FallbackLevel.NONE,
            tokens_before=trajectory.tokens,
            tokens_after=after,
            decisions=decisions,
            format=request.format,
            epoch=len(selection.choices.past.steps),
            detail=selection.detail,
            positions=rendered.positions,
            trajectory=trajectory,
            owners=parsed.step_of_message,
            spans=parsed.spans,
            observed=parsed.observed,
            thinking=thinking,
        )

    def _counter(self) -> TokenCounter:
        if self.counter is not None:
            return self.counter
        return Characters() if self.budget.unit == "characters" else EstimatedTokens()


class _Selection(NamedTuple):
    """The choices of an edit, and what the past and the whole prompt may cost."""

    choices: Choices
    budget: int
    detail: str
    """Why the scorer failed; empty if it did not."""
    trajectory: Trajectory | None = None
    most_tokens: int = 0

    def decide(self) -> tuple[Decision, ...]:
        """Return the decision for each step; those after the edit stay whole."""
        chosen = self.choices.decide(self.budget)
        later = self.trajectory.steps[len(chosen) :] if self.trajectory else ()
        kept = (Decision(step.number, "kept", "after the edit", step.tokens) for step in later)
        return (*chosen, *kept)


def _unchanged(request: Request, parsed: Parsed, reason: Reason, detail: str = "") -> Compression:
    trajectory = parsed.trajectory
    return replace(
        untouched(request.messages, reason, format=request.format, detail=detail),
        tokens_before=trajectory.tokens,
        tokens_after=trajectory.tokens,
        decisions=all_kept(trajectory, reason),
        trajectory=trajectory,
        owners=parsed.step_of_message,
        spans=parsed.spans,
        observed=parsed.observed,
    )


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, AgoraError) else f"{type(error).__name__}: {error}"

"""The compressor, top to bottom: check, parse, advance the schedule, choose, render, check."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from agora.bound_thinking import binds, fail_open, remove_older, remove_until
from agora.core.actions import Tools
from agora.core.budget import Budget
from agora.core.calls import Billed
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
    FORGETTING,
    MAX_COST_RATIO,
    MIN_TOKENS,
    Edit,
    EditsMode,
    Policy,
    State,
    advance,
    call_of,
    fold,
    why_not,
)
from agora.core.scorer import NAMES, Scorer, scores_of
from agora.core.settings import (
    ToolKind,
    check_settings,
    refuses_unknown,
    step_numbers,
    tool_kinds,
)
from agora.core.tokens import Characters, EstimatedTokens, TokenCounter
from agora.core.trajectory import Step, Trajectory
from agora.errors import AgoraError, IllegalMessagesError, UnknownFormatError
from agora.formats import Parsed, broken_rules, format_named, known_format, make_request, parse
from agora.formats.cache_ttl import asked_ttl
from agora.formats.render import tokens_after
from agora.formats.sdk_objects import to_dicts, with_sdk_objects
from agora.formats.text_agents import ACTS_BY_TEXT, may_act_by_text
from agora.formats.tools import offers_recall
from agora.paper import Atom, PaperCompressor
from agora.scorers.recency import RecencyScorer

if TYPE_CHECKING:
    from agora.session import Session

_log = logging.getLogger(__name__)
_SELECTIONS = 64
_ATTEMPTS = 8


class Since(NamedTuple):
    """The facts about a conversation since its last call."""

    state: State | None = None
    """The schedule's state after that call; None if the past is not known."""
    idle_seconds: float | None = None
    """How long ago its answer ended, if this process received it."""
    usage: Billed | None = None
    """The provider's bill for it."""
    beginning: int = 0
    """A digest of all that precedes the messages now; 0 if it is not known."""
    older: int | None = None
    """How many messages hold thinking that is older than the edit in force; None: all do."""
    held: bool = False
    """True if a provider refused an edit of the conversation, so that it is not edited again."""


_UNKNOWN = Since()


@refuses_unknown
@dataclass(frozen=True, slots=True, kw_only=True)
class Compressor:
    """Compresses prompts by whole steps. The same messages and state give the same bytes.

    Without a state every step is taken to have been one call. `session()` keeps states.
    A setting that is out of range or misspelt raises `SettingError`, which is a `ValueError`.

    >>> compression = Compressor().compress([{"role": "user", "content": "Find the key."}])
    >>> compression.summary()
    'unchanged: 9 tokens, nothing to elide'
    """

    budget: Budget = field(default_factory=Budget)
    """How much an edit leaves: a share of the prompt, or a number of tokens."""
    k_recent: int = 2
    """How many of the newest steps always stay whole."""
    edits: EditsMode = "by_price"
    """When to edit. `by_price`: when an edit pays by the price sheet. `free`: only when the cache
    is gone anyway, or the window is full. `every_call`, as the paper does. `never`."""
    max_cost_ratio: float = MAX_COST_RATIO
    """The highest bill at any call, as a ratio to never editing, if the conversation ended there:
    1.05 risks five percent for edits that pay later. `math.inf`: no limit."""
    forgetting: float = FORGETTING
    """The price of forgetting: input tokens for each token that an edit removes."""
    min_tokens: int = MIN_TOKENS
    """A smaller prompt is left alone: the extra steps of an agent that forgets cost more there than
    the edit saves."""
    sheet: PriceSheet | None = None
    """The price sheet to use instead of the model's own."""
    tools: Mapping[str, ToolKind] = field(default_factory=dict)
    """Tools by name: the steps of one to `keep` stay whole, one that `changes` something is never
    omitted, one that only `reads` may be. Where a request's own tools say it (`readOnlyHint`), that
    comes first. Instruction files that were read and the newest plan stay in any case."""
    scorer: Scorer = field(default_factory=RecencyScorer)
    """Puts steps in the order in which they get room; by default the newest come first."""
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
        object.__setattr__(self, "tools", tool_kinds(self.tools))
        check_settings(self, NAMES)

    @classmethod
    def for_databases(cls, **settings: Any) -> "Compressor":
        """Return a compressor for agents that call tools over records, such as a service desk.

        An edit leaves 40% of the prompt instead of 25%: such agents need more of the names and
        numbers that they have seen. Settings are those of the class.
        """
        return cls(**{"budget": Budget(keep_ratio=0.4), **settings})

    @classmethod
    def paper(cls, scorer: Scorer, atom: Callable[[Step], Atom] | None = None) -> PaperCompressor:
        """Return the paper's method as written; `agora.paper` describes it.

        Args:
            scorer: The trained scorer, from `agora.load_scorer(folder)`.
            atom: Turns a step into the scorer's input; by default the scorer's generic rule.
        """
        return PaperCompressor(scorer, atom)

    def session(self, **options: Any) -> "Session":
        """Return a session with these settings; `agora.Session` describes the options."""
        from agora.session import Session

        return Session(self, **options)

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
        state: State | None = None,
        sized: Callable[[Trajectory], Trajectory] | None = None,
    ) -> Compression:
        """Return the messages to send instead, and the decision on each step.

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
            state: The `state` of the last call's compression. By default one call for each step is
                assumed, and that nothing is known of their time.
            sized: Returns the trajectory in other sizes, if more is sent than the messages show,
                such as the system text and tools that a log leaves out.

        Raises:
            SettingError: A pin is not a valid step number.
            UnknownFormatError: `format` is not the name of a format.
            AgoraError: Any other error, only if `strict`.
        """
        pinned = step_numbers(pins)
        if format:
            # A misspelt name is the caller's mistake; messages may come from others.
            known_format(format)
        request: Request | None = None
        try:
            request = self.request(
                messages,
                format=format,
                system=system,
                tools=tools,
                thinking=thinking,
                observations=observations,
                model=model,
            )
            compression = self.compress_request(request, pinned, Since(state), sized)
            if self.shadow:
                compression = in_shadow(compression, request.messages)
            return with_sdk_objects(compression, request, messages)
        except Exception as error:
            return self.failed(error, messages, request, format)

    def request(self, messages: Any, *, tools: object = None, **options: Any) -> Request:
        """Return the request that the arguments of `compress` describe."""
        request = make_request(to_dicts(messages), tools=to_dicts(tools), **options)
        return replace(request, bound=self.binds_thinking)

    def failed(
        self, error: Exception, messages: Any, request: Request | None, format: str | None
    ) -> Compression:
        """Return the caller's own messages after an error; raise it if `strict`.

        Thinking that the model may not take any more is taken out.
        """
        if self.strict:
            raise error
        reason = Reason.UNREADABLE if isinstance(error, UnknownFormatError) else Reason.FAILED
        if reason is Reason.FAILED:
            _log.warning("messages sent unchanged: %s", sentence(error))
        unchanged = untouched(messages, reason, format=format or "", detail=sentence(error))
        if request is None:
            return unchanged
        unchanged = replace(unchanged, messages=request.messages)
        return with_sdk_objects(fail_open(request, unchanged), request, messages)

    def policy(self, model: str | None = None, ttl: str | None = None) -> Policy:
        """Return the settings and prices of the schedule for a model.

        `ttl` is the time to live that the request asks of the cache, as it spells it.
        """
        sheet = self.sheet or sheet_for(model or "")
        return Policy(
            sheet=sheet.for_ttl(ttl) if ttl else sheet,
            budget=self.budget,
            k_recent=self.k_recent,
            max_cost_ratio=self.max_cost_ratio,
            min_tokens=self.min_tokens,
            forgetting=self.forgetting,
            edits=self.edits,
        )

    @property
    def counting(self) -> TokenCounter:
        """The token counter: the caller's, or an estimate in the unit of the budget."""
        if self.counter is not None:
            return self.counter
        return Characters() if self.budget.unit == "characters" else EstimatedTokens()

    def decide(
        self, trajectory: Trajectory, edit: Edit, *, pins: Collection[int] = ()
    ) -> tuple[Decision, ...]:
        """Return the decision of an edit on each step, without writing messages.

        For looking at many edits of one trajectory: it is parsed once.
        """
        selection = self._select(trajectory, edit, step_numbers(pins))
        if isinstance(selection, Reason):
            return all_kept(trajectory, selection)
        return selection.decide()

    def compress_request(
        self,
        request: Request,
        pins: frozenset[int] = frozenset(),
        since: Since = _UNKNOWN,
        sized: Callable[[Trajectory], Trajectory] | None = None,
    ) -> Compression:
        """Return the compression of a request, given the facts since its last call."""
        violations = broken_rules(request, strict=True)
        illegal = [rule for rule in violations if not rule.strict]
        if illegal:
            if self.strict:
                raise IllegalMessagesError("the messages", [str(rule) for rule in illegal])
            reason, detail = Reason.ILLEGAL_INPUT, str(illegal[0])
            unchanged = untouched(request.messages, reason, format=request.format, detail=detail)
            return replace(unchanged, rule=illegal[0].code)
        parsed = parse(request, self.counting)
        if sized is not None:
            parsed = replace(parsed, trajectory=sized(parsed.trajectory))
        steps = len(parsed.trajectory.steps)
        if beyond := sorted(pin for pin in pins if pin > steps):
            _log.warning("there is no step %s to pin; the steps are 1 to %d", beyond, steps)
        policy = self.policy(request.model, asked_ttl(request))
        if since.held:
            policy = replace(policy, edits="never")
        pinned = pins | self.kept(parsed.trajectory, plans=False).keys()
        call = call_of(parsed.trajectory, policy, pinned=pinned)
        call = call._replace(
            beginning=since.beginning, idle_seconds=since.idle_seconds, usage=since.usage
        )
        if since.state is None:
            state = fold(parsed.trajectory, policy, pinned=pinned)
            state = state._replace(beginning=since.beginning)
        else:
            state = advance(since.state, call, policy)
        codes = {rule.code for rule in violations}
        compression = self._edited(request, parsed, state, pins, since, codes)
        if since.state is not None and state.is_new:
            # The tokens that the edit really removes decide whether it stays within the bound.
            removes = parsed.trajectory.tokens - compression.tokens_after
            state = advance(since.state, call._replace(removes=removes), policy)
            if not state.is_new:
                compression = self._edited(request, parsed, state, pins, since, codes)
        if compression.reason is Reason.NOT_WORTH_IT_YET:
            compression = replace(compression, detail=why_not(state, call, policy))
        if since.state is None and state.edit and not compression.changed and binds(request):
            # Earlier calls may have been sent with an edit.
            messages = len(request.messages)
            compression = remove_until(compression, messages, parsed.thinking_tokens)
        if not compression.changed:
            state = state._replace(edit=None, removed=0)
        return replace(compression, state=state)

    def _edited(
        self,
        request: Request,
        parsed: Parsed,
        state: State,
        pins: frozenset[int],
        since: Since,
        violations: set[str],
    ) -> Compression:
        """Return the messages with the edit of a state."""
        trajectory, edit = parsed.trajectory, state.edit
        if not trajectory.steps:
            detail = ACTS_BY_TEXT if may_act_by_text(request, trajectory) else ""
            return _unchanged(request, parsed, Reason.NOTHING_TO_ELIDE, detail)
        if edit is None:
            reason = Reason.REFUSED_BEFORE if since.held else Reason.NOT_WORTH_IT_YET
            return _unchanged(request, parsed, reason)
        selection = self._select(trajectory, edit, pins)
        if isinstance(selection, Reason):
            return _unchanged(request, parsed, selection)
        older = None if state.is_new else since.older
        return self._rendered(request, parsed, selection, violations, older)

    def _select(
        self, trajectory: Trajectory, edit: Edit, pins: frozenset[int]
    ) -> "_Selection | Reason":
        """Return the choices among the steps of an edit, or the reason why there are none."""
        past = Past.of(trajectory, edit.steps, newest=edit.why == "every call")
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
            before += sum(step.thinking_tokens for step in trajectory.steps[: edit.steps])
        most = selection.budget + trajectory.tokens - before
        return selection._replace(trajectory=trajectory, most_tokens=most)

    def _choices(self, past: Past, room: int | None, pins: frozenset[int]) -> "_Selection | Reason":
        protected = protected_steps(
            past.steps,
            k_recent=self.k_recent,
            pins=pins,
            recalled=recalled(past.steps),
            kept=self.kept(past),
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
            markers=self.markers(tag=tag_of(past.query.task, past.steps[0])),
            counter=self.counting,
        )
        if all(decision.outcome != "elided" for decision in choices.decide(budget)):
            return Reason.NOTHING_TO_ELIDE
        return _Selection(choices, budget, detail)

    def _scores(self, past: Past) -> tuple[Sequence[float], str]:
        """Return a score for each step, by recency if the scorer fails, and why it failed."""
        try:
            return scores_of(self.scorer, past.query, past.steps), ""
        except Exception as error:
            if self.strict:
                raise
            detail = sentence(error)
        _log.warning("newest steps first instead: %s", detail)
        return RecencyScorer().score(past.query, past.steps), detail

    def kept(self, seen: Trajectory | Past, *, plans: bool = True) -> Mapping[int, str]:
        """Return the steps that stay whole because of their tool, each with the reason."""
        names = [name for name, kind in self.tools.items() if kind == "keep"]
        return kept_by_tool(seen.steps, names, plans=plans, tools=self._tools(seen))

    def _tools(self, seen: Trajectory | Past) -> Tools:
        reading = tuple(name for name, kind in self.tools.items() if kind == "reads")
        changing = tuple(name for name, kind in self.tools.items() if kind == "changes")
        return Tools(reading, changing).with_declared(seen.reading_tools, seen.changing_tools)

    def markers(self, *, recall: bool = False, tag: str = "", first: int = 0) -> Markers:
        """Return the markers of an edit whose first shortened step has the number `first`.

        With `recall` they mention the recall tool; with `tag` they differ from a tool's text.
        """
        return Markers(recall=recall, tag=tag, first=first)

    def _rendered(
        self,
        request: Request,
        parsed: Parsed,
        selection: "_Selection",
        violations: set[str],
        older: int | None,
    ) -> Compression:
        """Return the messages with the decision on each step, if shorter and still legal."""
        trajectory = parsed.trajectory
        if binds(request):
            request = replace(request, edited_at=len(request.messages) if older is None else older)
        tag = tag_of(trajectory.task, trajectory.steps[0])
        recall = offers_recall(request.tools)
        format = format_named(request.format)
        # Counts of parts do not add up exactly: the budget shrinks until the whole fits.
        for attempt in range(_ATTEMPTS):
            decisions = selection.decide()
            forms: dict[int, Form] = {d.number: d.form for d in decisions if d.form is not None}
            markers = self.markers(recall=recall, tag=tag, first=min(forms, default=0))
            rendered = format.render(parsed, forms, markers)
            rendered, saved, thinking = remove_older(rendered, request, parsed.thinking_tokens)
            after = tokens_after(trajectory, forms, rendered, self.counting) - saved
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
            _log.warning("messages sent unchanged: %s", error)
            return _unchanged(request, parsed, Reason.GUARD, detail=str(error))
        return Compression(
            messages=rendered.messages,
            reason=Reason.COMPRESSED,
            fallback_level=FallbackLevel.PARTIAL if selection.detail else FallbackLevel.NONE,
            tokens_before=trajectory.tokens,
            tokens_after=after,
            decisions=decisions,
            format=request.format,
            last_edit=len(selection.choices.past.steps),
            detail=selection.detail,
            positions=rendered.positions,
            trajectory=trajectory,
            owners=parsed.step_of_message,
            spans=parsed.spans,
            observed=parsed.observed,
            thinking=thinking,
        )


class _Selection(NamedTuple):
    """The choices of an edit, and the most tokens of the past and of the whole prompt."""

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
        return (*chosen, *later_decisions(later))


def later_decisions(steps: Sequence[Step], why: str = "after the edit") -> tuple[Decision, ...]:
    """Return the decisions for steps after an edit, which stay whole."""
    return tuple(Decision(step.number, "kept", why, step.tokens) for step in steps)


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


def sentence(error: Exception) -> str:
    """Return an error as a sentence."""
    return str(error) if isinstance(error, AgoraError) else f"{type(error).__name__}: {error}"

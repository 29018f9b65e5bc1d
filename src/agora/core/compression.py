"""The result of compressing: the messages, and why each step was kept or elided."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import Any, Literal, NamedTuple

from agora.core.forms import Form
from agora.core.repeats import NO_REPEATS, Repeats
from agora.core.request import Request
from agora.core.schedule import State
from agora.core.trajectory import Trajectory
from agora.errors import RecallError


class Reason(StrEnum):
    """Why the messages turned out as they did."""

    COMPRESSED = "compressed"
    WITHIN_BUDGET = "within_budget"
    """The prompt already fits."""
    NOTHING_TO_ELIDE = "nothing_to_elide"
    """Every step is protected."""
    NOTHING_GAINED = "nothing_gained"
    """With its markers the edited prompt would not be shorter."""
    NOT_WORTH_IT_YET = "not_worth_it_yet"
    """So far an edit would cost more than it saves, by the schedule."""
    ILLEGAL_INPUT = "illegal_input"
    """The messages already break a provider's rule; AGORA does not repair them."""
    GUARD = "guard"
    """The output would have broken a rule: a defect of this package, please report it."""
    UNREADABLE = "unreadable"
    """No format fits the messages."""
    FAILED = "failed"
    """Something went wrong; `detail` has the error."""
    SHADOW = "shadow"
    """An edit was decided on and, in shadow mode, not made."""
    OWN_SUMMARY = "own_summary"
    """The agent has its own conversation summarised: that needs all of it."""
    REFUSED_BEFORE = "refused_before"
    """A provider refused an edit of this conversation."""
    LATE = "late"
    """There was no time for an edit, and none is in force."""
    SERVER_SIDE_HISTORY = "server_side_history"
    """The provider keeps part of the messages itself."""
    THINKING_REMOVED = "thinking_removed"
    """Nothing was elided, but thinking that the model would no longer accept was taken out;
    `detail` has the reason why nothing was."""


class FallbackLevel(IntEnum):
    """How much of the configured method was used."""

    NONE = 0
    """All of it."""
    PARTIAL = 1
    """The scorer failed and newer steps came first; or only thinking was taken out."""
    UNTOUCHED = 2
    """None: the caller's own messages came back."""


class Decision(NamedTuple):
    """The decision on one step."""

    number: int
    outcome: Literal["kept", "protected", "elided"]
    reason: str
    tokens: int
    """The tokens of the whole step."""
    score: float | None = None
    """Its score, if the scorer was asked."""
    form: Form | None = None
    """The form of a shortened step in the prompt; None for a whole step."""

    @property
    def kind(self) -> str:
        """The form of the step: `whole`, `note`, `line` or `omitted`.

        A note keeps the call and replaces each result. A line is part of a marker.
        """
        if self.form is None:
            return "omitted" if self.outcome == "elided" else "whole"
        return self.form.kind

    @property
    def text(self) -> str:
        """The text of its notes, or its lines in a marker."""
        return "" if self.form is None else self.form.text


@dataclass(frozen=True, slots=True)
class Thinking:
    """How much of a model's own thinking was removed because a change came before it."""

    blocks: int = 0
    tokens: int = 0
    """As estimated; the provider does not bill them any more."""


NO_THINKING = Thinking()


_CHANGED = frozenset({Reason.COMPRESSED, Reason.THINKING_REMOVED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Compression:
    """The messages to send, with the decisions behind them."""

    messages: Any
    """The same shape as the input; the caller's own object when nothing was changed."""
    reason: Reason
    fallback_level: FallbackLevel
    tokens_before: int
    tokens_after: int
    """In shadow mode the tokens that an edit would have left."""
    decisions: tuple[Decision, ...] = ()
    format: str = ""
    last_edit: int = 0
    """How many steps the selection looked at; those after it are kept as they are."""
    detail: str = ""
    """The details behind the reason, in words."""
    rule: str = ""
    """The code of the first rule that illegal input breaks, such as A7."""
    positions: tuple[int, ...] = ()
    """The position of each of `messages` among the caller's own, in message formats."""
    trajectory: Trajectory | None = None
    owners: Sequence[int] = ()
    """The step that each of the caller's messages belongs to: see `Parsed`."""
    spans: Sequence[tuple[int, int]] = ()
    """In text formats: where each block of the caller's text begins and ends."""
    observed: Sequence[int] = ()
    """In text formats: where the observation begins in each block."""
    thinking: Thinking = NO_THINKING
    """Thinking that was removed because an edit would invalidate it."""
    unit: Literal["tokens", "characters"] = "tokens"
    """The unit of sizes: characters in the paper's method."""
    state: State | None = None
    """The schedule's state after this call, for the next call's `compress`."""
    digest: bytes = b""
    """The session's key of the call."""
    repeats: Repeats = NO_REPEATS
    """In a session: which of the new steps' calls were asked for again."""
    request: Request | None = field(default=None, compare=False)
    """In a session: the request with the caller's own messages."""
    parse: Callable[[], Trajectory] | None = field(default=None, compare=False)
    """In a session that had not to parse the conversation: parses it."""

    @property
    def changed(self) -> bool:
        """True if the messages are not the caller's own."""
        return self.reason in _CHANGED

    def __repr__(self) -> str:
        """Return the summary: a whole prompt is too long for a screen or a log."""
        return f"<Compression {self.reason}: {self.summary()}>"

    def summary(self) -> str:
        """Return one line for people.

        >>> untouched([], Reason.WITHIN_BUDGET, format="openai").summary()
        'unchanged: 0 tokens, within budget'
        """
        if self.reason is Reason.SHADOW:
            return f"unchanged (shadow): would be {self._figures()}"
        if self.reason is Reason.THINKING_REMOVED:
            count = self.thinking.blocks
            return (
                f"{count} thinking {'block' if count == 1 else 'blocks'} taken out, "
                f"nothing elided: {self.tokens_after:,} {self.unit} ({self.detail})"
            )
        if not self.changed:
            why = str(self.reason).replace("_", " ")
            detail = f" ({self.detail})" if self.detail else ""
            return f"unchanged: {self.tokens_before:,} {self.unit}, {why}{detail}"
        return self._figures()

    def _figures(self) -> str:
        kept = sum(decision.outcome != "elided" for decision in self.decisions)
        saved = 1 - self.tokens_after / (self.tokens_before or 1)
        fallback = (
            f", newest first: {self.detail}" if self.fallback_level is FallbackLevel.PARTIAL else ""
        )
        blocks = self.thinking.blocks
        without = f", {blocks} thinking block{'' if blocks == 1 else 's'} taken out"
        return (
            f"{kept} of {len(self.decisions)} steps kept, "
            f"{self.tokens_before:,} -> {self.tokens_after:,} {self.unit}, "
            f"{saved:.0%} less{without if blocks else ''}{fallback}"
        )

    def recall(self, number: int) -> str:
        """Return a step in full, for the answer to a call of the recall tool.

        Raises:
            RecallError: No step has that number.

        """
        trajectory = self.parse() if self.parse is not None else self.trajectory
        if trajectory is None:
            raise RecallError(number, 0)
        return trajectory.recall(number)


def all_kept(trajectory: Trajectory, reason: Reason) -> tuple[Decision, ...]:
    """Return the decisions where nothing was elided, all for one reason."""
    return tuple(
        Decision(step.number, "kept", str(reason), step.tokens) for step in trajectory.steps
    )


def untouched(messages: Any, reason: Reason, *, format: str, detail: str = "") -> Compression:
    """Return the account of unchanged messages."""
    return Compression(
        messages=messages,
        reason=reason,
        fallback_level=FallbackLevel.UNTOUCHED,
        tokens_before=0,
        tokens_after=0,
        format=format,
        detail=detail,
    )


def in_shadow(compression: Compression, messages: Any) -> Compression:
    """Return the caller's own messages with the account of the edit that was not made."""
    if not compression.changed:
        return compression
    return replace(compression, messages=messages, reason=Reason.SHADOW, positions=())

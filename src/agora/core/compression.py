"""What compressing gave, and why each step stayed or went."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, Literal

from agora.core.trajectory import Step, Trajectory
from agora.errors import RecallError


class Reason(StrEnum):
    """Why the messages came out as they did."""

    COMPRESSED = "compressed"
    WITHIN_BUDGET = "within_budget"
    """The prompt fits already."""
    NOTHING_TO_ELIDE = "nothing_to_elide"
    """Everything there is belongs to the floor."""
    NOTHING_GAINED = "nothing_gained"
    """With its markers the shorter prompt would not be shorter."""
    NOT_WORTH_IT_YET = "not_worth_it_yet"
    """The schedule says that an edit would cost more than it saves so far."""
    ILLEGAL_INPUT = "illegal_input"
    """The messages break a provider's rule already; mending them is not ours to do."""
    GUARD = "guard"
    """What came out would have broken a rule: a defect of this package, please report it."""
    UNREADABLE = "unreadable"
    """No format fits the messages."""
    FAILED = "failed"
    """Something went wrong; `detail` has the error."""
    SERVER_SIDE_HISTORY = "server_side_history"
    """The provider holds part of the messages itself."""


class Rung(IntEnum):
    """How far down the ladder this compression went."""

    SCORED = 0
    """The scorer that was asked for."""
    RULE = 1
    """The deterministic rule, because the scorer failed."""
    UNTOUCHED = 2
    """The caller's own messages."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of one step."""

    number: int
    outcome: Literal["kept", "floor", "elided"]
    reason: str
    tokens: int
    """What the step costs when it is kept."""
    score: float | None = None
    """What the scorer gave it, if it was asked."""
    skeleton: str = ""
    """The line that stands for it in a marker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compression:
    """The messages to send, and the account of how they came about."""

    messages: Any
    """The same shape as what came in; the caller's own object when nothing was changed."""
    reason: Reason
    rung: Rung
    tokens_before: int
    tokens_after: int
    decisions: tuple[Decision, ...] = ()
    format: str = ""
    epoch: int = 0
    """How many steps the selection looked at; those after it are kept as they are."""
    detail: str = ""
    """What stood behind the reason, in words."""
    positions: tuple[int, ...] = ()
    """Where each of `messages` stood among the caller's own, in message formats."""
    trajectory: Trajectory | None = None

    @property
    def changed(self) -> bool:
        """Whether anything was elided."""
        return self.reason is Reason.COMPRESSED

    def summary(self) -> str:
        """Return one line for people.

        >>> Compression(messages=[], reason=Reason.WITHIN_BUDGET, rung=Rung.UNTOUCHED,
        ...     tokens_before=900, tokens_after=900).summary()
        'unchanged: 900 tokens, within budget'
        """
        if not self.changed:
            why = str(self.reason).replace("_", " ")
            detail = f" ({self.detail})" if self.detail else ""
            return f"unchanged: {self.tokens_before:,} tokens, {why}{detail}"
        kept = sum(decision.outcome != "elided" for decision in self.decisions)
        saved = 1 - self.tokens_after / self.tokens_before
        by_rule = f", by rule: {self.detail}" if self.rung is Rung.RULE else ""
        return (
            f"{kept} of {len(self.decisions)} steps kept, "
            f"{self.tokens_before:,} -> {self.tokens_after:,} tokens, "
            f"{saved:.0%} less{by_rule}"
        )

    def recall(self, number: int) -> str:
        """Return a step in full, for the answer to a call of the recall tool.

        Raises:
            RecallError: there is no step of that number.

        """
        return _in_full(self._step(number))

    def context(self) -> str:
        """Return the steps as the paper's appendix B writes them, for one-text prompts.

        Kept steps are numbered and verbatim, runs of elided ones one line each.
        """
        return paper_context(self._steps(), {d.number for d in self.decisions if _stays(d)})

    def _steps(self) -> tuple[Step, ...]:
        return self.trajectory.steps if self.trajectory else ()

    def _step(self, number: int) -> Step:
        steps = self._steps()
        if type(number) is not int or not 1 <= number <= len(steps):
            raise RecallError(number, len(steps))
        return steps[number - 1]


def paper_context(steps: Sequence[Step], kept: set[int]) -> str:
    """Return numbered steps with one line per elided run, after the paper's appendix B.

    >>> steps = [Step(number=n, action=f"go {n}", observation="ok", tokens=2) for n in (1, 2, 3)]
    >>> print(paper_context(steps, {3}))
    [Steps 1–2] (2 step(s) elided)
    [Step 3] Action: go 3
             Obs: ok
    """
    lines: list[str] = []
    run: list[int] = []
    for step in steps:
        if step.number not in kept:
            run.append(step.number)
            continue
        lines += _elided_line(run)
        run = []
        head = f"[Step {step.number}] "
        lines += [f"{head}Action: {step.action}", f"{' ' * len(head)}Obs: {step.observation}"]
    return "\n".join(lines + _elided_line(run))


def _elided_line(run: Sequence[int]) -> list[str]:
    if not run:
        return []
    if len(run) == 1:
        return [f"[Step {run[0]}] (elided)"]
    return [f"[Steps {run[0]}–{run[-1]}] ({len(run)} step(s) elided)"]


def _stays(decision: Decision) -> bool:
    return decision.outcome != "elided"


def _in_full(step: Step) -> str:
    parts = [f"step {step.number}", step.thought, step.action, step.observation]
    return "\n".join(part for part in parts if part)

"""The paper's method as written: Eq. 2, Algorithm 1 and its marker, in characters, at every call.

    floor    system, task, current observation, pending block, the last `k_recent` steps, and
             every step whose score is above `theta_hi`                                   (Eq. 2)
    scores   p_i = P(critical | c_now, [a_i; o_i]), from a scorer that must be given      (Eq. 3)
    fill     other steps by score, best first, while they fit floor(rho * |tau|)    (Algorithm 1)
    marker   one `[... N step(s) elided ...]` for each run of steps that were left out

The prompt is a role-marker transcript, or messages of the chat completions API. In a chat with
tool calls, the user's text is not an observation, so it always stays.
"""

import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agora.core.compression import Compression, Decision, FallbackLevel, Reason, all_kept, untouched
from agora.core.request import Observations, Request
from agora.core.scorer import Scorer, scores_of
from agora.core.settings import check_count, check_share
from agora.core.tokens import Characters
from agora.core.trajectory import Step, Trajectory
from agora.errors import AgoraError, SettingError, UnknownFormatError
from agora.formats import Parsed, make_request, parse, validate
from agora.scorers.atoms import SIDE_CHARACTERS, Atom, atom, pair_texts
from agora.scorers.bundle import TOKENS, write_cross_encoder

__all__ = [
    "SIDE_CHARACTERS",
    "TOKENS",
    "Atom",
    "PaperCompressor",
    "atom",
    "marker",
    "pair_texts",
    "write_cross_encoder",
]

_log = logging.getLogger(__name__)
_FORMATS = ("transcript", "openai")


def marker(steps: int) -> str:
    """Return the text that replaces a run of steps.

    >>> marker(2)
    '[... 2 step(s) elided ...]'
    """
    return f"[... {steps} step(s) elided ...]"


@dataclass(frozen=True, slots=True)
class PaperCompressor:
    r"""Compresses a prompt by the paper's method. Kept steps are verbatim and in order.

    The floor follows the example in the paper's appendix B: the newest step holds the current
    observation and counts among the `k_recent`. Eq. 2 to the letter would keep one step more.

    >>> class Newest:
    ...     def score(self, query, steps):
    ...         return [step.number / 100 for step in steps]
    >>> steps = "".join(f"[ASSISTANT] open box {n}\n[USER] empty\n" for n in range(1, 7))
    >>> print(PaperCompressor(Newest()).compress("[USER] find it\n" + steps).messages)
    [USER] find it
    [... 4 step(s) elided ...]
    [ASSISTANT] open box 5
    [USER] empty
    [ASSISTANT] open box 6
    [USER] empty
    <BLANKLINE>
    """

    scorer: Scorer
    """Gives the probability that the next action needs a step; `theta_hi` is meant for one."""
    atom: Callable[[Step], Atom] | None = None
    """Turns a step into the scorer's input (appendix B). None leaves that to the scorer."""
    rho: float = 0.25
    """The share of the prompt's characters to keep. The floor may cost more."""
    k_recent: int = 2
    theta_hi: float = 0.9
    strict: bool = False
    """Raise an error instead of returning the caller's own messages."""

    def __post_init__(self) -> None:
        if not callable(getattr(self.scorer, "score", None)):
            needed = "an object with a score method; agora.load_scorer(folder) returns one"
            raise SettingError("scorer", repr(self.scorer), needed)
        check_share("rho", self.rho)
        check_share("theta_hi", self.theta_hi)
        check_count("k_recent", self.k_recent)

    def compress(
        self,
        messages: Any,
        *,
        format: str | None = None,
        system: object = None,
        tools: object = None,
        observations: Observations | None = None,
    ) -> Compression:
        """Return the messages to send instead. The caller's messages are never changed.

        Args:
            messages: A role-marker transcript, or chat messages.
            format: `"transcript"` or `"openai"`; detected if not given.
            system: System text that is sent beside the messages.
            tools: The request's tools; their characters are counted.
            observations: `"user"` if the user messages after the first are observations.

        Raises:
            AgoraError: Only if `strict`: the messages cannot be read, or the scorer failed.
        """
        try:
            request = make_request(
                messages, format=format, system=system, tools=tools, observations=observations
            )
            return self._compress(request)
        except Exception as error:
            if self.strict:
                raise
            _log.warning("messages returned unchanged: %s", error)
            unread = isinstance(error, UnknownFormatError)
            reason = Reason.UNREADABLE if unread else Reason.FAILED
            name = "" if isinstance(error, AgoraError) else f"{type(error).__name__}: "
            return untouched(messages, reason, format=format or "", detail=f"{name}{error}")

    def _compress(self, request: Request) -> Compression:
        if request.format not in _FORMATS:
            problem = f"the paper's method does not read the format {request.format!r}"
            raise UnknownFormatError(problem, _FORMATS)
        rules = validate(request.messages, format=request.format)
        if rules:
            detail = str(rules[0])
            reason = Reason.ILLEGAL_INPUT
            return untouched(request.messages, reason, format=request.format, detail=detail)
        parsed = parse(request, Characters())
        trajectory = parsed.trajectory
        decisions = self._decide(trajectory)
        kept = {decision.number for decision in decisions if decision.outcome != "elided"}
        account = Compression(
            messages=request.messages,
            reason=Reason.NOTHING_TO_ELIDE,
            fallback_level=FallbackLevel.UNTOUCHED,
            tokens_before=trajectory.tokens,
            tokens_after=trajectory.tokens,
            decisions=all_kept(trajectory, Reason.NOTHING_TO_ELIDE),
            format=request.format,
            last_edit=len(trajectory.steps),
            trajectory=trajectory,
            unit="characters",
        )
        if len(kept) == len(trajectory.steps):
            return account
        write = _transcript if request.format == "transcript" else _chat
        shorter = write(parsed, kept)
        after = parse(replace(request, messages=shorter), Characters()).trajectory.tokens
        return replace(
            account,
            messages=shorter,
            reason=Reason.COMPRESSED,
            fallback_level=FallbackLevel.NONE,
            tokens_after=after,
            decisions=decisions,
        )

    def _decide(self, trajectory: Trajectory) -> tuple[Decision, ...]:
        """Return a decision for each step: Eq. 2, then Algorithm 1."""
        steps = trajectory.steps
        # The newest step holds c_now, so it is kept even when k_recent is 0.
        recent = steps[max(0, len(steps) - max(self.k_recent, 1)) :]
        older = steps[: len(steps) - len(recent)]
        scores = dict(zip((s.number for s in older), self._scores(trajectory, older), strict=True))
        floor = {step.number: "recent" for step in recent}
        floor |= {n: "sure to be needed" for n, score in scores.items() if score > self.theta_hi}

        # |tau| and B_u count all that is always kept: c_sys, c_task and c_pend.
        budget = math.floor(self.rho * trajectory.tokens)
        used = trajectory.fixed_tokens + sum(s.tokens for s in steps if s.number in floor)
        filled: set[int] = set()
        # The newer of two steps with the same score comes first.
        for step in sorted(older, key=lambda s: (scores[s.number], s.number), reverse=True):
            if step.number not in floor and used + step.tokens <= budget:
                filled.add(step.number)
                used += step.tokens

        def decision(step: Step) -> Decision:
            number, score = step.number, scores.get(step.number)
            if number in floor:
                return Decision(number, "protected", floor[number], step.tokens, score)
            if number in filled:
                return Decision(number, "kept", "score", step.tokens, score)
            return Decision(number, "elided", "no room left", step.tokens, score)

        return tuple(decision(step) for step in steps)

    def _scores(self, trajectory: Trajectory, steps: Sequence[Step]) -> Sequence[float]:
        if not steps:
            return []
        query = trajectory.query(len(trajectory.steps), newest=True)
        return scores_of(self.scorer, query, [self._scored(step) for step in steps])

    def _scored(self, step: Step) -> Step:
        if self.atom is None:
            return step
        read = self.atom(step)
        return Step(
            number=step.number,
            action=read.action,
            observation=read.observation,
            tokens=step.tokens,
        )


def _transcript(parsed: Parsed, kept: Collection[int]) -> str:
    """Write a transcript: kept blocks verbatim, each marker as far from its neighbours as they."""
    text: str = parsed.messages
    pieces: list[str] = []
    for block, elided in _runs(parsed.step_of_message, kept):
        if elided:
            before = pieces[-1]
            pieces.append(marker(elided) + (before[len(before.rstrip()) :] or "\n"))
        start, end = parsed.spans[block]
        pieces.append(text[start:end])
    return "".join(pieces)


def _chat(parsed: Parsed, kept: Collection[int]) -> list[Mapping[str, Any]]:
    """Write chat messages: each marker at the end of the message before it, if it has a place."""
    messages: list[Mapping[str, Any]] = []
    for at, elided in _runs(parsed.step_of_message, kept):
        if elided:
            last = messages[-1] if messages else {}
            content = last.get("content")
            if last.get("role") in ("user", "tool", "function") and isinstance(content, str | list):
                text = marker(elided)
                part = {"type": "text", "text": text}
                joined = [*content, part] if isinstance(content, list) else f"{content}\n\n{text}"
                messages[-1] = {**last, "content": joined}
            else:
                messages.append({"role": "user", "content": marker(elided)})
        messages.append(parsed.messages[at])
    return messages


def _runs(owners: Sequence[int], kept: Collection[int]) -> Iterator[tuple[int, int]]:
    """Yield the place of each block that stays, and how many steps were left out before it."""
    run: set[int] = set()
    for at, owner in enumerate(owners):
        number = abs(owner)
        if number and number not in kept:
            run.add(number)
        else:
            yield at, len(run)
            run.clear()

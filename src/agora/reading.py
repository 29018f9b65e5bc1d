"""The parsed state of a conversation after a call, so that the next call reads only new messages.

A `Reading` holds sizes and places, no text. The first step and the late ones are parsed again with
the new messages, by the parser that reads whole conversations: later messages can change how a step
is read. The caller has checked that the other messages are the same.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from agora.core.repeats import Asked, asked_by
from agora.core.request import Request
from agora.core.tokens import TokenCounter
from agora.core.trajectory import Step, Trajectory, Utterance
from agora.formats import Parsed, parse

Keeps = Callable[[Sequence[Step]], Collection[int]]
"""Returns the numbers of the steps that stay whole because of their tool."""


class Reading(NamedTuple):
    """The sizes of a conversation, and the place to continue the reading."""

    trajectory: Trajectory
    """Its steps and utterances without their texts."""
    messages: int
    """How many messages it has."""
    first_end: int
    """The end of the first step's messages."""
    late_start: int
    """The start of the late steps, which are parsed again."""
    late_step: int
    """The number of the first late step."""
    first_said: int
    """The number of utterances before `first_end`."""
    said: int
    """The number of utterances before `late_start`."""
    late_steps: int
    """How many steps are late at least."""
    thinks: bool
    """True if a message holds thinking that the format signs."""
    asked: tuple[Asked, ...]
    """The calls of each step."""


def reading_of(
    request: Request,
    trajectory: Trajectory,
    owners: Sequence[int],
    counter: TokenCounter,
    keeps: Keeps,
    late_steps: int,
) -> Reading | None:
    """Return the reading of a conversation, or None if it has to be parsed whole each time.

    Args:
        request: The conversation.
        trajectory: The same, parsed.
        owners: The step of each message: see `Parsed.step_of_message`.
        counter: Counted its tokens.
        keeps: Names the steps that stay because of their tool.
        late_steps: How many of the newest steps are parsed again.
    """
    steps = trajectory.steps
    late_step = len(steps) - late_steps + 1
    # From its first tool call on, an agent that acts by text is read in another way.
    mixed = steps and not steps[0].calls and any(step.calls for step in steps)
    if not isinstance(request.messages, list) or late_step < 2 or mixed:
        return None
    first_end = max(at for at in range(owners.index(2)) if abs(owners[at]) == 1) + 1
    head = parse(_part(request, request.messages[:first_end], trajectory), counter)
    reading = Reading(
        trajectory=replace(
            trajectory,
            task="",
            preamble="",
            steps=_sizes(steps, keeps),
            utterances=_silent(trajectory.utterances),
        ),
        messages=len(request.messages),
        first_end=first_end,
        late_start=owners.index(late_step),
        late_step=late_step,
        first_said=len(head.trajectory.utterances),
        said=0,
        late_steps=late_steps,
        thinks=any(step.thinking_tokens for step in steps),
        asked=tuple(map(asked_by, steps)),
    )
    return _with_said(request, reading, counter)


def read_on(
    request: Request, reading: Reading, counter: TokenCounter, keeps: Keeps
) -> Reading | None:
    """Return the reading with the messages that came since.

    None if that needs the whole conversation to be parsed.
    """
    before = reading.trajectory
    parsed = _late(request, reading, counter)
    steps = parsed.trajectory.steps
    by_text = not steps or not steps[0].calls
    if len(steps) < 2 or steps[0].tokens != before.steps[0].tokens:
        return None
    if by_text and any(step.calls for step in steps):
        return None
    shift = reading.late_step - 2
    late = [step._replace(number=step.number + shift) for step in steps[1:]]
    said = _silent(parsed.trajectory.utterances[reading.first_said :], shift)
    fresh = reading._replace(
        trajectory=replace(
            before,
            steps=before.steps[: reading.late_step - 1] + _sizes(late, keeps),
            utterances=before.utterances[: reading.said] + said,
            pending_tokens=parsed.trajectory.pending_tokens,
        ),
        messages=len(request.messages),
        thinks=reading.thinks or any(parsed.thinking_tokens),
        asked=reading.asked[: reading.late_step - 1] + tuple(map(asked_by, late)),
    )
    if len(late) < 3 * reading.late_steps:
        return fresh
    late_step = late[-reading.late_steps].number
    start = parsed.step_of_message.index(late_step - shift) - reading.first_end + reading.late_start
    return _with_said(request, fresh._replace(late_start=start, late_step=late_step), counter)


def _late(request: Request, reading: Reading, counter: TokenCounter) -> Parsed:
    """Parse the first step and the late ones."""
    messages = request.messages
    part = messages[: reading.first_end] + messages[reading.late_start :]
    return parse(_part(request, part, reading.trajectory, thinks=reading.thinks), counter)


def _part(
    request: Request, messages: list[object], trajectory: Trajectory, *, thinks: bool = False
) -> Request:
    """Return a request with some of the messages; its tools have been counted already."""
    thinking = request.thinking or (thinks and not trajectory.bound) or None
    return replace(request, messages=messages, tools=None, thinking=thinking)


def _with_said(request: Request, reading: Reading, counter: TokenCounter) -> Reading:
    late = len(_late(request, reading, counter).trajectory.utterances) - reading.first_said
    return reading._replace(said=len(reading.trajectory.utterances) - late)


def _sizes(steps: Sequence[Step], keeps: Keeps) -> tuple[Step, ...]:
    kept = set(keeps(steps))
    return tuple(
        step._replace(
            action="",
            observation="",
            calls=(),
            thought="",
            several=(),
            fixed=step.fixed or ("kept" if step.number in kept else ""),
        )
        for step in steps
    )


def _silent(utterances: Sequence[Utterance], shift: int = 0) -> tuple[Utterance, ...]:
    return tuple(replace(one, after=one.after + shift, text="") for one in utterances)

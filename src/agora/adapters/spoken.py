"""Agents that act by text: which of their chat messages are actions and observations."""

import re
from collections.abc import Sequence
from typing import Any

from agora.adapters.assembly import Kind, Reading, texts_of
from agora.adapters.frames import Frame, Prompt, Reply, first_frame
from agora.core.request import Observations, Request
from agora.core.trajectory import Call, Trajectory

ACTS_BY_TEXT = "acts by text? 0 steps seen; pass observations=user"
"""What is said of a long conversation without a step: nothing is guessed."""
LEAST_TURNS = 10
"""How often the agent has spoken in a long conversation."""
_SPOKEN = ("spoken", Call("", ""))
_MARK = re.compile(r"(?:^|\n)(Action|Observation)(?: \d{1,6})?:")


def mark_observations(
    readings: list[Reading], observations: Observations | None, system: object = None
) -> None:
    """Turn user messages that are observations into results of the message before them.

    With `observations="user"` that is every user message after the first, in a
    chat without any tool call; with `"none"` it is no message. If the caller
    did not say, the first answer that the agent gets decides: if a program
    framed it (see `frames`), then so is every later message in the same frame,
    up to the first tool call. Whatever else a user message is, it stays.

    What is decided of a message depends on those before it alone, so it never
    changes while a conversation grows.
    """
    if observations == "user":
        _mark_all(readings)
    elif observations is None:
        _mark_framed(readings, system)


def _mark_all(readings: Sequence[Reading]) -> None:
    if any(reading.calls or reading.kind is Kind.RESULT for reading in readings):
        return
    asked = False
    previous: Reading | None = None
    for reading in readings:
        user = reading.kind is Kind.USER
        if user and asked and previous is not None and previous.kind is Kind.AGENT:
            _mark(previous, reading)
        asked = asked or user
        previous = reading


def _mark_framed(readings: Sequence[Reading], system: object) -> None:
    """Mark messages in the frame of the first answer; stop at once if it has none."""
    frame: Frame | None = None
    task = spoke = -1
    for at, reading in enumerate(readings):
        kind = reading.kind
        if reading.calls or kind is Kind.RESULT:
            return
        if kind is Kind.AGENT:
            spoke = at if task >= 0 else spoke
        elif kind is Kind.USER and spoke < 0:
            task = at
        elif kind is Kind.USER:
            # Behind anything but the agent's own words it answers nothing.
            answers = spoke == at - 1 and not reading.mixed
            reply = Reply(said=readings[spoke].text, answer=reading.text, speaker=reading.speaker)
            if frame is None:
                prompt = Prompt(system=_system(readings[:at], system), task=readings[task].text)
                frame = first_frame(reply, prompt) if answers else None
                if frame is None:
                    return
                _mark(readings[spoke], reading)
            elif answers and frame.holds(reply):
                _mark(readings[spoke], reading)


def _mark(action: Reading, answer: Reading) -> None:
    answer.kind, answer.answers = Kind.RESULT, (_SPOKEN[0],)
    action.calls = (_SPOKEN,)
    action.thought, action.text = split_thought(action.text)


def _system(readings: Sequence[Reading], system: object) -> str:
    beside = system if isinstance(system, str) else ""
    if isinstance(system, list):
        beside = texts_of(system)
    fixed = (reading.text for reading in readings if reading.kind is Kind.FIXED)
    return "\n".join((beside, *fixed))


def may_act_by_text(request: Request, trajectory: Trajectory) -> bool:
    """Tell whether nothing was read as a step though the agent has spoken ten times or more.

    Then `ACTS_BY_TEXT` is worth telling, unless the caller has said what user messages are.
    """
    if trajectory.steps or request.observations is not None or isinstance(request.messages, str):
        return False
    return turns(request.messages) >= LEAST_TURNS


def turns(messages: Sequence[Any]) -> int:
    """Return how many of the messages are the agent's."""
    return sum(
        isinstance(message, dict) and message.get("role") in ("assistant", "model")
        for message in messages
    )


def split_thought(text: str) -> tuple[str, str]:
    """Return the reasoning before the first `Action:` line, and what is done from there on."""
    for match in _MARK.finditer(text):
        if match[1] == "Action":
            return text[: match.start()].strip(), text[match.end() :].strip()
    return "", text.strip()

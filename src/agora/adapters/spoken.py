"""Agents that act by text: which of their chat messages are actions and observations."""

import re

from agora.adapters.assembly import Kind, Reading
from agora.adapters.base import Observations
from agora.core.trajectory import Call

_SPOKEN = ("spoken", Call("", ""))
_MARK = re.compile(r"(?:^|\n)(Action|Observation)(?: \d{1,6})?:")


def mark_observations(readings: list[Reading], observations: Observations | None) -> None:
    """Turn user messages that are observations into results of the message before them.

    Only in a chat without any tool call. With `observations="user"` that is
    every user message after the first. Otherwise it takes ReAct marks on both
    sides: an `Action:` line in what the agent said and `Observation:` at the
    start of the answer. When in doubt a user message is user text and stays.
    """
    if any(reading.calls or reading.kind is Kind.RESULT for reading in readings):
        return
    asked = False
    previous: Reading | None = None
    for reading in readings:
        if reading.kind is Kind.USER and asked and previous is not None:
            spoken = previous.kind is Kind.AGENT and (
                observations == "user"
                or (_opens_with_observation(reading.text) and _has_action(previous.text))
            )
            if spoken:
                reading.kind, reading.answers = Kind.RESULT, (_SPOKEN[0],)
                previous.calls = (_SPOKEN,)
                previous.thought, previous.text = split_thought(previous.text)
        asked = asked or reading.kind is Kind.USER
        previous = reading


def split_thought(text: str) -> tuple[str, str]:
    """Return the reasoning before the first `Action:` line, and what is done from there on."""
    for match in _MARK.finditer(text):
        if match[1] == "Action":
            return text[: match.start()].strip(), text[match.end() :].strip()
    return "", text.strip()


def _has_action(text: str) -> bool:
    return any(match[1] == "Action" for match in _MARK.finditer(text))


def _opens_with_observation(text: str) -> bool:
    match = _MARK.match(text.lstrip())
    return match is not None and match[1] == "Observation"

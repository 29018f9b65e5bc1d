"""Agents that act by text, in any format that is a list of messages."""

from collections.abc import Callable
from typing import Any

from agora.testing.draft import Draft
from agora.testing.pen import Pen

Said = Callable[[str], dict[str, Any]]


def write_spoken(draft: Draft, pen: Pen, steps: int, *, user: Said, agent: Said) -> None:
    """Add steps made of text to a draft that has its task, by ReAct marks or by the caller's word.

    `user` and `agent` make a message of a text.
    """
    marked = pen.often()
    draft.observations = None if marked else "user"
    draft.called()
    for _ in range(steps):
        act = f"Thought: {pen.words()}\nAction: {pen.words()}" if marked else pen.words()
        positions = draft.put(agent(act))
        seen = pen.observation()
        if not marked and not seen.strip():
            seen = "nothing"
        positions += draft.put(user(f"Observation: {seen}" if marked else seen))
        draft.closed.append(tuple(positions))
        draft.called()
        if marked and pen.rarely():
            # The agent answers, the user asks for more.
            draft.put(agent(f"Well. {pen.words()}"), user(f"Please: {pen.words()}"))
            draft.called()
        elif marked and pen.rarely():
            draft.put(user(f"Please: {pen.words()}"))
            draft.called()
    if pen.rarely():
        draft.put(agent("Thought: nearly done\nAction:"))

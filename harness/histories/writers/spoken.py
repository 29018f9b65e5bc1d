"""Agents that act by text, in any format that is a list of messages."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.histories.choices import Choices
from harness.histories.draft import Draft

Said = Callable[[str], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class _Way:
    """How one kind of agent acts and is answered."""

    action: str
    answer: str
    closing: str = ""
    """What would close the frame early: it never stands in an answer."""

    def act(self, choices: Choices) -> str:
        return self.action.format(plan=choices.words(), deed=choices.words())

    def seen(self, text: str) -> str:
        if self.closing:
            text = text.replace(self.closing, "")
        return self.answer.format(text=text)


_WAYS = (
    _Way("Thought: {plan}\nAction: {deed}", "Observation: {text}"),
    _Way(
        "THOUGHT: {plan}\n\n```bash\n{deed}\n```",
        "<returncode>0</returncode>\n<output>\n{text}</output>",
        "</output>",
    ),
    _Way(
        "{plan}\n<tool_call>\n{deed}\n</tool_call>",
        "<tool_response>\n{text}\n</tool_response>",
        "</tool_response>",
    ),
)
"""Those that are found out by their frames."""
_TOLD = _Way("{plan}", "{text}")


def write_spoken(
    draft: Draft, choices: Choices, steps: int, *, user: Said, agent: Said, alternate: bool = False
) -> None:
    """Add steps made of text to a draft that has its task, in a frame or by the caller's word.

    `user` and `agent` make a message of a text. With `alternate` the user never
    speaks twice in a row.
    """
    framed = choices.often()
    way = choices.pick(_WAYS) if framed else _TOLD
    draft.observations = None if framed else "user"
    draft.called()
    for _ in range(steps):
        positions = draft.put(agent(way.act(choices)))
        seen = choices.observation()
        if not framed and not seen.strip():
            seen = "nothing"
        positions += draft.put(user(way.seen(seen)))
        draft.closed.append(tuple(positions))
        draft.called()
        if framed and choices.rarely():
            # The agent answers, the user asks for more.
            draft.put(agent(f"Well. {choices.words()}"), user(f"Please: {choices.words()}"))
            draft.called()
        elif framed and choices.rarely() and not alternate:
            draft.put(user(f"Please: {choices.words()}"))
            draft.called()
    if choices.rarely():
        draft.put(agent("Thought: nearly done\nAction:"))

"""Few-shot examples as chat turns.

A small model that got its examples as text walked back and forth between two places; given them
as turns it won a game (lab/notebook/2026-11.md). They are added after the method has run, so a
method never sees the steps of an example.
"""

from dataclasses import dataclass
from typing import Any

from agora_lab.agents.base import Answer, Backbone, Messages
from agora_lab.chats import text_of

ANOTHER = "Another task."
"""Separates the end of an example from the next task."""
_ACTION = ("> ", "Action: ")
_EXAMPLE = ("example", "an example", "another example")


@dataclass(frozen=True, slots=True)
class WithExamples:
    """A backbone that is shown examples before each conversation."""

    backbone: Backbone
    examples: str

    def answer(self, messages: Messages) -> Answer:
        """Return the answer to the examples and these messages."""
        return self.backbone.answer(with_examples(messages, self.examples))


def with_examples(messages: Messages, examples: str) -> Messages:
    r"""Insert the examples as turns after the instructions.

    >>> messages = with_examples(
    ...     [{"role": "system", "content": "Act."}, {"role": "user", "content": "Find it."}],
    ...     "Example 1\nFind the mug.\n> look\nA mug.",
    ... )
    >>> [message["content"] for message in messages]
    ['Act.', 'Find the mug.', 'look', 'A mug.\n\nAnother task.\n\nFind it.']
    """
    turns = example_turns(examples)
    start = 1 if messages and messages[0]["role"] == "system" else 0
    if not turns or start == len(messages):
        return messages
    opening = messages[start]
    text = f"{ANOTHER}\n\n{text_of(opening)}"
    if turns[-1]["role"] == opening["role"]:
        text = f"{turns.pop()['content']}\n\n{text}"
    return [*messages[:start], *turns, {**opening, "content": text}, *messages[start + 1 :]]


def example_turns(examples: str) -> list[dict[str, Any]]:
    """Read examples written as text as user and assistant turns.

    An example begins after a line that opens with "Example" or "An example". Text before the
    first is dropped. A line that opens with ">" or "Action:" is an action; the observation
    follows it.
    """
    turns: list[tuple[str, list[str]]] = []
    begun = empty = False
    for line in examples.splitlines():
        if line.lower().startswith(_EXAMPLE):
            if turns:
                _lines(turns, "user").extend(("", ANOTHER, ""))
            begun = empty = True
            continue
        if not begun or (empty and not line):
            continue
        empty = False
        mark = next((mark for mark in _ACTION if line.startswith(mark)), None)
        if mark is None:
            _lines(turns, "user").append(line)
        else:
            turns.append(("assistant", [line.removeprefix(mark)]))
    return [{"role": role, "content": "\n".join(lines).strip()} for role, lines in turns]


def _lines(turns: list[tuple[str, list[str]]], role: str) -> list[str]:
    """Return the lines of the last turn if it has that role, or of a new turn."""
    if not turns or turns[-1][0] != role:
        turns.append((role, []))
    return turns[-1][1]

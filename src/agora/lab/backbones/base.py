"""What the lab asks of whatever decides on the next action."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

Messages = Sequence[Mapping[str, Any]]
"""Chat messages: system, then user and assistant by turns; an observation is a user message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a backbone said, and what it cost."""

    text: str
    input_tokens: int = 0
    """As the backbone counted them; 0 where it counts none."""
    output_tokens: int = 0
    cached_tokens: int = 0
    """Of the input, what the server says it had read before."""
    finish: str = ""
    """Why it ended, as the server says it: `length` when it was cut off; empty where none says."""


class Backbone(Protocol):
    """Decides on the next action from a prompt, and from nothing else."""

    def answer(self, messages: Messages) -> Answer:
        """Return what it says to these messages."""
        ...


@runtime_checkable
class Chooser(Protocol):
    """Decides on the next action within what a grammar allows."""

    def choose(self, messages: Messages, grammar: str) -> Answer:
        """Return what it says to these messages if it can say nothing else."""
        ...


def prompt_text(messages: Messages) -> str:
    """Return the messages as the text that readers and text-level methods see.

    Each message is a block that opens with its role in brackets on a line of
    its own. Parts of a message that are lists of texts are put under each other.

    >>> print(prompt_text([{"role": "user", "content": "find it"}]))
    [USER]
    find it
    """
    return "\n\n".join(
        f"[{str(message['role']).upper()}]\n{content_text(message['content'])}"
        for message in messages
    )


def content_text(content: Any) -> str:
    """Return the text of a message's content, whether it is a text or a list of parts."""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content or ())

"""The protocol of a backbone, which decides on an agent's next action."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agora_lab.chats import message_text
from agora_lab.errors import ProblemError

Messages = Sequence[Mapping[str, Any]]
"""Chat messages: system, then alternating user and assistant; observations are user messages."""
_ROLE = re.compile(r"^\[(SYSTEM|USER|ASSISTANT|TOOL)\]$", re.MULTILINE)


class BackboneError(ProblemError):
    """A backbone that gave no usable answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A backbone's answer, and its cost."""

    text: str
    input_tokens: int = 0
    """As counted by the backbone; 0 if it counts none."""
    output_tokens: int = 0
    cached_tokens: int = 0
    """The part of the input that the server reports as cached."""
    finish: str = ""
    """The finish reason reported by the server: `length` if truncated; empty if unknown."""


class Backbone(Protocol):
    """Decides on the next action from the prompt alone."""

    def answer(self, messages: Messages) -> Answer:
        """Return the answer to these messages."""
        ...


def prompt_text(messages: Messages) -> str:
    """Write messages as the text that scripted agents and text-level methods see.

    Each message is a block that opens with its role in brackets on its own line.
    Text parts of a message are joined by newlines. Tool calls follow, a line each.

    >>> print(prompt_text([{"role": "user", "content": "find it"}]))
    [USER]
    find it
    """
    return "\n\n".join(
        f"[{str(message['role']).upper()}]\n{message_text(message)}" for message in messages
    )


def prompt_blocks(prompt: str) -> Iterator[tuple[str, str]]:
    r"""Yield role and text of each non-empty block of a `prompt_text`.

    Text before the first role belongs to the user.

    >>> list(prompt_blocks("[USER]\nfind it\n\n[ASSISTANT]\nlook"))
    [('USER', 'find it'), ('ASSISTANT', 'look')]
    """
    role, start = "USER", 0
    for heading in _ROLE.finditer(prompt):
        if text := prompt[start : heading.start()].strip():
            yield role, text
        role, start = heading[1], heading.end()
    if text := prompt[start:].strip():
        yield role, text

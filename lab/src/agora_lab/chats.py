"""A chat of an agent that acts by text, read as a task and the steps taken since."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from agora.core.budget import Budget
from agora.core.tokens import MESSAGE_TOKENS, EstimatedTokens, TokenCounter
from agora.paper import marker

Message = Mapping[str, Any]
Messages = Sequence[Message]

K_RECENT = 2
"""How many of the newest steps a floor keeps, as in the paper."""
COUNTER: TokenCounter = EstimatedTokens()
"""The default token counter: AGORA's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatStep:
    """What the agent said, and what it then observed."""

    number: int
    """Its number in the chat, from 1, as in AGORA."""
    messages: tuple[Message, ...]
    """The assistant's message and all messages before the next one, usually one from the user."""
    action: str
    observation: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """An agent's instructions and task, and its steps. The newest holds what it must act on."""

    preamble: tuple[Message, ...]
    """Everything before the first assistant message: instructions and task."""
    preamble_tokens: int
    steps: tuple[ChatStep, ...]

    @property
    def tokens(self) -> int:
        """The whole prompt."""
        return self.preamble_tokens + sum(step.tokens for step in self.steps)

    @property
    def task(self) -> str:
        """The first user message."""
        return next((text_of(m) for m in self.preamble if m.get("role") == "user"), "")

    def floor(self, k_recent: int = K_RECENT) -> range:
        """Return the numbers of the newest steps, which are kept; always at least one."""
        return range(max(1, len(self.steps) - max(k_recent, 1) + 1), len(self.steps) + 1)

    def room(self, keep_ratio: float, k_recent: int = K_RECENT) -> int:
        """Return the token budget of the shortened prompt, as `keep_ratio` defines it here.

        It is a share of the whole prompt, instructions included. A prompt whose floor
        (preamble and newest steps) is large relative to the rest keeps the floor and
        a fifth of the rest instead. This equals AGORA's own budget, so methods with
        the same `keep_ratio` are compared at the same size.
        """
        floor = self.preamble_tokens + sum(self.steps[n - 1].tokens for n in self.floor(k_recent))
        return Budget(keep_ratio=keep_ratio).of(self.tokens, floor=floor)

    def keep(self, numbers: Collection[int]) -> list[Message]:
        """Return the messages with only these steps, and the paper's marker in place of others.

        A marker is appended to the message before the gap. If that message is not an
        observation, the marker is a separate user message.
        """
        messages = list(self.preamble)
        run = 0
        for step in self.steps:
            if step.number not in numbers:
                run += 1
                continue
            if run:
                append(messages, marker(run))
                run = 0
            messages += step.messages
        if run:
            append(messages, marker(run))
        return messages


def read(messages: Messages, counter: TokenCounter = COUNTER) -> Chat:
    """Return the chat in `messages`. Any messages can be read.

    >>> chat = read([
    ...     {"role": "system", "content": "You act in a house."},
    ...     {"role": "user", "content": "Find the key."},
    ...     {"role": "assistant", "content": "open box 1"},
    ...     {"role": "user", "content": "In it: key 7."},
    ... ])
    >>> [(step.action, step.observation) for step in chat.steps]
    [('open box 1', 'In it: key 7.')]
    """
    preamble, turns = split(messages)
    steps = [_step(number, turn, counter) for number, turn in enumerate(turns, start=1)]
    return Chat(
        preamble=preamble,
        preamble_tokens=tokens_of(preamble, counter),
        steps=tuple(steps),
    )


def split(messages: Messages) -> tuple[tuple[Message, ...], list[Messages]]:
    """Return what comes before the first step, and the messages of each step.

    A step is what the assistant said and everything before it spoke again.
    """
    starts = [at for at, message in enumerate(messages) if message.get("role") == "assistant"]
    first = starts[0] if starts else len(messages)
    turns = [messages[start:end] for start, end in pairwise([*starts, len(messages)])]
    return tuple(messages[:first]), turns


def tokens_of(messages: Sequence[Message], counter: TokenCounter = COUNTER) -> int:
    """Return the token count of the messages."""
    return sum(MESSAGE_TOKENS + counter.count(text_of(message)) for message in messages)


def text_of(message: Message) -> str:
    """Return the text of a message, whatever its content; empty if it has none."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
    return "\n".join(text for text in texts if isinstance(text, str))


def with_text(message: Message, text: str) -> Message:
    """Return the message with another text."""
    return {**message, "content": text}


def append(messages: list[Message], text: str) -> None:
    """Append text to the last message, or as a new one if that is not a user message."""
    if messages and messages[-1].get("role") == "user":
        own = text_of(messages[-1])
        messages[-1] = with_text(messages[-1], f"{own}\n\n{text}" if own else text)
    else:
        messages.append({"role": "user", "content": text})


def _step(number: int, messages: Sequence[Message], counter: TokenCounter) -> ChatStep:
    return ChatStep(
        number=number,
        messages=tuple(messages),
        action=text_of(messages[0]),
        observation="\n".join(text_of(message) for message in messages[1:]),
        tokens=tokens_of(messages, counter),
    )

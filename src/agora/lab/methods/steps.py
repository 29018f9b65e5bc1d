"""A chat of an agent that acts by text, read as a task and the steps taken since."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from agora.core.budget import Budget
from agora.core.elide import PaperMarkers
from agora.core.tokens import MESSAGE_TOKENS, EstimatedTokens, TokenCounter
from agora.lab.methods.base import Messages

Message = Mapping[str, Any]

K_RECENT = 2
"""How many of the newest steps a floor keeps, as in the paper."""
COUNTER: TokenCounter = EstimatedTokens()
"""What counts where a method is given no counter: what AGORA counts with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatStep:
    """What the agent said, and what it observed then."""

    number: int
    """Its place in the chat, from 1, the same as in AGORA."""
    messages: tuple[Message, ...]
    """The assistant's message, then what came before the next one: most often one user message."""
    action: str
    observation: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """What an agent was told and asked, and its steps. The newest holds what it has to act on."""

    preamble: tuple[Message, ...]
    """All before the first assistant message: instructions, and the task."""
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

    @property
    def past(self) -> tuple[Message, ...]:
        """The messages that text-level methods may change: all but preamble and `pending`."""
        messages = [message for step in self.steps for message in step.messages]
        return tuple(messages[: len(messages) - len(self.pending)])

    @property
    def pending(self) -> tuple[Message, ...]:
        """What the agent has to act on: the last message, if the agent did not say it."""
        return self.steps[-1].messages[1:][-1:] if self.steps else ()

    def floor(self, k_recent: int = K_RECENT) -> range:
        """Return the numbers of the newest steps, which stay; never less than the newest one."""
        return range(max(1, len(self.steps) - max(k_recent, 1) + 1), len(self.steps) + 1)

    def room(self, keep_ratio: float, k_recent: int = K_RECENT) -> int:
        """Return how many tokens the shortened prompt may have: what `keep_ratio` means here.

        It is a share of the whole prompt, instructions included. A prompt whose
        floor (preamble and newest steps) is large beside the rest keeps the
        floor and a fifth of the rest instead. That is the number of tokens that
        AGORA's own budget gives, so methods with one `keep_ratio` are compared
        at one size.
        """
        floor = self.preamble_tokens + sum(self.steps[n - 1].tokens for n in self.floor(k_recent))
        return Budget(keep_ratio=keep_ratio).of(self.tokens, floor=floor)

    def rate(self, keep_ratio: float, counter: TokenCounter = COUNTER) -> float:
        """Return which share of the past's text has to stay for the prompt to have its room.

        It is for methods that shorten each message by itself: what frames the
        messages comes on top, so they keep a little more than the room.
        """
        past = tokens_of(self.past, counter)
        room = self.room(keep_ratio) - self.preamble_tokens - tokens_of(self.pending, counter)
        return min(max(room / past, 0.01), 1.0) if past else 1.0

    def after(self, number: int) -> "Chat":
        """Return the chat as it was after so many steps."""
        return replace(self, steps=self.steps[:number])

    def keep(self, numbers: Collection[int]) -> list[Message]:
        """Return the messages with these steps only, and the paper's marker where others were.

        A marker is put at the end of the message before the run. Where that is
        none that the agent observed, it is a user message of its own.
        """
        messages = list(self.preamble)
        run: list[tuple[int, str]] = []
        for step in self.steps:
            if step.number not in numbers:
                run.append((step.number, ""))
                continue
            if run:
                append(messages, PaperMarkers().run(run))
                run = []
            messages += step.messages
        if run:
            append(messages, PaperMarkers().run(run))
        return messages


def read(messages: Messages, counter: TokenCounter = COUNTER) -> Chat:
    """Return the chat in `messages`. There is none that cannot be read.

    >>> chat = read([
    ...     {"role": "system", "content": "You act in a house."},
    ...     {"role": "user", "content": "Find the key."},
    ...     {"role": "assistant", "content": "open box 1"},
    ...     {"role": "user", "content": "In it: key 7."},
    ... ])
    >>> [(step.action, step.observation) for step in chat.steps]
    [('open box 1', 'In it: key 7.')]
    """
    starts = [at for at, message in enumerate(messages) if message.get("role") == "assistant"]
    first = starts[0] if starts else len(messages)
    steps = [
        _step(number, messages[start:end], counter)
        for number, (start, end) in enumerate(pairwise([*starts, len(messages)]), start=1)
    ]
    preamble = tuple(messages[:first])
    return Chat(
        preamble=preamble,
        preamble_tokens=tokens_of(preamble, counter),
        steps=tuple(steps),
    )


def tokens_of(messages: Sequence[Message], counter: TokenCounter = COUNTER) -> int:
    """Return what the messages cost."""
    return sum(MESSAGE_TOKENS + counter.count(text_of(message)) for message in messages)


def text_of(message: Message) -> str:
    """Return the text of a message, whatever its content is; empty where it has none."""
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
    """Put a text at the end of the last message, or behind it if that is no user message."""
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

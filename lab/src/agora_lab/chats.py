"""An agent's chat read as fixed messages and steps.

An agent acts by text or by tool calls. By text, a step is an assistant message and everything
before the next one. With tool calls, a step is an assistant message that calls tools, and their
results; what the user and the assistant say in between is fixed and always sent.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from agora import EstimatedTokens, TokenCounter
from agora.paper import marker

Message = Mapping[str, Any]
Messages = Sequence[Message]

K_RECENT = 2
"""How many of the newest steps a floor keeps, as in the paper."""
COUNTER: TokenCounter = EstimatedTokens()
"""The default token counter: AGORA's own."""
_MESSAGE_TOKENS = 4
_CALL_TOKENS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatStep:
    """An action of the agent and the observation after it."""

    number: int
    """Its number in the chat, from 1, as in AGORA."""
    start: int
    end: int
    """Its messages are `chat.messages[start:end]`; the first is the assistant's."""
    action: str
    observation: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """An agent's messages and the steps in them. The newest step has the current observation."""

    messages: Messages
    steps: tuple[ChatStep, ...]
    calls: bool
    """True if the agent acts by tool calls."""
    tokens: int
    """The whole prompt."""
    counter: TokenCounter

    @property
    def preamble(self) -> Messages:
        """Everything before the first step: instructions and task."""
        return self.messages[: self.steps[0].start] if self.steps else self.messages

    @property
    def task(self) -> str:
        """The first user message."""
        return next((text_of(m) for m in self.preamble if m.get("role") == "user"), "")

    def floor(self, k_recent: int = K_RECENT) -> range:
        """Return the numbers of the newest steps, which are kept; always at least one."""
        return range(max(1, len(self.steps) - max(k_recent, 1) + 1), len(self.steps) + 1)

    def floor_tokens(self, k_recent: int = K_RECENT) -> int:
        """Return the tokens that every method with a floor sends."""
        recent = self.floor(k_recent)
        return self.tokens - sum(step.tokens for step in self.steps if step.number not in recent)

    def room(self, keep_ratio: float, share: float | None = None, k_recent: int = K_RECENT) -> int:
        """Return the token budget of a shortened prompt.

        `keep_ratio` is a share of the whole prompt, as in the paper. `share`, if given, is a
        share of what lies outside the floor instead.
        """
        if share is None:
            return int(keep_ratio * self.tokens)
        floor = self.floor_tokens(k_recent)
        return int(floor + share * (self.tokens - floor))

    def keep(self, numbers: Collection[int]) -> list[Message]:
        """Return the messages with only these steps, and the paper's marker in place of others.

        A marker is appended to the message before the gap, if that is an observation.
        """
        return self.replaced({}, [s.number for s in self.steps if s.number not in numbers])

    def replaced(self, changes: Mapping[int, Message], gone: Collection[int] = ()) -> list[Message]:
        """Return the messages with some changed, by place, and without the steps in `gone`."""
        messages: list[Message] = []
        omitted = 0
        starts = {step.start: step for step in self.steps if step.number in gone}
        until = 0
        for at, message in enumerate(self.messages):
            if at in starts:
                omitted += 1
                until = starts[at].end
            if at < until:
                continue
            if omitted:
                append(messages, marker(omitted))
                omitted = 0
            messages.append(changes.get(at, message))
        if omitted:
            append(messages, marker(omitted))
        return messages

    def observations(self, step: ChatStep) -> Iterator[int]:
        """Yield the places of a step's observations."""
        role = "tool" if self.calls else "user"
        for at in range(step.start + 1, step.end):
            if self.messages[at].get("role") == role:
                yield at

    def masked(self, step: ChatStep, text: str) -> dict[int, Message]:
        """Return a step's observations replaced by a text, by place, where that is shorter."""
        least = self.counter.count(text)
        return {
            at: with_text(self.messages[at], text)
            for at in self.observations(step)
            if self.counter.count(text_of(self.messages[at])) > least
        }

    def saved(self, changes: Mapping[int, Message]) -> int:
        """Return the tokens saved by these changed messages."""
        new = tokens_of(list(changes.values()), self.counter)
        return tokens_of([self.messages[at] for at in changes], self.counter) - new


def read(messages: Messages, counter: TokenCounter = COUNTER) -> Chat:
    """Read the chat in `messages`. Any messages can be read.

    >>> chat = read([
    ...     {"role": "system", "content": "You act in a house."},
    ...     {"role": "user", "content": "Find the key."},
    ...     {"role": "assistant", "content": "open box 1"},
    ...     {"role": "user", "content": "In it: key 7."},
    ... ])
    >>> [(step.action, step.observation) for step in chat.steps]
    [('open box 1', 'In it: key 7.')]
    """
    calls = any(message.get("tool_calls") for message in messages)
    spans = list(_calling(messages) if calls else _acting(messages))
    steps = tuple(
        ChatStep(
            number=number,
            start=start,
            end=end,
            action=message_text(messages[start]),
            observation="\n".join(text_of(message) for message in messages[start + 1 : end]),
            tokens=tokens_of(messages[start:end], counter),
        )
        for number, (start, end) in enumerate(spans, start=1)
    )
    return Chat(
        messages=messages,
        steps=steps,
        calls=calls,
        tokens=tokens_of(messages, counter),
        counter=counter,
    )


def _acting(messages: Messages) -> Iterator[tuple[int, int]]:
    """Yield start and end of the steps of an agent that acts by text."""
    starts = [at for at, message in enumerate(messages) if message.get("role") == "assistant"]
    yield from pairwise([*starts, len(messages)])


def _calling(messages: Messages) -> Iterator[tuple[int, int]]:
    """Yield start and end of the steps of an agent that calls tools."""
    for start, message in enumerate(messages):
        if message.get("tool_calls"):
            end = start + 1
            while end < len(messages) and messages[end].get("role") == "tool":
                end += 1
            yield start, end


def split(messages: Messages) -> tuple[Messages, list[Messages]]:
    """Return the messages before the first step, and those of each step of a text agent."""
    spans = list(_acting(messages))
    first = spans[0][0] if spans else len(messages)
    return messages[:first], [messages[start:end] for start, end in spans]


def tokens_of(messages: Messages, counter: TokenCounter = COUNTER) -> int:
    """Count the tokens of messages, with those of their frames."""
    return sum(
        _MESSAGE_TOKENS
        + _CALL_TOKENS * len(message.get("tool_calls") or ())
        + counter.count(message_text(message))
        for message in messages
    )


def message_text(message: Message) -> str:
    """Return a message's text, then its tool calls, a line each."""
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    lines = [text_of(message), *(f"{call['name']} {call['arguments']}" for call in calls)]
    return "\n".join(line for line in lines if line)


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
    """Append text to the last message if it is an observation, or as a new user message."""
    if messages and messages[-1].get("role") in ("user", "tool"):
        own = text_of(messages[-1])
        messages[-1] = with_text(messages[-1], f"{own}\n\n{text}" if own else text)
    else:
        messages.append({"role": "user", "content": text})

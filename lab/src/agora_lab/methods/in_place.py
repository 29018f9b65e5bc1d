"""Chats whose old results are replaced where they stand, in tool calls as in text.

The product's own parser says which message is whose: what a user says between tool calls
is never taken for an observation.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agora import validate
from agora.adapters import Parsed, format_named, parse
from agora.core.budget import Budget
from agora.core.floor import floor
from agora.core.recall import recalled
from agora.core.renditions.gone import gone as nothing
from agora.core.renditions.markers import FormMarkers
from agora.core.request import Observations, Request
from agora.core.tokens import CALL_TOKENS, MESSAGE_TOKENS, TokenCounter
from agora.scorers.atoms import act
from agora_lab.chats import COUNTER, K_RECENT, text_of
from agora_lab.methods.base import Messages, Shortened

MASK = "[old observation left out]"
NOTE = "[output removed to save space]"
_ILLEGAL = "no provider would take these messages"
Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Places:
    """A chat, its steps, and what of it is the floor."""

    parsed: Parsed
    held: Collection[int]
    counter: TokenCounter

    @classmethod
    def of(
        cls,
        messages: Messages,
        *,
        observations: Observations | None,
        counter: TokenCounter = COUNTER,
        k_recent: int = K_RECENT,
    ) -> "Places":
        """Return where the steps of a chat in OpenAI's format lie."""
        request = Request(messages=list(messages), format="openai", observations=observations)
        parsed = parse(request, counter)
        steps = parsed.trajectory.steps
        held = floor(steps, k_recent=k_recent, recalled=recalled(steps))
        return cls(parsed, held.keys(), counter)

    @property
    def outside(self) -> list[int]:
        """The numbers of the steps outside the floor, oldest first."""
        steps = self.parsed.trajectory.steps
        return [step.number for step in steps if step.number not in self.held]

    @property
    def floor_tokens(self) -> int:
        """What is sent in any case."""
        steps = self.parsed.trajectory.steps
        outside = sum(steps[number - 1].tokens for number in self.outside)
        return self.parsed.trajectory.tokens - outside

    def room(self, share: float) -> int:
        """Return the tokens of a prompt that keeps this share of what is outside the floor."""
        whole = self.parsed.trajectory.tokens
        return int(self.floor_tokens + share * (whole - self.floor_tokens))

    def replaced(self, number: int, text: str) -> dict[int, Message]:
        """Return the results of a step with another text, by place, where that is shorter."""
        least = self.counter.count(text)
        return {
            at: {**self.parsed.messages[at], "content": text}
            for at, owner in enumerate(self.parsed.owners)
            if owner == -number and self.counter.count(text_of(self.parsed.messages[at])) > least
        }

    def commanded(self, number: int) -> dict[int, Message]:
        """Return the message of a step's action without what was thought aloud, by place."""
        step = self.parsed.trajectory.steps[number - 1]
        done = act(step)
        if step.calls or done == step.action:
            return {}
        at = self.parsed.owners.index(number)
        content = f"```bash\n{done}\n```" if "```" in step.action else done
        return {at: {**self.parsed.messages[at], "content": content}}

    def saved(self, changed: Mapping[int, Message]) -> int:
        """Return how many tokens shorter the prompt is with these messages changed."""
        messages = self.parsed.messages
        return sum(self._tokens(messages[at]) - self._tokens(new) for at, new in changed.items())

    def written(self, changed: Mapping[int, Message], gone: Collection[int] = ()) -> list[Any]:
        """Return the messages with some changed, and without the steps in `gone`."""
        messages = [changed.get(at, one) for at, one in enumerate(self.parsed.messages)]
        if not gone:
            return messages
        edited = replace(self.parsed, messages=messages)
        elided = {number: nothing(number) for number in gone}
        return list(format_named("openai").adapter.render(edited, elided, FormMarkers()).messages)

    def _tokens(self, message: Message) -> int:
        calls = message.get("tool_calls") or ()
        texts = [call["function"]["name"] + call["function"]["arguments"] for call in calls]
        called = sum(CALL_TOKENS + self.counter.count(text) for text in texts)
        return MESSAGE_TOKENS + self.counter.count(text_of(message)) + called


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """Keeps the floor and the newest steps that fit: what a scorer has to beat at its size."""

    share: float | None = None
    """Of the tokens outside the floor; without it `keep_ratio` counts."""
    keep_ratio: float = 0.25
    k_recent: int = K_RECENT
    observations: Observations | None = "user"
    counter: TokenCounter = COUNTER

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages without the steps that do not fit."""
        if validate(messages, format="openai"):
            return Shortened(messages=messages, detail=_ILLEGAL)
        places = Places.of(
            messages,
            observations=self.observations,
            counter=self.counter,
            k_recent=self.k_recent,
        )
        tokens, floor = places.parsed.trajectory.tokens, places.floor_tokens
        room = Budget(keep_ratio=self.keep_ratio).of(tokens, floor=floor)
        if self.share is not None:
            room = places.room(self.share)
        gone = []
        for number in reversed(places.outside):
            size = places.parsed.trajectory.steps[number - 1].tokens
            if floor + size <= room:
                floor += size
            else:
                gone.append(number)
        if not gone or tokens <= room:
            return Shortened(messages=messages, detail="there is nothing that has to go")
        return Shortened(messages=places.written({}, gone))


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskResults:
    """Masks the oldest results until the prompt fits; all actions stay.

    As `ObservationMask`, for any chat. A small share may not be reached.
    """

    share: float = 0.25
    """Of the tokens outside the floor."""
    observations: Observations | None = "user"
    counter: TokenCounter = COUNTER

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with old results masked."""
        if validate(messages, format="openai"):
            return Shortened(messages=messages, detail=_ILLEGAL)
        places = Places.of(messages, observations=self.observations, counter=self.counter)
        masked = oldest(places, self.share, MASK)
        if not masked:
            return Shortened(messages=messages, detail="every result fits")
        return Shortened(messages=places.written(masked))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandsFirst:
    """Keeps what was done at every step, then the newest results that fit.

    Outside the floor a step is at least its command or its calls with a short note in place of
    each result; what was thought aloud goes. Where not even that fits, the oldest steps go.
    """

    share: float = 0.25
    """Of the tokens outside the floor."""
    observations: Observations | None = "user"
    counter: TokenCounter = COUNTER

    def shorten(self, messages: Messages) -> Shortened:
        """Return the messages with every command and some results."""
        if validate(messages, format="openai"):
            return Shortened(messages=messages, detail=_ILLEGAL)
        places = Places.of(messages, observations=self.observations, counter=self.counter)
        steps = places.parsed.trajectory.steps
        room = places.room(self.share) - places.floor_tokens
        changes: dict[int, dict[int, Message]] = {}
        costs: dict[int, int] = {}
        for number in places.outside:
            changes[number] = places.replaced(number, NOTE) | places.commanded(number)
            costs[number] = steps[number - 1].tokens - places.saved(changes[number])
        spent = sum(costs.values())
        gone = []
        for number in places.outside:
            if spent <= room:
                break
            gone.append(number)
            spent -= costs[number]
        for number in reversed(places.outside):
            more = steps[number - 1].tokens - costs[number]
            if number not in gone and spent + more <= room:
                spent += more
                changes[number] = {}
        changed = {at: new for one in changes.values() for at, new in one.items()}
        if not changed and not gone:
            return Shortened(messages=messages, detail="everything fits")
        return Shortened(messages=places.written(changed, gone))


def oldest(places: Places, share: float, mask: str) -> dict[int, Message]:
    """Return the oldest results outside the floor, masked, as many as have to be."""
    masked: dict[int, Message] = {}
    excess = places.parsed.trajectory.tokens - places.room(share)
    for number in places.outside:
        if excess <= 0:
            break
        changed = places.replaced(number, mask)
        excess -= places.saved(changed)
        masked |= changed
    return masked


def kept_results(places: Places, masked: Mapping[int, Message]) -> int:
    """Return how many of the newest results come after the last masked one."""
    results = [at for at, owner in enumerate(places.parsed.owners) if owner < 0]
    return sum(at > max(masked, default=-1) for at in results)


def has_calls(messages: Sequence[Message]) -> bool:
    """Tell whether an agent acts by tool calls."""
    return any(message.get("tool_calls") for message in messages)

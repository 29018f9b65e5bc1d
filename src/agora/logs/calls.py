"""Logged calls, grouped into the trajectories they belong to.

A log of calls holds each trajectory many times over: every call sends all messages so far. A call
whose messages extend those of an earlier one continues its trajectory; any other call opens a new
one. Only the newest messages of a trajectory are in memory, and only a limited number of open
trajectories.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from agora.core.request import Observations
from agora.formats import formats
from agora.formats.cache_ttl import MARKS
from agora.formats.usage import Usage
from agora.logs.recording import Recording, Tally, complete, rising

MAX_OPEN = 1_000
MAX_OPEN_BYTES = 64 << 20
"""Of the log's own text. Above either limit the conversation idle longest counts as finished."""


@dataclass(slots=True, kw_only=True)
class LoggedCall:
    """One call as a log has it."""

    format: str
    messages: list[Any]
    size: int
    """How many bytes the messages took in the log, about."""
    system: object = None
    tools: object = None
    model: str | None = None
    observations: Observations | None = None
    thinking: bool | None = None
    answer: list[Any] = field(default_factory=list)
    """The model's answer, as messages of the same format."""
    answer_id: str = ""
    previous_id: str = ""
    """The answer that these messages continue, when the provider holds the earlier ones."""
    usage: Usage | None = None
    """The provider's usage for this call."""
    whole_usage: tuple[Usage, ...] = ()
    """The usage of every call, where the log has a finished conversation in one record."""
    at_seconds: float | None = None
    trace: str = ""
    """The log's own id for calls that belong together. Two trajectories may share it."""
    task: str = ""


@dataclass(slots=True)
class _Open:
    """A trajectory that may continue."""

    number: int
    last: LoggedCall
    chain: int
    calls: list[int]
    usage: list[Usage | None]
    at_seconds: list[float | None]


class Grouping:
    """Groups calls, given in the order they were made, into recordings."""

    def __init__(self, name: str, tally: Tally) -> None:
        self._name = name
        self._tally = tally
        self._opened = 0
        self._bytes = 0
        self._open: dict[int, _Open] = {}
        """By number, the longest idle first."""
        self._ends: dict[int, list[int]] = {}
        """The numbers of the open trajectories, by the chained hash of all messages they sent."""
        self._answers: dict[str, int] = {}

    def add(self, call: LoggedCall, where: str) -> Iterator[Recording]:
        """Add a call, and yield the recordings that had to make room for it."""
        if not call.messages:
            self._tally.refuse(where, "is a call without messages")
            return
        if not all(type(message) is dict for message in call.messages):
            self._tally.refuse(where, "holds a message that is not an object")
            return
        earlier = self._server_side(call)
        if call.previous_id and earlier is None:
            self._tally.refuse(
                where, "continues a response that is not in the log, so its prompt is not known"
            )
            return
        try:
            chains = _chains(call)
        except RecursionError:
            self._tally.refuse(where, "is nested too deeply")
            return
        if earlier is None:
            earlier = self._extended(call, chains)
        if earlier is None:
            self._opened += 1
            earlier = _Open(self._opened, call, chains[-1], [], [], [])
        else:
            self._forget(earlier)
            if not call.task:
                call.task = earlier.last.task
            earlier.last, earlier.chain = call, chains[-1]
        earlier.calls.append(len(call.messages))
        earlier.usage.append(call.usage)
        earlier.at_seconds.append(call.at_seconds)
        self._remember(earlier)
        while len(self._open) > MAX_OPEN or (self._bytes > MAX_OPEN_BYTES and len(self._open) > 1):
            oldest = next(iter(self._open.values()))
            self._forget(oldest)
            yield self._recording(oldest)

    def close(self) -> Iterator[Recording]:
        """Yield the trajectories still open, when there are no more calls."""
        for left in list(self._open.values()):
            self._forget(left)
            yield self._recording(left)

    def _server_side(self, call: LoggedCall) -> _Open | None:
        """Return the trajectory that a response id names; its messages go before the call's."""
        number = self._answers.get(call.previous_id) if call.previous_id else None
        if number is None:
            return None
        earlier = self._open[number]
        call.messages = [*earlier.last.messages, *earlier.last.answer, *call.messages]
        call.size += earlier.last.size
        return earlier

    def _extended(self, call: LoggedCall, chains: Sequence[int]) -> _Open | None:
        """Return the open trajectory with the longest messages that are a prefix of the call's."""
        for sent in range(len(chains) - 1, 0, -1):
            numbers = self._ends.get(chains[sent - 1])
            if numbers:
                found = [self._open[number] for number in numbers]
                return found[0] if len(found) == 1 else _likeliest(found, call, sent)
        return None

    def _remember(self, one: _Open) -> None:
        self._open[one.number] = one
        self._bytes += one.last.size
        self._ends.setdefault(one.chain, []).append(one.number)
        if one.last.answer_id:
            self._answers[one.last.answer_id] = one.number

    def _forget(self, one: _Open) -> None:
        del self._open[one.number]
        self._bytes -= one.last.size
        ends = self._ends[one.chain]
        ends.remove(one.number)
        if not ends:
            del self._ends[one.chain]
        if self._answers.get(one.last.answer_id) == one.number:
            del self._answers[one.last.answer_id]

    def _recording(self, one: _Open) -> Recording:
        last = one.last
        messages = last.messages
        whole = len(one.calls) == 1 and (
            bool(last.whole_usage) or (not last.answer and _by_agent(messages[-1]))
        )
        if last.answer and not any(map(_acts, last.answer)):
            # An answer that calls tools was never sent back with their results: it is not a step.
            messages = [*messages, *last.answer]
        return Recording(
            id=f"{last.trace or self._name}:{one.number}",
            format=last.format,
            messages=messages,
            system=last.system,
            tools=last.tools,
            thinking=last.thinking,
            model=last.model,
            observations=last.observations,
            # A finished conversation: each of its agent's messages was a call.
            calls=() if whole else tuple(one.calls),
            usage=last.whole_usage if whole else complete(one.usage),
            at_seconds=() if whole else rising(one.at_seconds),
            task=last.task or last.trace,
        )


def _likeliest(found: list[_Open], call: LoggedCall, sent: int) -> _Open:
    """Return the trajectory whose answer comes next, of several that sent the same messages."""
    said = _mark(call.messages[sent])
    best = found[-1]
    best_fit = -1
    for one in found:
        answers = one.last.answer
        fit = 2 * bool(answers and _mark(answers[0]) == said) + (one.last.trace == call.trace)
        if fit >= best_fit:
            best, best_fit = one, fit
    return best


def _chains(call: LoggedCall) -> list[int]:
    """Return for each message a hash of it and everything before it."""
    # Plain messages fit both other formats, but no item of Responses.
    chain = hash((call.format == "responses", _digest(call.system)))
    chains = []
    for message in call.messages:
        chain = hash((chain, _digest(message)))
        chains.append(chain)
    return chains


def _digest(value: Any) -> int:
    """Return a hash of a JSON value that ignores cache breakpoints.

    Clients move them from call to call, and write a text that has one as a block.
    """
    kind = type(value)
    if kind is str:
        return hash(value)
    if kind is dict:
        total = 0
        for key, item in value.items():
            if key not in MARKS:
                total ^= hash((key, hash(item) if type(item) is str else _digest(item)))
        return total
    if kind is list:
        if len(value) == 1 and type(value[0]) is dict and value[0].get("type") == "text":
            text = value[0].get("text")
            if type(text) is str:
                return hash(text)
        return hash(tuple(map(_digest, value)))
    return hash(value)


def _mark(message: Any) -> tuple[str, tuple[str, ...]]:
    """Return the identity of an answer: its text and the ids of its calls."""
    if not isinstance(message, dict):
        return "", ()
    texts: list[str] = []
    ids: list[str] = []
    content = message.get("content")
    if isinstance(content, str):
        texts.append(content)
    blocks = content if isinstance(content, list) else ()
    texts += [str(block.get("text", "")) for block in blocks if isinstance(block, dict)]
    for format in formats():
        ids += format.call_ids(message)
    return "\n".join(texts), tuple(ids)


def _by_agent(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") in ("assistant", "model")


def _acts(message: Any) -> bool:
    """Return True if a message of the agent calls a tool of the client."""
    return isinstance(message, dict) and any(one.calls_tools(message) for one in formats())

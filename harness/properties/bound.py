"""Conversations with models that bind thinking, played call by call before a provider that signs.

A drawn history is played as it would have come about: at each call what is sent is judged by
`harness.signing`, and the answer's thinking is signed for what was really sent. In between the
scorer fails, processes restart or take turns, shadow mode is switched, time runs out, settings
change. Whatever happens nothing that is sent may be refused in the end, and nothing of the user's
may be lost; where nothing happens, no thinking may be lost but what stood before an edit.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import msgspec

import agora
from agora import bound_thinking
from agora.compressor import Compressor
from agora.core.budget import Budget
from agora.core.prices import PriceSheet
from agora.core.schedule import Schedule
from agora.core.tokens import EstimatedTokens, TokenCounter
from agora.formats.thinking import is_thinking, thinks, without_thinking
from agora.scorers.recency import RecencyScorer
from agora.sent_thinking import SentThinking
from agora.service import Call, Edited, Service, Settings, route_of
from agora.service import Outcome as CallOutcome
from agora.service.edit import Editor
from agora.service.settings import CompressionSettings, Limits
from agora.service.workers import LateError
from agora.testing import FailingScorer
from harness.histories import EveryNth, RandomScorer
from harness.histories.choices import TAPE_BYTES
from harness.histories.history import History, Recipe, build
from harness.signing import Outcome, Signer

Json = dict[str, Any]
SignedFormat = Literal["anthropic", "bedrock"]
BOUND: Mapping[str, SignedFormat] = MappingProxyType(
    {"anthropic-bound": "anthropic", "bedrock-bound": "bedrock"}
)
"""The formats in which such conversations are played, by the name a run has for them."""
MODELS = ("claude-fable-5-1", "claude-opus-5-5", "claude-sonnet-5-5", "claude-nova-6")
_MOST_STEPS = 10
_EVENTS = ("scorer", "crash", "restart", "replica", "shadow", "version", "late", "own")
FORGETS = frozenset({"restart", "replica", "version"})
"""After these a process cannot know how the call before was sent."""
_SHEETS = tuple(
    PriceSheet(name="drawn", input=1.0, read=read, write=write, output=5.0)
    for read, write in ((0.1, 1.25), (0.5, 1.0), (0.05, 1.0), (0.25, 2.0))
)


_loop = asyncio.new_event_loop()


class BoundViolationError(AssertionError):
    """Something was refused, lost or kept that should not have been."""


class _CrashError(Exception):
    """What a crashing token counter raises."""


class _Crashing:
    """A token counter that raises."""

    def count(self, text: str) -> int:
        raise _CrashError


@dataclass(slots=True)
class Played:
    """What happened in one conversation."""

    calls: int = 0
    edits: int = 0
    """Calls that were sent edited."""
    answered: int = 0
    """Refusals that were answered by the same request without thinking."""
    blocks: int = 0
    """Thinking blocks in the client's messages, summed over the calls."""
    sent: int = 0
    could: int = 0
    """How many of them could have been sent: nothing had changed before them."""
    events: Counter[str] = field(default_factory=Counter)

    def figures(self) -> dict[str, int]:
        """Return what is summed up over conversations."""
        counts = {
            "calls": self.calls,
            "edited_calls": self.edits,
            "refusals_answered": self.answered,
            "blocks": self.blocks,
            "blocks_sent": self.sent,
            "blocks_that_could_be_sent": self.could,
        }
        return counts | {f"event_{name or 'none'}": n for name, n in self.events.items()}


@dataclass(slots=True)
class _Out:
    """What goes to the provider, and how it can be sent once more."""

    body: Json
    edit: Any = None
    """What tells its edit from others; None where it has none."""
    again: Any = None
    accepted: Any = None
    """Called once the provider took it."""


class _Library:
    """The library in a process, as `agora.wrap` uses it."""

    def __init__(self, play: "_Play") -> None:
        self.play = play
        self.memory = SentThinking()

    def send(self, messages: list[Json], event: str) -> _Out:
        play, history = self.play, self.play.history
        compressor = Compressor(
            scorer=FailingScorer(RuntimeError("no weights"))
            if event == "scorer"
            else RandomScorer(7),
            budget=Budget(keep_ratio=play.keep_ratio),
            k_recent=play.k_recent,
            schedule=play.schedule,
            min_tokens=0,
            sheet=play.sheet,
            counter=_Crashing() if event == "crash" else EstimatedTokens(),
            shadow=play.shadow,
        )

        def compressed() -> Any:
            bound_thinking._sent = self.memory
            return compressor.compress(messages, model=play.model, **history.request)

        found = compressed()

        def again() -> Json:
            bound_thinking._sent = self.memory
            bound_thinking.refused_thinking(messages, found)
            return play.body(compressed().messages)

        return _Out(
            play.body(found.messages),
            edit=(found.epoch, found.reason) if found.changed else None,
            again=again,
        )


class _Settings(Settings, frozen=True):
    """The settings of a service, with the parts of a conversation that no file can set."""

    play: Any = None
    fails: bool = False

    def sheet(self, model: str) -> PriceSheet:
        sheet: PriceSheet = self.play.sheet
        return sheet

    def compressor(
        self, sheet: PriceSheet | None = None, counter: TokenCounter | None = None
    ) -> Compressor:
        return Compressor(
            scorer=FailingScorer(RuntimeError("no weights")) if self.fails else RecencyScorer(),
            budget=Budget(keep_ratio=self.play.keep_ratio),
            k_recent=self.play.k_recent,
            min_tokens=0,
            sheet=sheet,
            counter=counter,
        )


class _Service:
    """The service in a process, as proxy and filter use it."""

    def __init__(self, play: "_Play") -> None:
        self.play = play
        limits = Limits(workers=0, deadline_ms=600_000)
        settings = _Settings(limits=limits, play=play, compression=CompressionSettings())
        self.service = Service(settings)
        self.failing = Editor(msgspec.structs.replace(settings, fails=True))
        self.editor = Editor(settings)
        self.service._workers.decide = self._decide  # type: ignore[method-assign]
        self.event = ""

    async def _decide(self, call: Call) -> Edited:
        if self.event in ("late", "crash"):
            raise LateError("late" if self.event == "late" else "failed")
        return (self.failing if self.event == "scorer" else self.editor).decide(call)

    def send(self, messages: list[Json], event: str) -> _Out:
        play, service, self.event = self.play, self.service, event
        path = "/v1/messages" if play.format == "anthropic" else f"/model/{play.model}/converse"
        route = route_of("POST", path)
        assert route is not None
        mode = "shadow" if play.shadow else "edit"
        service.settings = msgspec.structs.replace(service.settings, mode=mode)
        headers = {"authorization": "Bearer sk-test"}
        if event == "own":
            headers["x-agora-bypass"] = "1"
        bound_thinking._sent = SentThinking()
        call = service.receive(route, headers, json.dumps(play.body(messages)).encode())
        sent = _loop.run_until_complete(service.edit(call))

        def accepted() -> None:
            async def finish() -> None:
                service.finish(call, sent, CallOutcome(status=200))
                await asyncio.sleep(0)

            _loop.run_until_complete(finish())

        def again() -> Json | None:
            nonlocal sent
            refusal = b"Invalid `signature` in `thinking` block"
            retried = _loop.run_until_complete(service.rescue(call, sent, 400, refusal))
            sent = retried or sent
            return None if retried is None else json.loads(retried.body)

        key = None if sent.edit is None else sent.edit.key
        return _Out(json.loads(sent.body), edit=key, again=again, accepted=accepted)


class _Play:
    """One conversation: what is drawn of it, and what the provider has seen."""

    def __init__(self, format: SignedFormat, seed: int, outcome: Outcome) -> None:
        self.source = random.Random(f"bound {format} {seed}")
        source = self.source
        self.format = format
        self.history = _history(format, source)
        self.model = source.choice(MODELS)
        # A switch of the provider, not of the model: both outcomes for every model.
        self.signer = Signer(outcome=outcome)
        self.schedule: Schedule | Any = source.choice(
            ("by_price", "by_price", "by_price", "every_call", EveryNth(2), EveryNth(3))
        )
        self.sheet = source.choice(_SHEETS)
        self.keep_ratio = source.choice((0.0, 0.0, 0.25, 0.5))
        self.k_recent = source.choice((2, 2, 0, 1, 3))
        self.shadow = False
        self.through = source.choice(("library", "service"))
        self.disturbed = source.random() < 0.7
        self.played = Played()

    def body(self, messages: Any) -> Json:
        history = self.history
        if self.format == "anthropic":
            body: Json = {"model": self.model, "messages": messages}
            if history.tools:
                body["tools"] = history.tools
        else:
            body = {"messages": messages}
            if history.tools:
                body["toolConfig"] = history.tools
        if history.system:
            body["system"] = history.system
        return body

    def event(self) -> str:
        if not self.disturbed or self.source.random() < 0.7:
            return ""
        event = self.source.choice(_EVENTS)
        return event if self.through == "service" or event not in ("late", "own") else ""


def play(format: SignedFormat, seed: int, outcome: Outcome | None = None) -> Played:
    """Return what happened in the conversation that a seed gives.

    Every second seed is played before a provider that refuses, the others before one that drops.

    Raises:
        BoundViolationError: something did not hold.
    """
    play = _Play(format, seed, outcome or ("error" if seed % 2 else "drop"))
    door = _Library if play.through == "library" else _Service
    doors = [door(play)]
    at = 0
    client: list[Json] = []
    made: list[tuple[str, ...]] = []
    forgot = False
    edit, since = None, 0
    try:
        for message in [*play.history.messages, None]:
            acts = message is not None and message["role"] == "assistant"
            if (acts or message is None) and client and client[-1]["role"] != "assistant":
                event = play.event()
                play.played.events[event] += 1
                # A service reads its mode when it starts, so a switch restarts it.
                restarts = event == "shadow" and play.through == "service"
                forgot = forgot or event in FORGETS or restarts
                at = _disturb(play, doors, at, event)
                sent = _call(play, doors[at], client, event, forgot=forgot)
                _check_texts(play, client, sent)
                if sent.edit != edit or play.schedule == "every_call":
                    edit, since = sent.edit, len(made)
                _check_kept(play, client, sent, made, since)
                if message is not None:
                    message = _thought(play, sent, message, made)
            if message is not None:
                client.append(message)
    finally:
        bound_thinking._sent = SentThinking()
    return play.played


def _disturb(play: _Play, doors: list[Any], at: int, event: str) -> int:
    """Let something happen before a call, and return which process makes it."""
    if event == "restart":
        doors[at] = type(doors[at])(play)
    elif event == "replica":
        doors.append(type(doors[0])(play))
        at = play.source.randrange(len(doors))
    elif event == "shadow":
        play.shadow = not play.shadow
        if play.through == "service":
            doors[at] = type(doors[at])(play)
    elif event == "version":
        play.keep_ratio = play.source.choice((0.0, 0.1, 0.3, 0.6))
        doors[at] = type(doors[at])(play)
    return at


def _call(play: _Play, door: Any, client: list[Json], event: str, *, forgot: bool) -> "_Sent":
    """Send a call, once more without thinking if that is refused, and return what was taken."""
    played = play.played
    played.calls += 1
    out = door.send(client, event)
    received = _receive(play, out.body)
    if received.refusal:
        if "bound to a different conversation" not in received.refusal:
            raise BoundViolationError(f"refused for another reason: {received.refusal}")
        if not forgot:
            raise BoundViolationError(f"refused though nothing was forgotten: {received.refusal}")
        played.answered += 1
        body = out.again()
        if body is None:
            raise BoundViolationError("there was nothing to answer a refusal with")
        out.body = body
        received = _receive(play, body)
        if received.refusal:
            raise BoundViolationError(f"refused twice: {received.refusal}")
    elif received.invalid and not forgot:
        raise BoundViolationError(f"{len(received.invalid)} blocks did not hold and were sent")
    played.edits += out.edit is not None
    if out.accepted is not None:
        out.accepted()
    return _Sent(out.body, out.edit)


@dataclass(frozen=True, slots=True)
class _Sent:
    body: Json
    edit: Any

    @property
    def messages(self) -> list[Json]:
        return self.body["messages"]  # type: ignore[no-any-return]


def _receive(play: _Play, body: Json) -> Any:
    return play.signer.receive(body, format=play.format, model=play.model)


def _thought(play: _Play, sent: _Sent, message: Json, made: list[tuple[str, ...]]) -> Json:
    """Return the answer with thinking signed for what was sent, if the model thinks."""
    source = play.source
    if source.random() < 0.2:
        return message
    content = message["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    prefix = _plain(sent.messages)
    blocks: list[Json] = []
    for number in range(source.choice((1, 1, 1, 2))):
        block = play.signer.think(
            sent.body,
            f"thought {play.played.calls}.{number}",
            format=play.format,
            model=play.model,
            before=blocks,
            redacted=source.random() < 0.1,
        )
        blocks.append(block)
        made.append(prefix)
    return {**message, "content": [*blocks, *content]}


def _check_texts(play: _Play, client: list[Json], sent: _Sent) -> None:
    """Whatever user and system said, and the tools, are all there."""
    said = Counter(_user_texts(sent.messages))
    # What an agent that acts by text observed is a user message too, and may be elided.
    seen = {at for positions in play.history.closed for at in positions}
    users = [message for at, message in enumerate(client) if at not in seen or _answers(message)]
    for text, count in Counter(_user_texts(users)).items():
        if sum(n for other, n in said.items() if other.startswith(text)) < count:
            raise BoundViolationError(f"the user's text {text[:40]!r} is gone")
    own = play.body(client)
    for name in own:
        if name != "messages" and sent.body.get(name) != own[name]:
            raise BoundViolationError(f"{name} was changed")
    broken = agora.validate(
        sent.messages,
        format=play.format,
        system=play.history.system,
        tools=play.history.tools,
        model=play.model,
    )
    if broken:
        raise BoundViolationError(f"illegal: {broken[0]}")


def _answers(message: Json) -> bool:
    content = message["content"]
    return isinstance(content, list) and any(
        "toolResult" in block or block.get("type") == "tool_result" for block in content
    )


def _user_texts(messages: list[Json]) -> Iterator[str]:
    for message in messages:
        if message["role"] != "user":
            continue
        content = message["content"]
        if isinstance(content, str):
            yield content
            continue
        yield from (block["text"] for block in content if isinstance(block.get("text"), str))


def _check_kept(
    play: _Play, client: list[Json], sent: _Sent, made: list[tuple[str, ...]], since: int
) -> None:
    """Where nothing disturbs, all thinking is sent that was made after the last edit."""
    own = [b for m in client if thinks(m) for b in m["content"] if is_thinking(b)]
    went = [b for m in sent.messages if thinks(m) for b in m["content"] if is_thinking(b)]
    if went != own[len(own) - len(went) :]:
        raise BoundViolationError("thinking is missing between others, or was altered")
    now = _plain(sent.messages)
    could = 0
    for prefix in reversed(made):
        if now[: len(prefix)] != prefix:
            break
        could += 1
    played = play.played
    played.blocks += len(own)
    played.sent += len(went)
    played.could += could
    least = len(made) - since if sent.edit else len(made)
    # Of two answers between calls the service takes one to be another process's.
    if not play.disturbed and play.through == "library" and len(went) < least:
        raise BoundViolationError(f"{len(went)} blocks were sent where {least} hold")


def _plain(messages: list[Any]) -> tuple[str, ...]:
    """Return messages without thinking and cache marks, to be compared."""
    bare = without_thinking(messages).messages
    return tuple(json.dumps(_unmarked(message), sort_keys=True) for message in bare)


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _unmarked(v) for k, v in value.items() if k != "cache_control"}
    if isinstance(value, list):
        return [
            _unmarked(v) for v in value if not (isinstance(v, dict) and v.keys() == {"cachePoint"})
        ]
    return value


def _history(format: SignedFormat, source: random.Random) -> History:
    """Return a drawn history without thinking of its own, and without manual mode."""
    recipe = Recipe(format=format, tape=source.randbytes(TAPE_BYTES), max_steps=_MOST_STEPS)
    history = build(recipe)
    bare = without_thinking(history.messages).messages
    return History(
        format=format,
        messages=bare,
        system=history.system,
        tools=history.tools,
        observations=history.observations,
        closed=history.closed,
        calls=history.calls,
        recipe=recipe,
    )

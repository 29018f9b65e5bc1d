"""Conversations with models that bind thinking, played call by call before a provider that signs.

A drawn history is played as it would have come about: at each call what is sent is judged by
`harness.signing`, and the answer's thinking is signed for what was really sent. In between the
scorer fails, processes restart or take turns, shadow mode is switched, time runs out, settings
change, the user waits, goes back or asks beside. Whatever happens nothing that is sent may be
refused, no block may stand behind another prefix than its own, and nothing of the user's may be
lost; where nothing happens, no thinking may be lost but what stood before an edit.
"""

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import agora
from agora import Budget, Compressor, EstimatedTokens, PriceSheet, Query, Session, Step
from agora.formats.thinking import is_thinking, thinks, without_thinking
from harness.histories import RandomScorer
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
_EVENTS = (
    *("scorer", "crash", "restart", "reload", "replica", "shadow", "version"),
    *("pause", "rewind", "side", "again", "refusal"),
)
"""`restart` and `replica` begin without a state, `reload` goes on from a file."""
_SHEETS = tuple(
    PriceSheet(name="drawn", input=1.0, read=read, write=write, output=5.0)
    for read, write in ((0.1, 1.25), (0.5, 1.0), (0.05, 1.0), (0.25, 2.0))
)


class BoundViolationError(AssertionError):
    """Something was refused, lost or kept that should not have been."""


class _CrashError(Exception):
    """What a part that crashes raises."""


@dataclass(slots=True)
class _Scorer:
    """A scorer that can be made to fail."""

    fails: bool = False

    def score(self, query: Query, steps: Sequence[Step]) -> Sequence[float]:
        if self.fails:
            raise _CrashError
        return RandomScorer(7).score(query, steps)


@dataclass(slots=True)
class _Counter:
    """A token counter that can be made to crash."""

    fails: bool = False

    def count(self, text: str) -> int:
        if self.fails:
            raise _CrashError
        return EstimatedTokens().count(text)


@dataclass(slots=True)
class Played:
    """What happened in one conversation."""

    calls: int = 0
    edits: int = 0
    """Calls that were sent edited."""
    blocks: int = 0
    """Thinking blocks in the client's messages, summed over the calls."""
    sent: int = 0
    could: int = 0
    """How many of them could have been sent: nothing had changed before them."""
    events: Counter[str] = field(default_factory=Counter)

    def figures(self) -> dict[str, int]:
        """Return the sums over conversations."""
        counts = {
            "calls": self.calls,
            "edited_calls": self.edits,
            "blocks": self.blocks,
            "blocks_sent": self.sent,
            "blocks_that_could_be_sent": self.could,
        }
        return counts | {f"event_{name or 'none'}": n for name, n in self.events.items()}


@dataclass(frozen=True, slots=True)
class _Sent:
    """What went to the provider."""

    body: Json
    edit: Any
    compression: agora.Compression

    @property
    def messages(self) -> list[Json]:
        return self.body["messages"]  # type: ignore[no-any-return]


class _Process:
    """A session in a process of its own."""

    def __init__(self, play: "_Play", rows: Any = ()) -> None:
        self.play = play
        self.scorer, self.counter = _Scorer(), _Counter()
        self.session = Session(
            Compressor(
                scorer=self.scorer,
                budget=Budget(keep_ratio=play.keep_ratio),
                k_recent=play.k_recent,
                edits=play.edits,
                min_tokens=0,
                sheet=play.sheet,
                counter=self.counter,
                shadow=play.shadow,
            ),
            clock=lambda: play.now,
        )
        self.session.load(json.loads(json.dumps(rows)))

    def send(self, messages: list[Json], event: str) -> _Sent:
        """Return the messages to send for a call."""
        play = self.play
        self.scorer.fails, self.counter.fails = event == "scorer", event == "crash"
        request = {"model": play.model, **play.history.request}
        compression = self.session.compress(messages, **request)
        if event == "again":
            # The client got no answer, and tries once more.
            play.now += 7
            again = self.session.compress(messages, **request)
            if again.messages != compression.messages:
                raise BoundViolationError("the same messages were sent as other bytes")
            compression = again
        if event == "refusal" and compression.changed:
            again_or_none = self.session.refused(compression)
            compression = again_or_none or compression
        edit = compression.state.edit if compression.state and compression.changed else None
        return _Sent(play.body(compression.messages), edit, compression)


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
        self.edits: Any = source.choice(("by_price", "by_price", "every_call", "free"))
        self.sheet = source.choice(_SHEETS)
        self.keep_ratio = source.choice((0.0, 0.0, 0.25, 0.5))
        self.k_recent = source.choice((2, 2, 0, 1, 3))
        self.shadow = False
        self.disturbed = source.random() < 0.7
        self.now = 0.0
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
        if not self.disturbed or self.source.random() < 0.6:
            return ""
        return self.source.choice(_EVENTS)


def play(format: SignedFormat, seed: int, outcome: Outcome | None = None) -> Played:
    """Play the conversation of a seed, and return its events.

    Every second seed is played before a provider that refuses, the others before one that drops.

    Raises:
        BoundViolationError: something did not hold.
    """
    play = _Play(format, seed, outcome or ("error" if seed % 2 else "drop"))
    processes = [_Process(play)]
    history = play.history.messages
    client: list[Json] = []
    made: list[tuple[str, ...]] = []
    points: list[tuple[int, int]] = []
    """The calls so far: how many messages each had, and how much thinking was made before it."""
    edit, since, at, process, rewinds, edited = None, 0, 0, 0, 0, False
    while at <= len(history):
        message = history[at] if at < len(history) else None
        acts = message is not None and message["role"] == "assistant"
        if (acts or message is None) and client and client[-1]["role"] != "assistant":
            event = play.event()
            if event == "rewind" and len(points) > 1 and rewinds < 2:
                rewinds += 1
                at, thoughts = play.source.choice(points[:-1])
                play.played.events[event] += 1
                del client[at:], made[thoughts:]
                points = [point for point in points if point[0] < at]
                edit, since = None, len(made)
                client[-1] = _reworded(client[-1], rewinds)
                continue
            play.played.events[event] += 1
            process = _disturb(play, processes, process, event)
            if event == "side" and points:
                _side_call(play, processes[process], client[: play.source.choice(points)[0]])
            sent = _call(play, processes[process], client, event)
            points.append((len(client), len(made)))
            _check_texts(play, client, sent)
            state = sent.compression.state
            if sent.edit != edit or (state is not None and state.is_new):
                edit, since = sent.edit, len(made)
            # Thinking that an edit took out stays out if a later call is sent whole again.
            edited = edited or sent.edit is not None
            _check_kept(play, client, sent, made, since if edited else 0)
            if message is not None:
                message = _thought(play, sent, message, made)
            play.now += 12
            answer = [message] if message is not None else None
            processes[process].session.answered(sent.compression, answer=answer)
            play.now += 20
        if message is not None:
            client.append(message)
        at += 1
    return play.played


def _reworded(message: Json, number: int) -> Json:
    """Return a message of the user in other words; results stay as they are."""
    if isinstance(message["content"], str):
        return {**message, "content": f"{message['content']} Go on, {number}."}
    return message


def _disturb(play: _Play, processes: list[_Process], at: int, event: str) -> int:
    """Let something happen before a call, and return which process makes it."""
    rows = processes[at].session.rows()
    if event == "restart":
        processes[at] = _Process(play)
    elif event == "reload":
        processes[at] = _Process(play, rows)
    elif event == "replica":
        processes.append(_Process(play))
        at = play.source.randrange(len(processes))
    elif event == "shadow":
        play.shadow = not play.shadow
        processes[at] = _Process(play, rows)
    elif event == "version":
        play.keep_ratio = play.source.choice((0.0, 0.1, 0.3, 0.6))
        processes[at] = _Process(play, rows)
    elif event == "pause":
        play.now += 5_000
    return at


def _side_call(play: _Play, process: _Process, client: list[Json]) -> None:
    """Ask something beside the conversation, as for a title: no call of its own follows."""
    last = client[-1]
    asked = {"type": "text", "text": "A title?"} if play.format == "anthropic" else {"text": "?"}
    content = last["content"]
    blocks = [{**asked, "text": content}] if isinstance(content, str) else content
    client = [*client[:-1], {**last, "content": [*blocks, asked]}]
    sent = _call(play, process, client, "")
    answer = {"role": "assistant", "content": [asked]}
    process.session.answered(sent.compression, answer=[answer])


def _call(play: _Play, process: _Process, client: list[Json], event: str) -> _Sent:
    """Send a call and return what was taken."""
    played = play.played
    played.calls += 1
    sent = process.send(client, event)
    received = play.signer.receive(sent.body, format=play.format, model=play.model)
    if received.refusal:
        raise BoundViolationError(f"refused: {received.refusal}")
    if received.invalid:
        raise BoundViolationError(f"{len(received.invalid)} blocks did not hold and were sent")
    played.edits += sent.edit is not None
    return sent


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
    least = len(made) - since
    if not play.disturbed and len(went) < least:
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

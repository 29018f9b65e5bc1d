"""One conversation, asked of everybody: at which calls is it edited, and after how many steps?

Compressor, replay, explain and gateway each have their own way to a call: the whole request, a
trajectory cut into calls, a log, the bytes behind those that were seen before. They must name the
same epoch at every call.
"""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from agora.adapters import parse
from agora.cli.options import Setup
from agora.cli.source import Source
from agora.compressor import Compressor
from agora.core.compression import Compression
from agora.core.prices import PriceSheet, sheet_for
from agora.core.request import Observations
from agora.core.tokens import EstimatedTokens
from agora.gateway.editing.editor import Editor
from agora.gateway.editing.job import Job
from agora.gateway.editing.settings import EditorSettings
from agora.gateway.routing.routes import CHAT, CONVERSE, GENERATE, MESSAGES, RESPONSES, Route
from agora.logs import Recording
from agora.logs.moments import Moment
from agora.replay.measure import measure
from agora.replay.simulate import MOST_DECISIONS, Agora
from agora.scorers.recency import RecencyScorer
from agora.testing.history import Recipe, build

ROUTES = {
    "openai": CHAT,
    "responses": RESPONSES,
    "anthropic": MESSAGES,
    "gemini": GENERATE,
    "bedrock": CONVERSE,
}
"""The formats that a gateway reads."""
FORMATS = (*ROUTES, "transcript", "react")
_FULL_CALLS = 8
"""Of a long recording, so many calls are asked of compressor and explain, and those next to a
change of the epoch; of replay and gateway every call is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Messages with the places of their calls, and how they are compressed."""

    name: str
    format: str
    messages: Any
    calls: tuple[int, ...]
    """Per call: how many of the messages (characters of a text) it sent."""
    system: object = None
    tools: object = None
    thinking: bool | None = None
    observations: Observations | None = None
    model: str | None = None
    compressor: Compressor = field(default_factory=lambda: Compressor(scorer=RecencyScorer()))
    moments: tuple[Moment, ...] = ()
    """Per call: how many steps and utterances came before it; empty: each prompt is parsed."""

    def options(self) -> dict[str, Any]:
        """Return what the compressor takes besides the messages."""
        return {
            "model": self.model,
            "format": self.format,
            "system": self.system,
            "tools": self.tools,
            "thinking": self.thinking,
            "observations": self.observations,
        }

    def sheet(self) -> PriceSheet:
        """Return its price sheet."""
        return self.compressor.sheet or sheet_for(self.model or "")

    def recording(self) -> Recording:
        """Return it as a log has it."""
        return Recording(
            id=self.name,
            format=self.format,
            messages=self.messages,
            system=self.system,
            tools=self.tools,
            model=self.model,
            observations=self.observations,
            thinking=self.thinking,
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """A call at which somebody names another epoch than the compressor."""

    conversation: str
    who: str
    call: int
    steps: int
    expected: int
    named: int
    reason: str = ""


@dataclass(slots=True)
class Asked:
    """What came of asking about some conversations."""

    conversations: int = 0
    edited: int = 0
    """Conversations with an edit at one call or more."""
    by_epoch: int = 0
    """Epochs named, counted once for each conversation."""
    answers: dict[str, int] = field(default_factory=dict)
    """Answers compared, by who gave them."""
    differences: list[Difference] = field(default_factory=list)

    def add(self, other: "Asked") -> None:
        """Take in what came of others."""
        self.conversations += other.conversations
        self.edited += other.edited
        self.by_epoch += other.by_epoch
        for who, count in other.answers.items():
            self.answers[who] = self.answers.get(who, 0) + count
        self.differences += other.differences


def ask(conversation: Conversation, *, full: Callable[[int, bool], bool] | None = None) -> Asked:
    """Ask everybody about a conversation, and return what they say differently.

    `full` tells by a call's place, and by whether replay names another epoch there than before,
    whether compressor and explain are asked about it; by default about all.
    """
    steps = conversation.moments or [_steps(conversation, call) for call in conversation.calls]
    replayed = list(by_replay(conversation, steps))
    changed = [at for at, epoch in enumerate(replayed) if at and epoch != replayed[at - 1]]
    near = {*changed, *(at - 1 for at in changed)}
    wanted = [at for at in range(len(steps)) if full is None or full(at, at in near)]
    asked = Asked(1, any(replayed), len(set(replayed) - {0}))
    compressed = {at: by_compressor(conversation, conversation.calls[at]) for at in wanted}
    explained = {at: by_explain(conversation, conversation.calls[at]) for at in wanted}
    passed = dict(enumerate(by_gateway(conversation))) if conversation.format in ROUTES else {}
    said = {at: epoch for at, (epoch, _) in compressed.items()}
    truth = dict(enumerate(replayed)) | said
    for who, named in (
        ("compressor", said),
        ("replay", dict(enumerate(replayed))),
        ("explain", explained),
        ("gateway", passed),
    ):
        asked.answers[who] = len(named)
        asked.differences += [
            Difference(
                conversation.name,
                who,
                conversation.calls[at],
                steps[at].steps,
                truth[at],
                epoch,
                compressed[at][1] if at in compressed else "",
            )
            for at, epoch in named.items()
            if epoch != truth[at]
        ]
    return asked


def _steps(conversation: Conversation, call: int) -> Moment:
    request = replace(conversation.recording().request(), messages=conversation.messages[:call])
    trajectory = parse(request, EstimatedTokens()).trajectory
    return Moment(len(trajectory.steps), len(trajectory.utterances))


def by_compressor(conversation: Conversation, call: int) -> tuple[int, str]:
    """Return the epoch of a call and the reason, from the request as it was sent."""
    compression = conversation.compressor.compress(
        conversation.messages[:call], **conversation.options()
    )
    return compression.epoch, str(compression.reason)


def by_explain(conversation: Conversation, call: int) -> int:
    """Return the same as `agora explain` would say it of the request."""
    recording = conversation.recording()
    request = replace(recording.request(), messages=conversation.messages[:call])
    source = Source(
        name=conversation.name,
        request=request,
        recording=replace(recording, messages=conversation.messages[:call]),
    )
    return Setup(compressor=conversation.compressor).compress(source).epoch


def by_replay(conversation: Conversation, moments: Sequence[Moment]) -> Iterator[int]:
    """Yield the epochs of calls as a replay of the whole trajectory has them."""
    measured = measure(conversation.recording(), EstimatedTokens())
    # As replay does, the sheet that the log says was paid.
    sheet = conversation.sheet().for_ttl(measured.ttl)
    agora = Agora(measured, replace(conversation.compressor, sheet=sheet), MOST_DECISIONS)
    for moment in moments:
        edit, decisions = agora.at(moment)
        yield edit.epoch if any(d.outcome == "elided" for d in decisions) else 0


def by_gateway(conversation: Conversation) -> Iterator[int]:
    """Yield the same from an editor that remembers the conversation, call by call."""
    compressor = conversation.compressor
    editor = Editor(
        EditorSettings(
            scorer=compressor.scorer,
            k_recent=compressor.k_recent,
            min_tokens=compressor.min_tokens,
            ceiling=compressor.ceiling,
            observations=conversation.observations,
        )
    )
    route = ROUTES[conversation.format]
    for call in conversation.calls:
        job = Job(
            body=json.dumps(_body(conversation, route, call)).encode(),
            route=route,
            sheet_of=lambda _: conversation.sheet(),
            model=conversation.model,
        )
        yield (editor.look(job).edited or editor(job)).epoch


def _body(conversation: Conversation, route: Route, call: int) -> dict[str, Any]:
    """Return the body of a call in its API."""
    system = {"responses": "instructions", "gemini": "systemInstruction"}
    fields: dict[str, Any] = {
        system.get(conversation.format, "system"): conversation.system,
        "toolConfig" if conversation.format == "bedrock" else "tools": conversation.tools,
    }
    if conversation.thinking is not None:
        mode = {"type": "enabled" if conversation.thinking else "disabled"}
        if conversation.format == "bedrock":
            fields["additionalModelRequestFields"] = {"thinking": mode}
        else:
            fields["thinking"] = mode
    if conversation.format in ("openai", "responses", "anthropic"):
        fields["model"] = conversation.model
    said = {name: value for name, value in fields.items() if value is not None}
    return {**said, route.field: conversation.messages[:call]}


# --- drawn conversations

_SHEETS = tuple(
    PriceSheet(
        name="drawn",
        input=1.0,
        read=read,
        write=write,
        output=5.0,
        minimum_prefix=minimum,
        block=block,
        window=window,
    )
    for read, write, minimum, block, window in (
        (0.1, 1.25, 64, 1, None),
        (0.5, 1.0, 0, 1, None),
        (0.25, 2.0, 256, 0, 1_500),
        (0.1, 1.0, 0, 64, 900),
        (1.0, 1.0, 0, 1, None),
    )
)
_MODELS = ("gpt-5", "gpt-4o", "claude-opus-5-5", "claude-sonnet-5", "gemini-3-pro", "self-hosted")
_CEILINGS = (1.02, 1.05, 1.2, float("inf"))


def drawn(seed: int) -> Conversation:
    """Return a conversation by its seed: an odd short one, or one like an agent's at real prices.

    Odd ones are those of the property tests, in all seven formats, with more steps; the others are
    in the formats of the gateway, with pinned reads and with thinking.
    """
    source = random.Random(seed)
    return _odd(source, seed) if seed % 2 else _usual(source, seed)


def _odd(source: random.Random, seed: int) -> Conversation:
    name = FORMATS[seed // 2 % len(FORMATS)]
    most = source.choice((8, 16, 30))
    tape = source.randbytes(50 * most)
    history = build(Recipe(format=name, tape=tape, max_steps=most))
    return Conversation(
        name=f"drawn {seed} ({name})",
        format=name,
        messages=history.messages,
        calls=history.calls,
        system=history.system,
        # Converse refuses calls without it, and a body says that it is not there.
        tools=_TOOLS[name] if name == "bedrock" and history.tools is None else history.tools,
        thinking=history.thinking,
        observations=history.observations,
        model=source.choice(_MODELS),
        compressor=Compressor(
            scorer=RecencyScorer(),
            sheet=source.choice(_SHEETS),
            min_tokens=source.choice((0, 0, 400)),
            ceiling=source.choice(_CEILINGS),
            k_recent=source.choice((2, 2, 0, 4)),
        ),
    )


def _usual(source: random.Random, seed: int) -> Conversation:
    name = tuple(ROUTES)[seed // 2 % len(ROUTES)]
    turns = list(_turns(source))
    messages, calls = _WIRES[name].written(turns)
    model = source.choice(_MODELS)
    return Conversation(
        name=f"drawn {seed} ({name})",
        format=name,
        messages=messages,
        calls=tuple(calls),
        tools=_TOOLS[name],
        model=model,
        compressor=Compressor(scorer=RecencyScorer(), ceiling=source.choice(_CEILINGS)),
    )


_SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
_TOOLS: dict[str, object] = {
    "openai": [{"type": "function", "function": {"name": "read_file", "parameters": _SCHEMA}}],
    "responses": [{"type": "function", "name": "read_file", "parameters": _SCHEMA}],
    "anthropic": [{"name": "read_file", "input_schema": _SCHEMA}],
    "gemini": [{"functionDeclarations": [{"name": "read_file", "parameters": _SCHEMA}]}],
    "bedrock": {"tools": [{"toolSpec": {"name": "read_file", "inputSchema": {"json": _SCHEMA}}}]},
}


@dataclass(frozen=True, slots=True)
class _Turn:
    """A step, or what agent and user said if there is no tool."""

    said: str
    heard: str
    tool: str = ""
    path: str = ""
    thought: str = ""


def _turns(source: random.Random) -> Iterator[_Turn]:
    """Yield the task and the turns of an agent that reads files."""
    yield _Turn("", "Mend the parser. " * source.choice((10, 200, 900)))
    pinned = source.choice((0, 300, 2_500))
    thinks = source.random() < 0.4
    for n in range(1, source.randint(8, 32)):
        reads = pinned and n == 2
        words = pinned if reads else source.randint(40, 500)
        yield _Turn(
            "",
            " ".join(f"w{source.randint(0, 999)}" for _ in range(words)),
            tool="read_file",
            path="AGENTS.md" if reads else f"src/part_{n}.py",
            thought="It may be in the next part. " * source.randint(0, 12) if thinks else "",
        )
        if source.random() < 0.12:
            yield _Turn("Half way.", "Go on. " * source.randint(1, 60))


Written = tuple[list[dict[str, Any]], list[int]]


_Message = dict[str, Any]


class _Wire(NamedTuple):
    """How one format writes what is spoken, and a step."""

    spoken: Callable[[str, str], _Message]
    """From who speaks, `user` or `assistant`, and the text."""
    step: Callable[[int, _Turn], list[_Message]]

    def written(self, turns: Sequence[_Turn]) -> Written:
        """Return the messages, and how many of them each call sends."""
        messages = [self.spoken("user", turns[0].heard)]
        calls = [1]
        for n, turn in enumerate(turns[1:]):
            if turn.tool:
                messages += self.step(n, turn)
            else:
                messages += [self.spoken("assistant", turn.said), self.spoken("user", turn.heard)]
            calls.append(len(messages))
        return messages, calls


def _text(role: str, text: str) -> _Message:
    return {"role": role, "content": text}


def _chat(n: int, turn: _Turn) -> list[_Message]:
    function = {"name": turn.tool, "arguments": json.dumps({"path": turn.path})}
    call = {"id": f"call_{n}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{n}", "content": turn.heard},
    ]


def _responses(n: int, turn: _Turn) -> list[_Message]:
    arguments = json.dumps({"path": turn.path})
    ids = {"call_id": f"call_{n}"}
    return [
        {"type": "function_call", **ids, "name": turn.tool, "arguments": arguments},
        {"type": "function_call_output", **ids, "output": turn.heard},
    ]


def _messages(n: int, turn: _Turn) -> list[_Message]:
    call_id = f"toolu_{n}"
    use = {"type": "tool_use", "id": call_id, "name": turn.tool, "input": {"path": turn.path}}
    thought = {"type": "thinking", "thinking": turn.thought, "signature": f"s{n}" * 20}
    result = {"type": "tool_result", "tool_use_id": call_id, "content": turn.heard}
    return [
        {"role": "assistant", "content": [thought, use] if turn.thought else [use]},
        {"role": "user", "content": [result]},
    ]


def _parts(role: str, text: str) -> _Message:
    return {"role": "model" if role == "assistant" else role, "parts": [{"text": text}]}


def _contents(n: int, turn: _Turn) -> list[_Message]:
    call = {"name": turn.tool, "args": {"path": turn.path}}
    answer = {"name": turn.tool, "response": {"output": turn.heard}}
    return [
        {"role": "model", "parts": [{"functionCall": call}]},
        {"role": "user", "parts": [{"functionResponse": answer}]},
    ]


def _blocks(role: str, text: str) -> _Message:
    return {"role": role, "content": [{"text": text}]}


def _converse(n: int, turn: _Turn) -> list[_Message]:
    use = {"toolUseId": f"t{n}", "name": turn.tool, "input": {"path": turn.path}}
    result = {"toolUseId": f"t{n}", "content": [{"text": turn.heard}]}
    return [
        {"role": "assistant", "content": [{"toolUse": use}]},
        {"role": "user", "content": [{"toolResult": result}]},
    ]


_WIRES = {
    "openai": _Wire(_text, _chat),
    "responses": _Wire(_text, _responses),
    "anthropic": _Wire(_text, _messages),
    "gemini": _Wire(_parts, _contents),
    "bedrock": _Wire(_blocks, _converse),
}


# --- recorded ones


def recorded(recording: Recording, compressor: Compressor) -> Conversation:
    """Return a trajectory of a log with a call before each of its steps, and one at its end.

    As its messages show it: what usage says beyond them is asked about by `ask_log`.
    """
    parsed = parse(recording.request(), EstimatedTokens())
    trajectory = parsed.trajectory
    starts: dict[int, int] = {}
    for at, owner in enumerate(parsed.owners):
        if owner > 0:
            starts.setdefault(owner, parsed.spans[at][0] if parsed.spans else at)
    calls = {
        starts[step.number]: Moment(
            step.number - 1, sum(u.after < step.number for u in trajectory.utterances)
        )
        for step in trajectory.steps
        if starts.get(step.number)
    }
    steps = len(trajectory.steps)
    if any(owner == -steps for owner in parsed.owners[-1:]):
        calls[len(recording.messages)] = Moment(steps, len(trajectory.utterances))
    ordered = sorted(calls)
    return Conversation(
        name=recording.id,
        format=recording.format,
        messages=recording.messages,
        calls=tuple(ordered),
        moments=tuple(calls[at] for at in ordered),
        system=recording.system,
        tools=recording.tools,
        thinking=recording.thinking,
        observations=recording.observations,
        model=recording.model,
        compressor=compressor,
    )


def spread(calls: int) -> Callable[[int, bool], bool]:
    """Return which calls of a recording compressor and explain are asked about."""
    wanted = {n * (calls - 1) // max(1, _FULL_CALLS - 1) for n in range(_FULL_CALLS)}
    return lambda at, near: near or at in wanted


def ask_log(recording: Recording, compressor: Compressor) -> Asked:
    """Ask replay and explain about a log whose usage tells of more than its messages.

    The log is cut at a spread of its calls, as if it had ended there.
    """
    asked = Asked(1)
    epochs = set()
    many = len(recording.calls)
    full = spread(many)
    for at in (at for at in range(many) if full(at, False)):
        part = _cut(recording, at)
        measured = measure(part, EstimatedTokens())
        if measured.shortened:
            continue
        sheet = sheet_for(part.model or "").for_ttl(measured.ttl)
        moment = Moment(len(measured.trajectory.steps), len(measured.trajectory.utterances))
        agora = Agora(measured, replace(compressor, sheet=sheet), MOST_DECISIONS)
        edit, decisions = agora.at(moment)
        expected = edit.epoch if any(d.outcome == "elided" for d in decisions) else 0
        named = explained(part, compressor)
        asked.answers["explain"] = asked.answers.get("explain", 0) + 1
        epochs.add(expected)
        if named.epoch != expected:
            found = Difference(
                part.id,
                "explain",
                recording.calls[at],
                moment.steps,
                expected,
                named.epoch,
                str(named.reason),
            )
            asked.differences.append(found)
    asked.by_epoch = len(epochs - {0})
    asked.edited = bool(asked.by_epoch)
    return asked


def explained(recording: Recording, compressor: Compressor) -> Compression:
    """Return what `agora explain` shows of a log."""
    source = Source(name=recording.id, request=recording.request(), recording=recording)
    return Setup(compressor=compressor).compress(source)


def _cut(recording: Recording, at: int) -> Recording:
    """Return the log as it was when a call was made."""
    return replace(
        recording,
        messages=recording.messages[: recording.calls[at]],
        calls=recording.calls[: at + 1],
        usage=recording.usage[: at + 1],
        at_seconds=recording.at_seconds[: at + 1],
        output_tokens=(),
    )

"""Claude Code's own transcripts: one line per content block, tool result or event.

One response of the API is spread over several lines with the same `message.id`;
they become one message again, and the results of its calls one user message.
Sub-agents (sidechains) are recordings of their own. So is what follows a
compaction, and what was written again from an earlier message.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agora.adapters.rules.shape import as_list, as_object
from agora.logs.calls import rising
from agora.logs.recording import Recording, Tally
from agora.logs.source import Record
from agora.logs.usage import Usage, read_usage
from agora.logs.values import as_count, as_seconds

_TYPES = ("user", "assistant", "system", "summary", "file-history-snapshot", "queue-operation")
_OWN = ("parentUuid", "sessionId", "leafUuid", "isSidechain", "snapshot")
_NO_RESULT = "[no result in the log]"
Block = dict[str, Any]


def fits(value: Any) -> bool:
    """Tell whether a record is a line of a transcript."""
    fields = as_object(value)
    return fields.get("type") in _TYPES and any(key in fields for key in _OWN)


@dataclass(slots=True, eq=False)
class _Message:
    role: str
    blocks: list[Block]
    id: str = ""
    output_tokens: int | None = None
    usage: Usage | None = None
    at_seconds: float | None = None
    new: bool = True
    """Whether this recording's own call made it: one before a point gone back to is not."""


@dataclass(slots=True)
class _Thread:
    """The conversation of the main agent, or of one sub-agent."""

    task: str = ""
    model: str | None = None
    messages: list[_Message] = field(default_factory=list)
    answers: dict[str, _Message] = field(default_factory=dict)
    at_seconds: float | None = None
    """When the newest line that is not an answer was written: a call is made then."""

    def place(self) -> tuple[int, int]:
        """Return how many messages there are, and how many blocks in the last one."""
        return len(self.messages), len(self.messages[-1].blocks) if self.messages else 0


def read(records: Iterator[Record], name: str, tally: Tally) -> Iterator[Recording]:
    """Return the trajectories of the main agent and of the sub-agents."""
    reading = _Reading(name)
    for record in records:
        line = as_object(record.value)
        kind = line.get("type")
        if not isinstance(kind, str):
            tally.refuse(record.where, "has no type: not a line of a transcript")
            continue
        problem = _unusable(line, kind)
        if problem:
            tally.refuse(record.where, problem)
            continue
        yield from reading.take(line, kind, tally)
    yield from reading.close()


def _unusable(line: dict[str, object], kind: str) -> str:
    if kind not in ("user", "assistant"):
        return ""
    content = as_object(line.get("message")).get("content")
    if isinstance(content, str):
        return ""
    if not isinstance(content, list):
        return f"is a line of type {kind} whose message has no content"
    return "" if all(isinstance(b, dict) for b in content) else "holds a block that is no object"


class _Reading:
    """One file as it is read."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._number = 0
        self._threads: dict[str, _Thread] = {}
        self._of: dict[str, str] = {}
        """By a line's uuid: the thread it is in."""
        self._places: dict[str, tuple[int, int]] = {}
        """By a line's uuid: how far its thread had come with it."""

    def take(self, line: dict[str, object], kind: str, tally: Tally) -> Iterator[Recording]:
        uuid, parent = _id(line, "uuid"), _id(line, "parentUuid")
        if uuid and uuid in self._of:
            tally.skip("the line stands in the file twice")
            return
        key = self._thread_key(line, uuid, parent)
        thread = self._threads.get(key)
        if kind == "system" and line.get("subtype") == "compact_boundary":
            if thread is not None:
                yield from self._over(key, thread)
            thread = None
        elif kind == "user" and not line.get("isMeta"):
            thread = thread or self._open(key, line)
            if line.get("isCompactSummary") or _speaks(line):
                yield from self._go_back(key, thread, line, parent)
                thread = self._threads[key]
            _hear(thread, line)
        elif kind == "assistant" and not _synthetic(line):
            thread = thread or self._open(key, line)
            _answer(thread, line)
        else:
            tally.skip("the line is no message that was sent")
        if uuid:
            self._of[uuid] = key
            self._places[uuid] = thread.place() if thread is not None else (0, 0)

    def close(self) -> Iterator[Recording]:
        for key, thread in list(self._threads.items()):
            yield from self._over(key, thread)

    def _thread_key(self, line: dict[str, object], uuid: str, parent: str) -> str:
        """Return which conversation a line belongs to; the main one is an empty string."""
        if not line.get("isSidechain"):
            return ""
        agent = _id(line, "agentId")
        if agent:
            return agent
        return self._of.get(parent) or uuid or "sidechain"

    def _open(self, key: str, line: dict[str, object]) -> _Thread:
        self._threads[key] = thread = _Thread(task=_id(line, "sessionId"))
        return thread

    def _go_back(
        self, key: str, thread: _Thread, line: dict[str, object], parent: str
    ) -> Iterator[Recording]:
        """If the user continues from an earlier place, end there and start over."""
        place = self._places.get(parent) if parent else (0, 0)
        if line.get("isCompactSummary"):
            place = (0, 0)
        if place is None or place >= thread.place():
            return
        count, blocks = place
        kept = [
            _Message(message.role, list(message.blocks), message.id, new=False)
            for message in thread.messages[:count]
        ]
        if kept:
            del kept[-1].blocks[blocks:]
        yield from self._over(key, thread)
        anew = self._open(key, line)
        anew.messages = [message for message in kept if message.blocks]

    def _over(self, key: str, thread: _Thread) -> Iterator[Recording]:
        del self._threads[key]
        messages = _paired(thread.messages)
        made = [(at, m) for at, m in enumerate(messages) if m.role == "assistant" and m.new]
        if not made:
            return
        while messages and messages[-1].role == "assistant" and _calls(messages[-1]):
            # The call was made, but what it asked for was not run any more.
            messages.pop()
        self._number += 1
        tokens = [m.output_tokens for _, m in made if m.output_tokens is not None]
        times = [m.at_seconds for _, m in made if m.at_seconds is not None]
        usage = [m.usage for _, m in made if m.usage is not None]
        yield Recording(
            id=f"{thread.task or self._name}:{self._number}",
            format="anthropic",
            messages=[{"role": m.role, "content": _content(m)} for m in messages],
            model=thread.model,
            calls=tuple(at for at, _ in made),
            output_tokens=tuple(tokens) if len(tokens) == len(made) else (),
            usage=tuple(usage) if len(usage) == len(made) else (),
            at_seconds=rising(times) if len(times) == len(made) else (),
            task=thread.task,
        )


def _hear(thread: _Thread, line: dict[str, object]) -> None:
    """Take in what the user said, or what a tool gave."""
    content = as_object(line.get("message")).get("content")
    blocks = _blocks(content)
    thread.at_seconds = as_seconds(line.get("timestamp"))
    last = thread.messages[-1] if thread.messages else None
    if last is None or last.role != "user":
        if blocks:
            thread.messages.append(_Message("user", blocks))
        return
    last.blocks.extend(blocks)


def _answer(thread: _Thread, line: dict[str, object]) -> None:
    """Take in a block of an answer, with the other blocks of it."""
    fields = as_object(line.get("message"))
    answer_id = _id(fields, "id")
    blocks = _blocks(fields.get("content"))
    message = thread.answers.get(answer_id) if answer_id else None
    if message is None:
        if not blocks or not thread.messages:
            return
        at = thread.at_seconds
        last = thread.messages[-1]
        if last.role == "assistant":
            # Two answers in a row: the first was cut off, and this one was asked for again.
            message = last
        else:
            message = _Message("assistant", [], answer_id)
            message.at_seconds = as_seconds(line.get("timestamp")) if at is None else at
            thread.messages.append(message)
        if answer_id:
            thread.answers[answer_id] = message
    message.blocks.extend(blocks)
    tokens = as_count(as_object(fields.get("usage")).get("output_tokens"))
    if tokens is not None:
        message.output_tokens = max(tokens, message.output_tokens or 0)
    message.usage = read_usage(fields.get("usage")) or message.usage
    model = fields.get("model")
    if isinstance(model, str):
        thread.model = model


def _paired(messages: list[_Message]) -> list[_Message]:
    """Return the messages with the results of each answer's calls right behind it, and no others.

    A call without a result was broken off: it is given one that says so, as
    the client does. Only at the end are calls left open.
    """
    out: list[_Message] = []
    for message in messages:
        if message.role == "assistant":
            out.append(message)
            continue
        asked = _calls(out[-1]) if out and out[-1].role == "assistant" else []
        results = {str(b.get("tool_use_id")): b for b in message.blocks if _is_result(b)}
        said = [b for b in message.blocks if not _is_result(b)]
        given = [results.get(call) or _missing(call) for call in asked]
        if given or said:
            out.append(_Message("user", given + said))
    return out


def _calls(message: _Message) -> list[str]:
    return [str(b.get("id")) for b in message.blocks if b.get("type") == "tool_use"]


def _is_result(block: Block) -> bool:
    return block.get("type") == "tool_result"


def _missing(call: str) -> Block:
    return {"type": "tool_result", "tool_use_id": call, "content": _NO_RESULT, "is_error": True}


def _content(message: _Message) -> Any:
    only = message.blocks[0] if len(message.blocks) == 1 else {}
    if message.role == "user" and set(only) == {"type", "text"} and only["type"] == "text":
        return only["text"]
    return message.blocks


def _blocks(content: object) -> list[Block]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content.strip() else []
    return [
        as_object(block)
        for block in as_list(content)
        if not (as_object(block).get("type") == "text" and not as_object(block).get("text"))
    ]


def _speaks(line: dict[str, object]) -> bool:
    """Tell whether a user line is the user's own word and not a tool's result."""
    content = as_object(line.get("message")).get("content")
    return not any(_is_result(as_object(block)) for block in as_list(content))


def _synthetic(line: dict[str, object]) -> bool:
    """Tell whether the client wrote this answer itself, in place of one that failed."""
    model = as_object(line.get("message")).get("model")
    return model == "<synthetic>" or bool(line.get("isApiErrorMessage"))


def _id(fields: dict[str, object], key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""

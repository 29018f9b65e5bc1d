"""Claude Code's own transcripts: one line per content block, tool result or event.

The API's response is spread over several lines with the same `message.id`. They become one message
again, and the results of its calls one user message. A new recording begins with a sub-agent
(sidechain), after a compaction, when the model changes, and when the user goes back to an earlier
message.

A transcript differs from the requests. The client does not send empty texts, errors it wrote in
place of an answer, progress, hooks and snapshots, so they are left out. It sends hidden messages
(`isMeta`: skills, complaints of hooks) and local commands, so they are kept. No transcript has the
system text or the tools.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agora.formats.base import as_list, as_object
from agora.formats.usage import Usage, read_usage
from agora.logs.recording import Recording, Tally, complete, rising
from agora.logs.source import Record
from agora.logs.values import as_seconds

_TYPES = ("user", "assistant", "system", "summary", "file-history-snapshot", "queue-operation")
_OWN = ("parentUuid", "sessionId", "leafUuid", "isSidechain", "snapshot")
_NO_RESULT = "[no result in the log]"
_CLEARED = "[Old tool result content cleared]"
"""The client's placeholder for a result that it has cleared from its history."""
_LACKS = "system text and tools"
_CONTINUES = "the conversation they continue, system text and tools"
"""Facts that a log lacks about a sub-agent that continues another file's line, such as one that
compacts."""
Block = dict[str, Any]


def fits(value: Any) -> bool:
    """Return True if a record is a line of a transcript."""
    fields = as_object(value)
    return fields.get("type") in _TYPES and any(key in fields for key in _OWN)


@dataclass(slots=True, eq=False)
class _Message:
    role: str
    blocks: list[Block]
    id: str = ""
    usage: Usage | None = None
    at_seconds: float | None = None
    new: bool = True
    """False for an answer that an earlier recording's call made, before the user went back."""


@dataclass(slots=True)
class _Thread:
    """The conversation of the main agent, or of one sub-agent."""

    task: str = ""
    model: str | None = None
    messages: list[_Message] = field(default_factory=list)
    answers: dict[str, _Message] = field(default_factory=dict)
    at_seconds: float | None = None
    """When the newest line that is not an answer was written, which is when a call is made."""
    agent: str = ""
    lacks: str = _LACKS

    def place(self) -> tuple[int, int]:
        """Return the number of messages, and of blocks in the last one."""
        return len(self.messages), len(self.messages[-1].blocks) if self.messages else 0


def read(records: Iterator[Record], name: str, tally: Tally) -> Iterator[Recording]:
    """Yield the trajectories of the main agent and of the sub-agents."""
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
        """The thread of each line, by the line's uuid."""
        self._places: dict[str, tuple[int, int]] = {}
        """How long its thread was after each line, by the line's uuid."""

    def take(self, line: dict[str, object], kind: str, tally: Tally) -> Iterator[Recording]:
        uuid, parent = _id(line, "uuid"), _id(line, "parentUuid")
        if uuid and uuid in self._of:
            tally.skip("lines that stand in the file twice")
            return
        key = self._thread_key(line, uuid, parent)
        thread = self._threads.get(key)
        subtype = line.get("subtype") if kind == "system" else None
        if subtype == "compact_boundary":
            if thread is not None:
                yield from self._over(key, thread)
        elif subtype == "microcompact_boundary":
            if thread is not None:
                yield from self._anew(key, thread, line, thread.place())
                _clear(self._threads[key], line)
        elif kind == "assistant" and not _synthetic(line):
            thread = thread or self._open(key, line)
            if _by_another_model(thread, line):
                # A model has a cache and prices of its own.
                yield from self._anew(key, thread, line, thread.place())
            _answer(self._threads[key], line, tally)
        elif said := _said(line, kind):
            thread = thread or self._open(key, line)
            if line.get("isCompactSummary") or not any(map(_is_result, said)):
                yield from self._go_back(key, thread, line, parent)
            _hear(self._threads[key], said, line)
        else:
            tally.skip(_left_out(kind))
        if uuid:
            thread = self._threads.get(key)
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
        agent = _id(line, "agentId") if line.get("isSidechain") else ""
        elsewhere = _id(line, "parentUuid") if agent else ""
        self._threads[key] = thread = _Thread(
            task=_id(line, "sessionId"),
            agent=agent,
            lacks=_CONTINUES if elsewhere and elsewhere not in self._of else _LACKS,
        )
        return thread

    def _go_back(
        self, key: str, thread: _Thread, line: dict[str, object], parent: str
    ) -> Iterator[Recording]:
        """If the user continues from an earlier place, start a recording from there."""
        place = self._places.get(parent) if parent else (0, 0)
        if line.get("isCompactSummary"):
            place = (0, 0)
        if place is not None and place < thread.place():
            yield from self._anew(key, thread, line, place)

    def _anew(
        self, key: str, thread: _Thread, line: dict[str, object], place: tuple[int, int]
    ) -> Iterator[Recording]:
        """End a recording, and begin the next with the messages up to a place."""
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
        anew.answers = {m.id: m for m in anew.messages if m.id}
        anew.at_seconds, anew.lacks = thread.at_seconds, thread.lacks

    def _over(self, key: str, thread: _Thread) -> Iterator[Recording]:
        del self._threads[key]
        messages = _paired(thread.messages)
        answers = [(at, m) for at, m in enumerate(messages) if m.role == "assistant"]
        made = [(at, m) for at, m in answers if m.new]
        if not made:
            return
        while messages and messages[-1].role == "assistant" and _calls(messages[-1]):
            # The call was made, but its tools were not run any more.
            messages.pop()
        self._number += 1
        name = "/".join(part for part in (thread.task or self._name, thread.agent) if part)
        yield Recording(
            id=f"{name}:{self._number}",
            format="anthropic",
            messages=[{"role": m.role, "content": _content(m)} for m in messages],
            model=thread.model,
            calls=tuple(at for at, _ in made),
            usage=complete(m.usage for _, m in made),
            at_seconds=rising(m.at_seconds for _, m in made),
            task=thread.task,
            earlier_calls=len(answers) - len(made),
            lacks=thread.lacks,
        )


def _said(line: dict[str, object], kind: str) -> list[Block]:
    """Return the blocks of a line that the client sends as the user's; empty if it sends none."""
    if kind == "user":
        return _blocks(as_object(line.get("message")).get("content"))
    if kind == "system" and line.get("subtype") == "local_command":
        return _blocks(line.get("content"))
    attached = as_object(line.get("attachment")) if kind == "attachment" else {}
    if attached.get("type") == "queued_command":
        # The user typed this while the agent was at work.
        return _blocks(attached.get("prompt"))
    return []


def _left_out(kind: str) -> str:
    if kind == "assistant":
        return "errors that the client wrote in place of an answer"
    if kind == "user":
        return "messages without content"
    return "log lines that never went to the model (progress, hooks): normal"


def _hear(thread: _Thread, blocks: list[Block], line: dict[str, object]) -> None:
    """Add a user's message, or a tool's result, to the thread."""
    thread.at_seconds = as_seconds(line.get("timestamp"))
    last = thread.messages[-1] if thread.messages else None
    if last is None or last.role != "user":
        thread.messages.append(_Message("user", blocks))
        return
    last.blocks.extend(blocks)


def _clear(thread: _Thread, line: dict[str, object]) -> None:
    """Replace the results that the client has cleared by the text it sends instead."""
    cleared = as_list(as_object(line.get("microcompactMetadata")).get("compactedToolIds"))
    for message in thread.messages:
        for at, block in enumerate(message.blocks):
            if _is_result(block) and block.get("tool_use_id") in cleared:
                message.blocks[at] = {**block, "content": _CLEARED}


def _by_another_model(thread: _Thread, line: dict[str, object]) -> bool:
    fields = as_object(line.get("message"))
    return (
        thread.model not in (None, fields.get("model"))
        and _id(fields, "id") not in thread.answers
        and any(message.new for message in thread.answers.values())
        and thread.messages[-1].role == "user"
    )


def _answer(thread: _Thread, line: dict[str, object], tally: Tally) -> None:
    """Add a block of an answer to the message that has the answer's other blocks."""
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
            # Two answers in a row: the first was cut off, and the client asked again.
            message = last
        else:
            message = _Message("assistant", [], answer_id)
            message.new = _is_new(line, answer_id, tally)
            message.at_seconds = as_seconds(line.get("timestamp")) if at is None else at
            thread.messages.append(message)
        if answer_id:
            thread.answers[answer_id] = message
    message.blocks.extend(blocks)
    message.usage = read_usage(fields.get("usage")) or message.usage
    model = fields.get("model")
    if isinstance(model, str):
        thread.model = model


def _is_new(line: dict[str, object], answer_id: str, tally: Tally) -> bool:
    """Return True if no earlier file has this answer: resuming and forking copy answers."""
    own = _id(line, "requestId") or _id(line, "timestamp") or _id(line, "uuid")
    mark = f"{answer_id} {own}"
    if not answer_id or not own:
        return True
    if mark in tally.answered:
        tally.skip("answers that another file has, too")
        return False
    tally.answered.add(mark)
    return True


def _paired(messages: list[_Message]) -> list[_Message]:
    """Return the messages with the results of each answer's calls right after it, and no others.

    A call without a result was interrupted: it gets the client's own result for that.
    Calls at the very end stay open.
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
    return [as_object(block) for block in as_list(content) if not _is_empty(as_object(block))]


def _is_empty(block: Block) -> bool:
    """Return True if a block is a text of nothing but space: the client does not send those."""
    text = block.get("text")
    return block.get("type") == "text" and not (isinstance(text, str) and text.strip())


def _synthetic(line: dict[str, object]) -> bool:
    """Return True if the client wrote this answer itself, in place of a failed one."""
    model = as_object(line.get("message")).get("model")
    return model == "<synthetic>" or bool(line.get("isApiErrorMessage"))


def _id(fields: dict[str, object], key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""

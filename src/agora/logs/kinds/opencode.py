"""opencode's sessions: its database, its storage folder, or what `opencode export` prints.

All three hold sessions, messages and parts of messages. An answer may hold
several steps, each of which was a call of the model. Thoughts are left out.
What follows a compaction is a recording of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agora.adapters.rules.shape import as_list, as_object
from agora.logs.recording import Recording, Tally
from agora.logs.source import Record
from agora.logs.talk import Made, Talk, tool_call
from agora.logs.usage import Usage
from agora.logs.values import as_count, as_seconds, as_text

_ASKED = "What did we do so far?"
"""What stands in opencode's history where older messages were compacted."""
Fields = dict[str, object]


def fits(value: Any) -> bool:
    """Tell whether a record is an export, a session, a message or a part."""
    fields = as_object(value)
    if isinstance(fields.get("info"), dict) and isinstance(fields.get("messages"), list):
        return _id(as_object(fields["info"]), "id").startswith("ses_")
    return _kind(fields) != ""


def _kind(fields: Fields) -> str:
    own = _id(fields, "id")
    if own.startswith("prt_") and "messageID" in fields:
        return "part"
    if own.startswith("msg_") and "sessionID" in fields:
        return "message"
    return "session" if own.startswith("ses_") else ""


def read(records: Iterator[Record], name: str, tally: Tally) -> Iterator[Recording]:
    """Return the trajectories of every session."""
    sessions: dict[str, _Session] = {}
    current = ""
    for record in records:
        found = False
        for fields in _flat(as_object(record.value)):
            kind = _kind(fields)
            found = found or bool(kind)
            session = _id(fields, "id" if kind == "session" else "sessionID")
            if not kind:
                continue
            if current and session != current:
                # Each session's records stand together.
                yield from sessions.pop(current, _Session()).recordings(current)
            current = session
            sessions.setdefault(session, _Session()).take(kind, fields)
        if not found:
            tally.refuse(record.where, "is no session, message or part")
    for session, left in sessions.items():
        yield from left.recordings(session or name)


def _flat(fields: Fields) -> Iterator[Fields]:
    """Return the records of an export one after the other, or the record itself."""
    if "messages" not in fields:
        yield fields
        return
    info = as_object(fields.get("info"))
    yield info
    for message in map(as_object, as_list(fields["messages"])):
        yield {"sessionID": info.get("id"), **as_object(message.get("info"))}
        for part in map(as_object, as_list(message.get("parts"))):
            inside = as_object(message.get("info")).get("id")
            yield {"sessionID": info.get("id"), "messageID": inside, **part}


@dataclass(slots=True)
class _Session:
    """One session as it is read; its records may come in any order."""

    messages: dict[str, Fields] = field(default_factory=dict)
    parts: dict[str, dict[str, Fields]] = field(default_factory=dict)

    def take(self, kind: str, fields: Fields) -> None:
        """Take in a message or a part of one."""
        if kind == "message":
            self.messages[_id(fields, "id")] = fields
        elif kind == "part":
            self.parts.setdefault(_id(fields, "messageID"), {})[_id(fields, "id")] = fields

    def recordings(self, session: str) -> Iterator[Recording]:
        """Return the trajectories: ids rise with time, so they give the order."""
        talks = [Talk()]
        for key in sorted(self.messages):
            message = self.messages[key]
            parts = [part for _, part in sorted(self.parts.get(key, {}).items())]
            if message.get("role") == "user":
                if any(part.get("type") == "compaction" for part in parts):
                    talks.append(Talk())
                    talks[-1].say("user", _ASKED)
                talks[-1].say("user", _said(parts))
            elif message.get("role") == "assistant":
                _answer(talks[-1], message, parts)
        number = 0
        for talk in talks:
            recording = talk.recording(
                f"{session}:{number + 1}", task=session, lacks="system text and tools"
            )
            if recording is not None:
                number += 1
                yield recording


def _said(parts: list[Fields]) -> str:
    texts = [as_text(p.get("text")) for p in parts if p.get("type") == "text"]
    return "\n".join(text for text in texts if text)


def _answer(talk: Talk, message: Fields, parts: list[Fields]) -> None:
    """Put an answer into the conversation, step by step."""
    model = message.get("modelID")
    talk.model = model if isinstance(model, str) else talk.model
    at = as_seconds(as_object(message.get("time")).get("created"))
    steps: list[list[Fields]] = [[]]
    for part in parts:
        if part.get("type") == "step-start" and steps[-1]:
            steps.append([])
        steps[-1].append(part)
    for step in steps:
        tools = [part for part in step if part.get("type") == "tool"]
        ended = next((part for part in step if part.get("type") == "step-finish"), message)
        calls = [
            tool_call(
                _id(part, "callID"),
                as_text(part.get("tool")),
                as_text(as_object(part.get("state")).get("input") or {}),
            )
            for part in tools
        ]
        talk.answer(_said(step), calls, made=_made(ended, at if step is steps[0] else None))
        for part in tools:
            state = as_object(part.get("state"))
            given = state.get("output", state.get("error"))
            if given is not None:
                talk.result(_id(part, "callID"), as_text(given))


def _made(ended: Fields, at: float | None) -> Made:
    """Return what was billed: what was read and written stands beside the rest, not in it."""
    tokens = as_object(ended.get("tokens"))
    rest = as_count(tokens.get("input"))
    if rest is None:
        return Made(at_seconds=at)
    cache = as_object(tokens.get("cache"))
    read, written = as_count(cache.get("read")) or 0, as_count(cache.get("write")) or 0
    output = (as_count(tokens.get("output")) or 0) + (as_count(tokens.get("reasoning")) or 0)
    if rest + read + written == 0:
        return Made(at_seconds=at)
    cost = ended.get("cost")
    dollars = float(cost) if isinstance(cost, float) and cost >= 0 else None
    return Made(Usage(rest + read + written, read, written, dollars), output, at)


def _id(fields: Fields, key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""

"""Gemini CLI's sessions: `tmp/*/chats/session-*`, one object, or lines that add to one.

Lines are messages, later ones with the same id in place of earlier ones, and
changes: `$set` may put other messages in place of all, as a compression does,
and `$rewindTo` takes back the last ones. What follows either is a recording of its own.
"""

from collections.abc import Iterator
from typing import Any

from agora.adapters.rules.shape import as_list, as_object
from agora.logs.recording import Recording, Tally
from agora.logs.source import Record
from agora.logs.talk import Made, Talk, tool_call
from agora.logs.usage import Usage
from agora.logs.values import as_count, as_seconds, as_text

_SPEAKERS = frozenset({"user", "gemini"})
_OTHERS = frozenset({"info", "error", "warning"})
Fields = dict[str, object]


def fits(value: Any) -> bool:
    """Tell whether a record is a session, its first line, or a line of it."""
    fields = as_object(value)
    if "sessionId" in fields and "projectHash" in fields:
        return True
    return fields.get("type") == "gemini" and "content" in fields


def read(records: Iterator[Record], name: str, tally: Tally) -> Iterator[Recording]:
    """Return the trajectories of the sessions in a file."""
    reading = _Reading(name)
    for record in records:
        fields = as_object(record.value)
        if "projectHash" in fields:
            yield from reading.over()
            reading.session = as_text(fields.get("sessionId"))
            yield from reading.change(fields)
        elif "$set" in fields:
            yield from reading.change(as_object(fields["$set"]))
        elif "$rewindTo" in fields:
            yield from reading.rewind(as_text(fields["$rewindTo"]))
        elif as_text(fields.get("type")) in _SPEAKERS:
            reading.take(fields)
        elif as_text(fields.get("type")) in _OTHERS:
            tally.skip("the line is no message that was sent")
        else:
            tally.refuse(record.where, "is no line of a session: it has no type, $set or $rewindTo")
    yield from reading.over()


class _Reading:
    """One file as it is read."""

    def __init__(self, name: str) -> None:
        self.session = ""
        self._name = name
        self._number = 0
        self._messages: dict[str, Fields] = {}
        """By id, in the order they were first written."""

    def take(self, fields: Fields) -> None:
        """Take in a message, which may be one that was there and has changed."""
        key = as_text(fields.get("id")) or f"line {len(self._messages)}"
        self._messages[key] = fields

    def change(self, fields: Fields) -> Iterator[Recording]:
        """Take in other messages for all that are there, if there are any."""
        if not isinstance(fields.get("messages"), list):
            return
        left = [as_object(one) for one in as_list(fields["messages"])]
        ids = {as_text(one.get("id")) for one in left}
        old = self._messages
        emitted = False
        if old.keys() - ids:
            # The client writes copies below the old ones before it puts them in their place.
            self._messages = {k: one for k, one in old.items() if k not in ids or one.get("tokens")}
            for recording in self.over():
                emitted = True
                yield recording
        self._messages = {}
        for one in left:
            self.take({**one, "tokens": None} if emitted else one)

    def rewind(self, to: str) -> Iterator[Recording]:
        """Take back the message with this id and all behind it."""
        keys = list(self._messages)
        at = keys.index(to) if to in self._messages else 0
        kept = {key: {**self._messages[key], "tokens": None} for key in keys[:at]}
        yield from self.over()
        self._messages = kept

    def over(self) -> Iterator[Recording]:
        """Return the trajectory of the messages that are there."""
        talk = Talk()
        counted = any(as_object(one.get("tokens")) for one in self._messages.values())
        for fields in self._messages.values():
            _take(talk, fields, counted=counted)
        self._messages = {}
        recording = talk.recording(
            f"{self.session or self._name}:{self._number + 1}",
            task=self.session,
            lacks="system text and tools",
        )
        if recording is not None:
            self._number += 1
            yield recording


def _take(talk: Talk, fields: Fields, *, counted: bool) -> None:
    """Put a message into the conversation."""
    parts = _parts(fields.get("content"))
    text = "\n".join(as_text(p["text"]) for p in parts if p.get("text") and not p.get("thought"))
    for part in parts:
        _result(talk, as_object(part.get("functionResponse")))
    if fields.get("type") == "user":
        talk.say("user", text)
        return
    asked: dict[str, dict[str, Any]] = {}
    for part in parts:
        call = as_object(part.get("functionCall"))
        if call:
            _ask(asked, call)
    listed = [as_object(call) for call in as_list(fields.get("toolCalls"))]
    for call in listed:
        _ask(asked, call)
    model = fields.get("model")
    talk.model = model if isinstance(model, str) else talk.model
    tokens = as_object(fields.get("tokens"))
    made = _made(tokens, as_seconds(fields.get("timestamp"))) if tokens or not counted else None
    talk.answer(text, asked.values(), made=made)
    for call in listed:
        for part in _parts(call.get("result")):
            _result(talk, as_object(part.get("functionResponse")))


def _ask(asked: dict[str, dict[str, Any]], call: Fields) -> None:
    call_id = as_text(call.get("id")) or as_text(call.get("name"))
    asked.setdefault(
        call_id, tool_call(call_id, as_text(call.get("name")), as_text(call.get("args")))
    )


def _result(talk: Talk, given: Fields) -> None:
    if given:
        response = as_object(given.get("response"))
        content = response.get("output", response.get("error", given.get("response")))
        talk.result(as_text(given.get("id")) or as_text(given.get("name")), as_text(content))


def _made(tokens: Fields, at: float | None) -> Made:
    prompt = as_count(tokens.get("input"))
    if prompt is None:
        return Made(at_seconds=at)
    read = min(as_count(tokens.get("cached")) or 0, prompt)
    output = (as_count(tokens.get("output")) or 0) + (as_count(tokens.get("thoughts")) or 0)
    return Made(Usage(prompt, read), output, at)


def _parts(content: object) -> list[Fields]:
    """Return content as a list of parts; it may be one part, or a text."""
    if isinstance(content, str):
        return [{"text": content}]
    if isinstance(content, dict):
        return [content]
    return [
        {"text": part} if isinstance(part, str) else as_object(part) for part in as_list(content)
    ]

"""OpenHands' events: a folder with a file for each, or a list of them.

Two generations are known: those of the agent SDK, which have a `kind`, and those
before it, which have an `action` or an `observation`. The conversation's state,
which stands beside the folder, holds what the calls were billed. What follows a
condensation is a recording of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agora.adapters.rules.shape import as_list, as_object
from agora.logs.recording import Recording, Tally
from agora.logs.source import Record
from agora.logs.talk import Made, Talk, tool_call
from agora.logs.usage import Usage, read_usage
from agora.logs.values import as_count, as_seconds, as_text

_KINDS = frozenset(
    {"SystemPromptEvent", "MessageEvent", "ActionEvent", "ObservationEvent", "AgentErrorEvent"}
    | {"UserRejectObservation", "Condensation", "ConversationStateUpdateEvent", "PauseEvent"}
)
_SOURCES = ("agent", "user", "environment")
_SILENT = frozenset({"change_agent_state", "recall", "null", "agent_state_changed", "system"})
"""Of the older events: what the model neither says nor sees."""
Fields = dict[str, object]


def fits(value: Any) -> bool:
    """Tell whether a record is an event, or the state of a conversation."""
    fields = as_object(value)
    if _kind(fields) in _KINDS or _is_state(fields):
        return True
    return fields.get("source") in _SOURCES and ("action" in fields or "observation" in fields)


def _kind(fields: Fields) -> str:
    return as_text(fields.get("kind"))


def _is_state(fields: Fields) -> bool:
    return "usage_to_metrics" in as_object(fields.get("stats"))


def read(records: Iterator[Record], name: str, tally: Tally) -> Iterator[Recording]:
    """Return the trajectories of one conversation."""
    reading = _Reading(name)
    for record in records:
        fields = as_object(record.value)
        if _is_state(fields):
            reading.state(fields)
        elif isinstance(fields.get("kind"), str):
            if not reading.sees(fields):
                tally.skip("the event is nothing that was sent")
            yield from reading.take(fields)
        elif "action" in fields or "observation" in fields:
            reading.older(fields)
        else:
            tally.refuse(record.where, "is no event: it has no kind, action or observation")
    yield from reading.over()


@dataclass(slots=True)
class _Reading:
    """One conversation as it is read."""

    name: str
    number: int = 0
    conversation: str = ""
    model: str | None = None
    billed: dict[str, tuple[Usage | None, int | None]] = field(default_factory=dict)
    """By the id of a response: what it was billed."""
    events: list[Fields] = field(default_factory=list)
    old: frozenset[str] = frozenset()
    """The responses that earlier recordings have."""

    def state(self, fields: Fields) -> None:
        """Take in the state of the conversation: its model, and the bill of each response."""
        self.conversation = as_text(fields.get("id"))
        metrics = as_object(as_object(fields["stats"]).get("usage_to_metrics"))
        for one in map(as_object, metrics.values()):
            for usage in map(as_object, as_list(one.get("token_usages"))):
                found = (read_usage(usage), as_count(usage.get("completion_tokens")))
                self.billed[as_text(usage.get("response_id"))] = found
        named = as_object(as_object(fields.get("agent")).get("llm")).get("model")
        self.model = named if isinstance(named, str) else self.model

    def sees(self, fields: Fields) -> bool:
        """Tell whether the model says or sees an event."""
        return _kind(fields) in _KINDS - {"ConversationStateUpdateEvent", "PauseEvent"}

    def take(self, fields: Fields) -> Iterator[Recording]:
        """Take in an event of the SDK."""
        if fields.get("kind") != "Condensation":
            self.events.append(fields)
            return
        events = list(self.events)
        yield from self.over()
        forgotten = {as_text(one) for one in as_list(fields.get("forgotten_event_ids"))}
        left = [one for one in events if as_text(one.get("id")) not in forgotten]
        if fields.get("summary"):
            at = as_count(fields.get("summary_offset"))
            told = {"role": "user", "content": as_text(fields["summary"])}
            left.insert(
                len(left) if at is None else at, {"kind": "MessageEvent", "llm_message": told}
            )
        self.events = left
        self.old = frozenset(as_text(one.get("llm_response_id")) for one in events)

    def older(self, fields: Fields) -> None:
        """Take in an event of the first generation, as one of the SDK."""
        what = as_text(fields.get("action", fields.get("observation")))
        args = as_object(fields.get("args"))
        event: Fields = {"timestamp": fields.get("timestamp")}
        key = as_text(fields.get("id"))
        if "observation" in fields and what not in _SILENT:
            content = {"content": fields.get("content")}
            call_id = f"event_{as_text(fields.get('cause'))}"
            event |= {"kind": "ObservationEvent", "tool_call_id": call_id, "observation": content}
        elif what == "system":
            event |= {"kind": "SystemPromptEvent", "system_prompt": {"text": args.get("content")}}
        elif what in ("message", "finish") and "action" in fields:
            role = "assistant" if fields.get("source") == "agent" else "user"
            said = args.get("content") or args.get("final_thought") or fields.get("message")
            told = {"role": role, "content": as_text(said)}
            event |= {"kind": "MessageEvent", "llm_message": told, "llm_response_id": key}
        elif what not in _SILENT and fields.get("source") == "agent":
            kept = {name: one for name, one in args.items() if name != "thought"}
            call = {"id": f"event_{key}", "name": what, "arguments": as_text(kept)}
            thought = [{"text": args.get("thought")}]
            event |= {"kind": "ActionEvent", "thought": thought, "tool_call": call}
            event |= {"llm_response_id": key}
        if "kind" in event:
            self.events.append(event)

    def over(self) -> Iterator[Recording]:
        """Return the trajectory of the events that are there."""
        talk = Talk(model=self.model)
        pending: list[Fields] = []
        for event in self.events:
            if event.get("kind") == "ActionEvent":
                if pending and _response(pending[0]) != _response(event):
                    self._act(talk, pending)
                    pending = []
                pending.append(event)
                continue
            if event.get("kind") in ("MessageEvent", "SystemPromptEvent"):
                self._act(talk, pending)
                pending = []
                self._say(talk, event)
                continue
            self._act(talk, pending)
            pending = []
            _observe(talk, event)
        self._act(talk, pending)
        self.events = []
        own = self.conversation or self.name
        recording = talk.recording(f"{own}:{self.number + 1}", task=self.conversation)
        if recording is not None:
            self.number += 1
            yield recording

    def _act(self, talk: Talk, events: list[Fields]) -> None:
        """Put one response into the conversation: an event for each of its calls."""
        if not events:
            return
        texts = [_text(event.get("thought")) for event in events]
        calls = []
        for event in events:
            call = as_object(event.get("tool_call"))
            call = {**call, **as_object(call.get("function"))}
            call_id = as_text(event.get("tool_call_id")) or as_text(call.get("id"))
            name = as_text(call.get("name")) or as_text(event.get("tool_name"))
            calls.append(tool_call(call_id, name, as_text(call.get("arguments"))))
        thoughts = as_text(events[0].get("reasoning_content"))
        text = "\n".join(text for text in texts if text)
        talk.answer(text, calls, thoughts=thoughts, made=self._made(events[0]))

    def _say(self, talk: Talk, event: Fields) -> None:
        if event.get("kind") == "SystemPromptEvent":
            talk.say("system", _text([event.get("system_prompt")]))
            talk.tools = _tools(event.get("tools")) or talk.tools
            return
        message = as_object(event.get("llm_message"))
        text = _text(message.get("content"))
        more = _text(event.get("extended_content"))
        if message.get("role") == "assistant":
            talk.answer(text, made=self._made(event))
        else:
            talk.say("user", "\n".join(part for part in (text, more) if part))

    def _made(self, event: Fields) -> Made | None:
        response = _response(event)
        if response and response in self.old:
            return None
        usage, tokens = self.billed.get(response, (None, None))
        return Made(usage, tokens, as_seconds(event.get("timestamp")))


def _response(event: Fields) -> str:
    return as_text(event.get("llm_response_id"))


def _observe(talk: Talk, event: Fields) -> None:
    """Put what a call gave into the conversation, or why it gave nothing."""
    if "tool_call_id" not in event:
        return
    seen = as_object(event.get("observation"))
    content = seen.get("content", seen.get("output"))
    given = content if isinstance(content, str) else _text(content)
    for key in ("error", "rejection_reason"):
        given = given or as_text(event.get(key))
    talk.result(as_text(event["tool_call_id"]), given or as_text(seen))


def _text(content: object) -> str:
    """Return the texts of content blocks."""
    if isinstance(content, str):
        return content
    texts = [as_text(as_object(part).get("text")) for part in as_list(content)]
    return "\n".join(text for text in texts if text)


def _tools(tools: object) -> object:
    """Return the tools as chat completions have them, where they are written down so."""
    found = [as_object(tool) for tool in as_list(tools)]
    return [tool for tool in found if "function" in tool] or None

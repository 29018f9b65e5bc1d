"""Codex's rollouts: `sessions/**/rollout-*.jsonl`, one item, event or setting per line.

The items are those of the Responses API, as they were sent and answered. What
follows a compaction, or a turn that was taken back, is a recording of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agora.adapters.rules.shape import as_list, as_object
from agora.logs.calls import rising
from agora.logs.recording import Recording, Tally
from agora.logs.source import Record
from agora.logs.talk import NO_RESULT, Made
from agora.logs.usage import read_usage
from agora.logs.values import as_count, as_seconds, as_text

_LINES = frozenset(
    {"session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"}
    | {"token_usage_record"}
)
_NOT_SENT = frozenset({"additional_tools", "configuration_update", "ghost_snapshot", "other"})
_CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call"})
_OUTPUTS = {
    "function_call_output": "function_call",
    "custom_tool_call_output": "custom_tool_call",
    "local_shell_call_output": "local_shell_call",
}
_OWN = frozenset({"internal_chat_message_metadata_passthrough", "metadata"})
"""Fields of an item that Codex keeps for itself."""
Item = dict[str, Any]


def fits(value: Any) -> bool:
    """Tell whether a record is a line of a rollout."""
    fields = as_object(value)
    return as_text(fields.get("type")) in _LINES and isinstance(fields.get("payload"), dict)


def read(records: Iterator[Record], name: str, tally: Tally) -> Iterator[Recording]:
    """Return the trajectories of one session."""
    reading = _Reading(name)
    for record in records:
        line = as_object(record.value)
        payload = line.get("payload")
        if not isinstance(line.get("type"), str) or not isinstance(payload, dict):
            tally.refuse(record.where, "has no type and payload: not a line of a rollout")
            continue
        yield from reading.take(str(line["type"]), payload, as_seconds(line.get("timestamp")))
    yield from reading.close(tally)


@dataclass(slots=True)
class _Call:
    """A call of the model: where its answer begins, and what is said of it."""

    sent: int
    made: Made


@dataclass(slots=True)
class _Reading:
    """One rollout as it is read."""

    name: str
    number: int = 0
    session: str = ""
    system: str = ""
    model: str | None = None
    tools: object = None
    items: list[Item] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)
    answering: bool = False
    """Whether the newest item is the model's, so that the next one may be of the same answer."""
    spoken: list[int] = field(default_factory=list)
    """Where the user's own messages are: turns begin there."""

    def take(self, kind: str, payload: Item, at: float | None) -> Iterator[Recording]:
        """Take in a line, and return the trajectory that ended with it."""
        if kind == "session_meta" and not self.session:
            self.session = as_text(payload.get("id"))
            told = payload.get("base_instructions", payload.get("instructions"))
            self.system = as_text(as_object(told).get("text")) if isinstance(told, dict) else ""
            self.system = told if isinstance(told, str) else self.system
        elif kind == "turn_context":
            named = payload.get("model")
            self.model = named if isinstance(named, str) else self.model
        elif kind == "response_item":
            self._item(payload, at)
        elif kind == "compacted":
            yield from self._over()
            self._begin(payload)
        elif kind == "token_usage_record":
            self._billed(payload.get("usage"))
        elif payload.get("type") == "token_count":
            self._billed(as_object(payload.get("info")).get("last_token_usage"))
        elif payload.get("type") == "thread_rolled_back":
            turns = as_count(payload.get("num_turns")) or 0
            if 0 < turns <= len(self.spoken):
                yield from self._over()
                del self.items[self.spoken[-turns] :]
                del self.spoken[-turns:]

    def close(self, tally: Tally) -> Iterator[Recording]:
        """Return what is left at the end of the file."""
        if not self.calls and not self.number:
            tally.skip("the session has no answer of a model")
        yield from self._over()

    def _item(self, payload: Item, at: float | None) -> None:
        kind = as_text(payload.get("type"))
        if kind == "additional_tools":
            self.tools = payload.get("tools") or self.tools
        if kind in _NOT_SENT or not kind:
            return
        item = {k: v for k, v in payload.items() if v is not None and k not in _OWN}
        by_model = kind not in _OUTPUTS and item.get("role", "assistant") == "assistant"
        if by_model and not self.answering:
            self.calls.append(_Call(len(self.items), Made(at_seconds=at)))
        if item.get("role") == "user" and not _from_harness(item):
            self.spoken.append(len(self.items))
        self.answering = by_model
        self.items.append(item)

    def _billed(self, found: object) -> None:
        """Take in what the newest call was billed; Codex may say it twice."""
        if not self.calls or self.calls[-1].made.usage is not None:
            return
        tokens = as_count(as_object(found).get("output_tokens"))
        at = self.calls[-1].made.at_seconds
        self.calls[-1].made = Made(read_usage(found), tokens, at)

    def _begin(self, payload: Item) -> None:
        """Begin anew with what a compaction left."""
        left = [one for one in as_list(payload.get("replacement_history")) if as_object(one)]
        self.items = []
        self.spoken = []
        for one in map(as_object, left):
            self._item(one, None)
        if not left and payload.get("message"):
            self.items.append({"role": "user", "content": as_text(payload["message"])})
        self.calls = []
        self.answering = False

    def _over(self) -> Iterator[Recording]:
        items, calls = self.items, self.calls
        self.calls = []
        self.answering = False
        if not calls:
            return
        self.number += 1
        items, moved = _paired(items)
        made = [call.made for call in calls]
        usage = [one.usage for one in made if one.usage is not None]
        tokens = [one.output_tokens for one in made if one.output_tokens is not None]
        times = [one.at_seconds for one in made if one.at_seconds is not None]
        # Newer versions send their instructions as the first message, and log them twice.
        doubled = any(self.system in as_text(_text(item)) for item in items[:8])
        yield Recording(
            id=f"{self.session or self.name}:{self.number}",
            format="responses",
            messages=items,
            system=None if doubled else self.system or None,
            tools=self.tools,
            model=self.model,
            calls=tuple(min(moved[call.sent], len(items)) for call in calls),
            usage=tuple(usage) if len(usage) == len(calls) else (),
            output_tokens=tuple(tokens) if len(tokens) == len(calls) else (),
            at_seconds=rising(times) if len(times) == len(calls) else (),
            task=self.session,
            lacks="" if self.tools else "tools",
        )


def _from_harness(item: Item) -> bool:
    """Tell whether a user message is what Codex says in the user's name: it opens with a tag."""
    return _text(item).lstrip().startswith("<")


def _text(item: Item) -> str:
    content = item.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(as_text(as_object(part).get("text")) for part in as_list(content))


def _paired(items: list[Item]) -> tuple[list[Item], list[int]]:
    """Return the items with an output for each call and a call for each output.

    Also returned is where each item went. A call at the very end was not run any
    more: it is dropped with the answer it stands in.
    """
    called = {(as_text(i.get("type")), as_text(i.get("call_id"))) for i in items}
    end = len(items)
    while end and _is_answer(items[end - 1]):
        end -= 1
    if not any(_kind(item) in _CALLS for item in items[end:]):
        end = len(items)
    out: list[Item] = []
    moved: list[int] = []
    for item in items[:end]:
        moved.append(len(out))
        kind, call_id = _kind(item), as_text(item.get("call_id"))
        if kind in _OUTPUTS and (_OUTPUTS[kind], call_id) not in called:
            continue
        out.append(item)
        if kind in _CALLS and (f"{kind}_output", call_id) not in called:
            out.append({"type": f"{kind}_output", "call_id": call_id, "output": NO_RESULT})
    moved += [len(out)] * (len(items) - end + 1)
    return out, moved


def _kind(item: Item) -> str:
    return as_text(item.get("type"))


def _is_answer(item: Item) -> bool:
    return _kind(item) not in _OUTPUTS and item.get("role", "assistant") == "assistant"

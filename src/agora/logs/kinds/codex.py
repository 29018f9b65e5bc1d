"""Codex's rollouts: `sessions/**/rollout-*.jsonl`, one item, event or setting per line.

The items are those of the Responses API, as they were sent and answered. A new recording begins
after a compaction and after turns were rolled back.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agora.formats.base import as_list, as_object
from agora.formats.usage import as_count, read_usage
from agora.logs.recording import CallInfo, Recording, Tally, complete, rising
from agora.logs.source import Record
from agora.logs.values import as_seconds, as_text

_LINES = frozenset(
    {"session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"}
    | {"token_usage_record"}
)
_NOT_SENT = frozenset({"additional_tools", "configuration_update", "ghost_snapshot", "other"})
_NO_RESULT = "[no result in the log]"
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
    """Return True if a record is a line of a rollout."""
    fields = as_object(value)
    return as_text(fields.get("type")) in _LINES and isinstance(fields.get("payload"), dict)


def read(records: Iterator[Record], name: str, tally: Tally) -> Iterator[Recording]:
    """Yield the trajectories of one session."""
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
    """A call of the model: the item at which its answer begins, and the log's facts about it."""

    sent: int
    made: CallInfo


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
    """True if the newest item is the model's: the next one may belong to the same answer."""
    spoken: list[int] = field(default_factory=list)
    """Positions of the user's own messages, at which turns begin."""

    def take(self, kind: str, payload: Item, at: float | None) -> Iterator[Recording]:
        """Read a line, and yield the trajectory that ended with it."""
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
        """Yield the trajectory that is open at the end of the file."""
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
            self.calls.append(_Call(len(self.items), CallInfo(at_seconds=at)))
        if item.get("role") == "user" and not _from_harness(item):
            self.spoken.append(len(self.items))
        self.answering = by_model
        self.items.append(item)

    def _billed(self, found: object) -> None:
        """Add the usage of the newest call; Codex may log it twice."""
        if not self.calls or self.calls[-1].made.usage is not None:
            return
        self.calls[-1].made = CallInfo(read_usage(found), self.calls[-1].made.at_seconds)

    def _begin(self, payload: Item) -> None:
        """Start over with the items that a compaction left."""
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
            usage=complete(call.usage for call in made),
            at_seconds=rising(call.at_seconds for call in made),
            task=self.session,
            lacks="" if self.tools else "tools",
        )


def _from_harness(item: Item) -> bool:
    """Return True if Codex wrote this user message itself: it opens with a tag."""
    return _text(item).lstrip().startswith("<")


def _text(item: Item) -> str:
    content = item.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(as_text(as_object(part).get("text")) for part in as_list(content))


def _paired(items: list[Item]) -> tuple[list[Item], list[int]]:
    """Return the items with an output for each call and a call for each output.

    Also return the new position of each item. A call at the very end was never run: it is dropped
    with the answer it belongs to.
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
            out.append({"type": f"{kind}_output", "call_id": call_id, "output": _NO_RESULT})
    moved += [len(out)] * (len(items) - end + 1)
    return out, moved


def _kind(item: Item) -> str:
    return as_text(item.get("type"))


def _is_answer(item: Item) -> bool:
    return _kind(item) not in _OUTPUTS and item.get("role", "assistant") == "assistant"

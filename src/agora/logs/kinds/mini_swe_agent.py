"""mini-SWE-agent's trajectories: one object with the messages as they were sent.

Each answer has the provider's response beside it. An agent that uses the Responses API has that
response itself among the messages.
"""

from collections.abc import Iterator
from typing import Any

from agora.formats.base import as_list, as_object
from agora.formats.usage import read_usage
from agora.logs.answers import read_answer
from agora.logs.recording import CallInfo, Recording, Tally, complete, rising
from agora.logs.source import Record
from agora.logs.values import as_seconds, as_text

_FIELDS = ("role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content")
_OWN = frozenset({"extra", "object"})
Fields = dict[str, Any]


def fits(value: Any) -> bool:
    """Return True if a record is a trajectory of mini-swe-agent."""
    fields = as_object(value)
    if not isinstance(fields.get("messages"), list):
        return False
    return as_text(fields.get("trajectory_format")).startswith("mini-swe-agent")


def read(records: Iterator[Record], name: str, tally: Tally) -> Iterator[Recording]:
    """Yield one trajectory per record."""
    for number, record in enumerate(records, 1):
        fields = as_object(record.value)
        if not isinstance(fields.get("messages"), list):
            tally.refuse(record.where, "is no trajectory: it has no messages")
            continue
        recording = _recording(fields, f"{name}:{number}")
        if recording is None:
            tally.refuse(record.where, "holds no action of an agent")
        else:
            yield recording


def _recording(fields: Fields, own_id: str) -> Recording | None:
    info = as_object(fields.get("info"))
    model = as_object(as_object(info.get("config")).get("model")).get("model_name")
    found = [as_object(one) for one in as_list(fields["messages"])]
    responses = any(_by_responses(one) for one in found)
    messages: list[Fields] = []
    calls: list[int] = []
    made: list[CallInfo] = []
    for one in found:
        answered = one.get("role") == "assistant" or one.get("object") == "response"
        items = _items(one) if responses else _chat(one)
        if answered and items:
            calls.append(len(messages))
            made.append(_made(one))
        messages += items
    if not calls:
        return None
    while messages and _open(messages[-1]):
        messages.pop()
    acts_by_text = not responses and not any("tool_calls" in one for one in messages)
    return Recording(
        id=own_id,
        format="responses" if responses else "openai",
        messages=messages,
        model=model if isinstance(model, str) else None,
        observations="user" if acts_by_text else None,
        calls=tuple(min(at, len(messages)) for at in calls),
        usage=complete(call.usage for call in made),
        at_seconds=rising(call.at_seconds for call in made),
        task=as_text(fields.get("instance_id")),
    )


def _by_responses(one: Fields) -> bool:
    return one.get("object") == "response" or one.get("type") == "function_call_output"


def _chat(one: Fields) -> list[Fields]:
    """Return a message with only the fields of the API, or nothing for the agent's own roles."""
    if one.get("role") not in ("system", "user", "assistant", "tool"):
        return []
    message = {key: one[key] for key in _FIELDS if key in one}
    if not message.get("tool_calls"):
        message.pop("tool_calls", None)
    return [message]


def _items(one: Fields) -> list[Fields]:
    if isinstance(one.get("output"), list) and one.get("object") == "response":
        return [as_object(item) for item in as_list(one["output"]) if as_object(item)]
    if one.get("role") == "exit":
        return []
    item = {key: value for key, value in one.items() if key not in _OWN and value is not None}
    return [item] if "role" in item or "type" in item else []


def _made(one: Fields) -> CallInfo:
    extra = as_object(one.get("extra"))
    answer = read_answer(extra.get("response"))
    usage = answer.usage or read_usage(one.get("usage"))
    return CallInfo(usage, as_seconds(extra.get("timestamp")))


def _open(message: Fields) -> bool:
    """Return True if a message ends in calls, which were never run."""
    return bool(message.get("tool_calls")) or message.get("type") == "function_call"

"""LiteLLM's standard logging payloads, one call per line."""

from collections.abc import Iterator
from typing import Any

from agora.errors import UnknownFormatError
from agora.formats.base import as_object
from agora.formats.requests import detect
from agora.formats.usage import read_usage
from agora.logs.answers import read_answer
from agora.logs.calls import Grouping, LoggedCall
from agora.logs.recording import Recording, Tally
from agora.logs.source import Record
from agora.logs.values import as_json, as_seconds

_WRAPPER = "standard_logging_object"
_OWN = ("litellm_call_id", "model_map_information", "hidden_params", "startTime")
_CHAT = frozenset({"completion", "acompletion", "text_completion", "anthropic_messages"})
_RESPONSES = frozenset({"responses", "aresponses"})


def fits(value: Any) -> bool:
    """Return True if a record is a payload of LiteLLM."""
    fields = _payload(value)
    return "call_type" in fields and "messages" in fields and any(key in fields for key in _OWN)


def read(records: Iterator[Record], name: str, tally: Tally) -> Iterator[Recording]:
    """Yield the trajectories that the calls make up."""
    grouping = Grouping(name, tally)
    for record in records:
        call = _call(_payload(record.value), record, tally)
        if call is not None:
            yield from grouping.add(call, record.where)
    yield from grouping.close()


def _payload(value: Any) -> dict[str, object]:
    fields = as_object(value)
    return as_object(as_json(fields[_WRAPPER])) if _WRAPPER in fields else fields


def _call(payload: dict[str, object], record: Record, tally: Tally) -> LoggedCall | None:
    kind = payload.get("call_type")
    if not isinstance(kind, str) or "messages" not in payload:
        tally.refuse(record.where, "has no call_type and messages: not a logging payload")
        return None
    responses = kind in _RESPONSES
    if not responses and kind not in _CHAT:
        tally.skip(f"the call is of type {kind[:40]}")
        return None
    if payload.get("status") == "failure":
        tally.skip("the call failed")
        return None
    if payload.get("cache_hit") is True:
        tally.skip("LiteLLM answered from its own cache")
        return None
    messages = as_json(payload["messages"])
    if isinstance(messages, dict):
        messages = messages.get("messages")
    if isinstance(messages, str) and responses:
        messages = [{"role": "user", "content": messages}]
    if not isinstance(messages, list):
        tally.refuse(record.where, "has no list of messages: message logging may be off")
        return None
    parameters = as_object(payload.get("model_parameters"))
    system = parameters.get("instructions" if responses else "system")
    answer = read_answer(as_json(payload.get("response")))
    try:
        format = "responses" if responses else _format(kind, messages, system)
    except (UnknownFormatError, TypeError) as error:
        tally.refuse(record.where, str(error))
        return None
    previous = parameters.get("previous_response_id")
    model = payload.get("model")
    return LoggedCall(
        format=format,
        messages=messages,
        size=record.size,
        system=system,
        tools=parameters.get("tools"),
        model=model if isinstance(model, str) else None,
        answer=answer.messages if answer.format == format else [],
        answer_id=answer.id,
        previous_id=previous if isinstance(previous, str) else "",
        usage=read_usage(payload) or answer.usage,
        at_seconds=as_seconds(payload.get("startTime")),
        task=_trace(payload),
    )


def _format(kind: str, messages: list[Any], system: object) -> str:
    return "anthropic" if kind == "anthropic_messages" else detect(messages, system=system)


def _trace(payload: dict[str, object]) -> str:
    """Return the conversation a call belongs to, if it is not just the call's own id."""
    for key in ("session_id", "litellm_session_id", "trace_id"):
        found = payload.get(key)
        if isinstance(found, str) and found and found != payload.get("litellm_call_id"):
            return found
    return ""

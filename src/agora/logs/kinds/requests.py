"""Logs of request bodies, one call per line, in any format that is read.

A line is the body itself, or an object that holds it as `request` or `body`, perhaps with the
`response` next to it. Whole conversations are read too: a line whose messages end with the agent's
answer, or a file that is one list of messages.
"""

from collections.abc import Iterator
from typing import Any

from agora.errors import UnknownFormatError
from agora.formats import format_named, read_request
from agora.formats.base import as_list, as_object, kind_of
from agora.formats.usage import Usage, read_usage
from agora.logs.answers import read_answer
from agora.logs.calls import Grouping, LoggedCall
from agora.logs.recording import Recording, Tally
from agora.logs.source import MAX_RECORD_BYTES, Record
from agora.logs.values import as_json, as_seconds

_WRAPPERS = ("request", "body", "request_body", "requestBody", "params")
_RESPONSES = ("response", "response_body", "responseBody", "completion", "output")
_TIMES = ("timestamp", "time", "created_at", "start_time", "startTime", "ts", "created")
_TRACES = ("trajectory_id", "conversation_id", "session_id", "trace_id", "run_id")
_TASKS = ("task_id", "instance_id", "task", "custom_id", "id")
_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_ITEMS = ("message", "reasoning", "function_call", "function_call_output")


def fits(value: Any) -> bool:
    """Return True if a record is a call, a conversation, or a message of one."""
    return _body(value) is not None or _is_message(value)


def read(records: Iterator[Record], name: str, tally: Tally) -> Iterator[Recording]:
    """Yield the trajectories that the calls make up."""
    grouping = Grouping(name, tally)
    loose: list[Any] = []
    loose_bytes = 0
    for record in records:
        body = _body(record.value)
        if body is None:
            if not _is_message(record.value):
                found = kind_of(record.value)
                tally.refuse(record.where, f"is {found} with neither messages, input nor contents")
            elif loose_bytes > MAX_RECORD_BYTES:
                tally.refuse(record.where, "is a message of a conversation too large to hold")
            else:
                loose.append(record.value)
                loose_bytes += record.size
            continue
        call = _call(body, record, tally)
        if call is not None:
            yield from grouping.add(call, record.where)
    if loose:
        call = _call(loose, Record(None, name, loose_bytes), tally)
        if call is not None:
            yield from grouping.add(call, name)
    yield from grouping.close()


def _body(value: Any) -> Any:
    """Return the request body in a record: an object with messages, or bare messages."""
    if isinstance(value, list):
        return value if value and all(map(_is_message, value)) else None
    if not isinstance(value, dict):
        return None
    for key in _WRAPPERS:
        if key in value:
            inner = as_json(value[key])
            if isinstance(inner, dict):
                inner = _request_in(as_json(inner.get("body", inner)))
                if inner is not None:
                    return inner
    return _request_in(value)


def _request_in(value: Any) -> dict[str, Any] | None:
    """Return an object that holds messages, without an `input` that some logs put next to them."""
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("messages"), list):
        return {k: value[k] for k in value if k != "input"} if "input" in value else value
    if isinstance(value.get("contents"), list) and all(map(_is_turn, value["contents"])):
        return value
    return value if isinstance(value.get("input"), str | list) else None


def _is_turn(value: Any) -> bool:
    """Return True if a value is one of Gemini's contents."""
    return isinstance(as_object(value).get("parts"), list)


def _is_message(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    if value.get("role") in _ROLES:
        return "content" in value or "tool_calls" in value or "function_call" in value
    return value.get("type") in _ITEMS and ("call_id" in value or "summary" in value)


def _call(body: Any, record: Record, tally: Tally) -> LoggedCall | None:
    try:
        request = read_request(body)
    except (UnknownFormatError, TypeError) as error:
        tally.refuse(record.where, str(error))
        return None
    beside = as_object(record.value)
    answer = read_answer(as_json(_first(beside, _RESPONSES)))
    if answer.failed:
        tally.skip("the call failed")
        return None
    messages = request.messages
    if isinstance(messages, str):
        messages = [format_named(request.format).user_message(messages)]
    format = request.format
    if format == "openai" and answer.format == "anthropic":
        # Plain messages fit both formats, so the answer decides.
        format = "anthropic"
    fields = as_object(body)
    previous = fields.get("previous_response_id")
    metadata = as_object(fields.get("metadata"))
    return LoggedCall(
        format=format,
        messages=messages,
        size=record.size,
        system=request.system,
        tools=request.tools,
        thinking=request.thinking,
        model=request.model if isinstance(request.model, str) else None,
        answer=answer.messages if answer.format in ("", format) else [],
        answer_id=answer.id,
        previous_id=previous if isinstance(previous, str) else "",
        usage=answer.usage,
        whole_usage=_usage_of_calls(beside.get("usage"), messages),
        at_seconds=as_seconds(_first(beside, _TIMES)),
        trace=_name(_first(beside, _TRACES) or _first(metadata, _TRACES)),
        task=_name(_first(beside, _TASKS) or _first(metadata, _TASKS)),
    )


def _usage_of_calls(value: object, messages: list[Any]) -> tuple[Usage, ...]:
    """Return the usage reported per call next to a finished conversation, if every call has one."""
    found = [usage for one in as_list(value) if (usage := read_usage(one)) is not None]
    spoken = sum(as_object(message).get("role") == "assistant" for message in messages)
    return tuple(found) if len(found) == spoken else ()


def _first(fields: dict[str, object], keys: tuple[str, ...]) -> object:
    return next((fields[key] for key in keys if fields.get(key) is not None), None)


def _name(value: object) -> str:
    return str(value) if isinstance(value, str | int) else ""

"""Langfuse's exports: observations of type GENERATION are calls of a model.

Read are lists and lines of observations, pages of its API, and traces with
their observations, in the names of the API and in those of its bulk export.
"""

from collections.abc import Iterator
from typing import Any

from agora.adapters.rules.shape import as_list, as_object
from agora.logs.calls import LoggedCall
from agora.logs.chat import as_chat
from agora.logs.ordered import Fields, Ordered, read_ordered
from agora.logs.recording import Recording, Tally
from agora.logs.source import Record
from agora.logs.usage import Usage
from agora.logs.values import as_count, as_json, as_seconds, as_text

_TYPES = frozenset(
    {"GENERATION", "SPAN", "EVENT", "AGENT", "TOOL", "CHAIN", "RETRIEVER", "EVALUATOR"}
    | {"EMBEDDING", "GUARDRAIL"}
)


def fits(value: Any) -> bool:
    """Tell whether a record is an observation, a page of them, or a trace with them."""
    return any(map(_is_observation, _listed(as_object(value))))


def _is_observation(fields: Fields) -> bool:
    return as_text(fields.get("type")) in _TYPES and ("traceId" in fields or "trace_id" in fields)


def _listed(fields: Fields) -> list[Fields]:
    """Return the observations in a record, or the record itself."""
    for key in ("observations", "data"):
        found = [as_object(one) for one in as_list(as_json(fields.get(key)))]
        if found:
            inside = {k: fields[k] for k in ("sessionId",) if k in fields}
            return [{**inside, **one} for one in found]
    return [fields]


def _observations(fields: Fields) -> Iterator[Fields]:
    return filter(_is_observation, _listed(fields))


def read(records: Iterator[Record], name: str, tally: Tally) -> Iterator[Recording]:
    """Return the trajectories that the generations of each trace make up."""
    return read_ordered(
        records,
        Ordered(name, tally),
        tally,
        parts=_observations,
        call=_call,
        lacks="holds no observation: it has no type and traceId",
    )


def _call(one: Fields, record: Record, tally: Tally) -> LoggedCall | None:
    if one.get("type") != "GENERATION":
        tally.skip("the observation is no call of a model")
        return None
    if one.get("level") == "ERROR":
        tally.skip("the call failed")
        return None
    given = as_json(one.get("input"))
    beside = as_object(given)
    sent = as_list(beside.get("messages", beside.get("input"))) if beside else as_list(given)
    if not sent:
        tally.skip("the generation was traced without messages")
        return None
    messages = [message for value in sent for message in as_chat(value)]
    if beside.get("system"):
        messages = [*as_chat({"role": "system", "content": beside["system"]}), *messages]
    answered = as_object(as_json(one.get("output")))
    choice = as_object(next(iter(as_list(answered.get("choices"))), None))
    answered = as_object(choice.get("message")) or answered
    details = as_object(as_json(_either(one, "usageDetails", "usage_details"))) or as_object(
        one.get("usage")
    )
    model = _either(one, "model", "provided_model_name")
    session = _either(one, "sessionId", "session_id")
    return LoggedCall(
        format="openai",
        messages=messages,
        size=min(record.size, sum(len(as_text(m.get("content"))) for m in messages) + 200),
        tools=as_list(beside.get("tools")) or None,
        model=model if isinstance(model, str) else None,
        answer=as_chat({"role": "assistant", **answered}) if answered else [],
        output_tokens=as_count(details.get("output")),
        usage=_usage(details),
        at_seconds=as_seconds(_either(one, "startTime", "start_time")),
        trace=as_text(_either(one, "traceId", "trace_id")),
        task=as_text(session),
    )


def _either(fields: Fields, *keys: str) -> object:
    return next((fields[key] for key in keys if fields.get(key) is not None), None)


def _usage(details: Fields) -> Usage | None:
    """Return what was billed. Whatever is called input adds up to the prompt."""
    counts = {key: as_count(value) for key, value in details.items() if "input" in key}
    known = {key: count for key, count in counts.items() if count is not None}
    if not known:
        return None
    read = sum(n for key, n in known.items() if "cached" in key or "cache_read" in key)
    written = sum(n for key, n in known.items() if "cache_creation" in key or "cache_write" in key)
    return Usage(sum(known.values()), read, written)

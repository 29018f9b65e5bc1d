"""OpenTelemetry spans of model calls, as OTLP-JSON or one span per record.

Three ways of writing the messages are known: the GenAI conventions
(`gen_ai.input.messages`), their indexed forerunner (`gen_ai.prompt.0.role`) and
OpenInference (`llm.input_messages.0.message.role`). All become OpenAI chat
messages. Spans are exported when they end, so the calls of a trace are sorted by
the time at which they began.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from agora.core.request import Observations
from agora.formats.base import as_list, as_object
from agora.formats.usage import Usage, as_count, read_usage
from agora.logs.calls import Grouping, LoggedCall
from agora.logs.chat import as_chat
from agora.logs.recording import Recording, Tally
from agora.logs.source import Record
from agora.logs.values import as_json, as_seconds, as_text

_SPAN_IDS = ("span_id", "spanId", "context", "traceId", "trace_id")
_NO_CALLS = (
    "invoke_agent",
    "create_agent",
    "execute_tool",
    "embeddings",
    "invoke_workflow",
    "retrieval",
)
_USAGE = {
    "prompt_tokens": (
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.prompt_tokens",
        "llm.usage.prompt_tokens",
        "llm.token_count.prompt",
    ),
    "cached_tokens": (
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_read_input_tokens",
        "llm.token_count.prompt_details.cache_read",
    ),
    "cache_write_tokens": (
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
        "llm.token_count.prompt_details.cache_write",
    ),
    "completion_tokens": (
        "gen_ai.usage.output_tokens",
        "gen_ai.usage.completion_tokens",
        "llm.usage.completion_tokens",
        "llm.token_count.completion",
    ),
}
"""The attributes of each field of a provider's usage. The prompt's total includes the cached."""
_MODELS = (
    "gen_ai.request.model",
    "gen_ai.response.model",
    "llm.model_name",
    "llm.request.model",
)
MAX_HELD_BYTES = 64 << 20
"""Of the log's own text: the trace that is idle longest is assumed finished when there is more."""
Attributes = dict[str, Any]


def fits(value: Any) -> bool:
    """Return True for a batch of spans, a trace, or a span."""
    fields = as_object(value)
    if "resourceSpans" in fields or "resource_spans" in fields:
        return True
    if isinstance(fields.get("spans"), list) and ("trace_id" in fields or "traceId" in fields):
        return True
    named = any(key in fields for key in ("attributes", "span_attributes"))
    return named and any(key in fields for key in _SPAN_IDS)


def read(records: Iterator[Record], name: str, tally: Tally) -> Iterator[Recording]:
    """Yield the trajectories that the calls of each trace make up."""
    grouping = Grouping(name, tally)
    traces = _Traces(grouping)
    for record in records:
        found = False
        try:
            for span, resource in _spans(record.value):
                found = True
                call = _call(span, resource, record)
                if call is not None:
                    traces.add(call, record.where)
        except RecursionError:
            tally.refuse(record.where, "is nested too deeply")
            continue
        if not found:
            tally.refuse(record.where, "holds no span")
        yield from traces.give(down_to=MAX_HELD_BYTES)
    yield from traces.give()
    yield from grouping.close()


@dataclass(slots=True)
class _Traces:
    """The calls of each trace, held until the trace is over, to be put in order."""

    grouping: Grouping
    size: int = 0
    calls: dict[str, list[tuple[LoggedCall, str]]] = field(default_factory=dict)
    """By trace, the longest idle first."""

    def add(self, call: LoggedCall, where: str) -> None:
        self.calls[call.trace] = calls = self.calls.pop(call.trace, [])
        calls.append((call, where))
        self.size += call.size

    def give(self, *, down_to: int = -1) -> Iterator[Recording]:
        """Yield the trajectories of traces until the held bytes are below a limit."""
        while self.calls and self.size > down_to:
            calls = self.calls.pop(next(iter(self.calls)))
            self.size -= sum(call.size for call, _ in calls)
            for call, where in sorted(calls, key=lambda pair: pair[0].at_seconds or 0.0):
                yield from self.grouping.add(call, where)


def _spans(value: Any) -> Iterator[tuple[dict[str, object], Attributes]]:
    """Return every span in a record, with the attributes of the resource it came from."""
    fields = as_object(value)
    batches = as_list(fields.get("resourceSpans", fields.get("resource_spans")))
    for batch in map(as_object, batches):
        resource = _attributes(as_object(batch.get("resource")).get("attributes"))
        scopes = batch.get("scopeSpans", batch.get("scope_spans"))
        for scope in map(as_object, as_list(scopes)):
            for span in as_list(scope.get("spans")):
                yield as_object(span), resource
    if batches:
        return
    pending = as_list(fields.get("spans")) if "spans" in fields else [value]
    stack = list(reversed(pending))
    while stack:
        span = as_object(stack.pop())
        if span:
            yield span, {}
        stack.extend(reversed(as_list(span.get("child_spans", span.get("children")))))


def _attributes(value: Any) -> Attributes:
    """Return attributes as a plain object, from one or from OTLP's list of keys and values."""
    if isinstance(value, dict):
        return value
    return {
        str(pair.get("key")): _plain(pair.get("value")) for pair in map(as_object, as_list(value))
    }


def _plain(value: Any) -> Any:
    """Return the content of an OTLP value."""
    if not isinstance(value, dict):
        return value
    for key, inner in value.items():
        if key == "intValue":
            count = as_count(inner)
            return inner if count is None else count
        if key == "arrayValue":
            return [_plain(item) for item in as_list(as_object(inner).get("values"))]
        if key == "kvlistValue":
            return _attributes(as_object(inner).get("values"))
        if key.endswith("Value"):
            return inner
    return None


def _call(span: dict[str, object], resource: Attributes, record: Record) -> LoggedCall | None:
    """Return the call that a span describes, if it is a call of a model."""
    attributes = _attributes(span.get("attributes", span.get("span_attributes")))
    events = [as_object(event) for event in as_list(span.get("events"))]
    if attributes.get("gen_ai.operation.name") in _NO_CALLS:
        return None
    if attributes.get("openinference.span.kind", "LLM") != "LLM":
        return None
    sent, answered = _conventions(attributes, events)
    if not sent:
        sent, answered = _indexed(attributes, "gen_ai.prompt", "gen_ai.completion", "")
    if not sent:
        prefixes = ("llm.input_messages", "llm.output_messages")
        sent, answered = _indexed(attributes, *prefixes, "message")
    if not sent:
        return None
    messages = [message for one in sent for message in as_chat(one)]
    told = any(message["role"] == "tool" or "tool_calls" in message for message in messages)
    spoken: Observations | None = None
    if not told and any(as_object(one).get("role") == "tool-response" for one in sent):
        spoken = "user"
    model = next((attributes[key] for key in _MODELS if attributes.get(key)), None)
    task = attributes.get("gen_ai.conversation.id", attributes.get("session.id"))
    return LoggedCall(
        format="openai",
        messages=messages,
        # Several spans may share a record. The size of each is that of its own text.
        size=min(record.size, sum(len(as_text(m.get("content"))) for m in messages) + 200),
        tools=_tools(attributes),
        model=model if isinstance(model, str) else None,
        observations=spoken,
        answer=[message for one in answered[:1] for message in as_chat(one)],
        usage=_usage(attributes),
        at_seconds=_start(span),
        trace=_trace_id(span),
        task=task if isinstance(task, str) else str(resource.get("session.id") or ""),
    )


def _usage(attributes: Attributes) -> Usage | None:
    fields = {
        name: next((attributes[key] for key in keys if key in attributes), None)
        for name, keys in _USAGE.items()
    }
    return read_usage(fields) if as_count(fields["prompt_tokens"]) else None


def _start(span: dict[str, object]) -> float | None:
    """Return when a span began."""
    for key in ("startTimeUnixNano", "start_time_unix_nano"):
        nanoseconds = as_count(span.get(key))
        if nanoseconds is not None:
            return nanoseconds / 1e9
    times = (as_seconds(span.get(key)) for key in ("start_time", "startTime", "timestamp"))
    return next((at for at in times if at is not None), None)


def _trace_id(span: dict[str, object]) -> str:
    inner = as_object(span.get("context"))
    for fields in (span, inner):
        for key in ("traceId", "trace_id"):
            if isinstance(fields.get(key), str):
                return str(fields[key])
    return ""


def _conventions(
    attributes: Attributes, events: Sequence[dict[str, object]]
) -> tuple[list[Any], list[Any]]:
    """Return request and answer by the current GenAI conventions."""
    sources = [attributes]
    sources += [_attributes(event.get("attributes")) for event in events]
    for source in sources:
        sent = as_list(as_json(source.get("gen_ai.input.messages")))
        if sent:
            system = as_list(as_json(source.get("gen_ai.system_instructions")))
            if system:
                sent = [{"role": "system", "parts": system}, *sent]
            return sent, as_list(as_json(source.get("gen_ai.output.messages")))
    return [], []


def _indexed(
    attributes: Attributes, sent: str, answered: str, inner: str
) -> tuple[list[Any], list[Any]]:
    """Return messages whose fields are attributes of their own: `prefix.0.role`."""
    out: list[list[Any]] = []
    for prefix in (sent, answered):
        found = [as_object(one) for one in as_list(_nested(attributes, prefix))]
        out.append([as_object(one.get(inner)) if inner else one for one in found])
    return out[0], out[1]


def _nested(attributes: Attributes, prefix: str) -> Any:
    """Return the value that dotted keys below `prefix` spell: numbers are places in a list."""
    tree: dict[str, Any] = {}
    for key, value in attributes.items():
        if not key.startswith(prefix + "."):
            continue
        at = tree
        *path, last = key[len(prefix) + 1 :].split(".")
        for part in path:
            inner = at.get(part)
            if not isinstance(inner, dict):
                at[part] = inner = {}
            at = inner
        at.setdefault(last, value)
    return _listed(tree)


def _listed(tree: Any) -> Any:
    if not isinstance(tree, dict) or not tree:
        return tree
    if all(key.isascii() and key.isdigit() and len(key) < 9 for key in tree):
        return [_listed(tree[key]) for key in sorted(tree, key=int)]
    return {key: _listed(value) for key, value in tree.items()}


def _tools(attributes: Attributes) -> object:
    """Return the tools that were offered, as chat completions would have them."""
    found = as_list(as_json(attributes.get("gen_ai.tool.definitions")))
    if not found:
        listed = map(as_object, as_list(_nested(attributes, "llm.tools")))
        found = [as_json(as_object(one.get("tool")).get("json_schema")) for one in listed]
    if not found:
        found = as_list(_nested(attributes, "llm.request.functions"))
    tools: list[object] = []
    for one in map(as_object, found):
        if "function" in one:
            tools.append(one)
        elif "name" in one:
            kept = {key: as_json(one[key]) for key in one if key != "type"}
            tools.append({"type": "function", "function": kept})
    return tools or None

"""One OpenTelemetry span per request, in the GenAI conventions, never with content."""

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

import agora
from agora.errors import MissingExtraError
from agora.gateway.config import Telemetry
from agora.gateway.watching.exchange import Exchange

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import SpanContext

OPERATIONS: Mapping[str, str] = {
    "chat": "chat",
    "responses": "chat",
    "messages": "chat",
    "generate": "generate_content",
    "converse": "chat",
}
"""Routes that ask a language model; the others are reported as plain requests."""
PROVIDERS: Mapping[str, str] = {
    "openai": "openai",
    "anthropic": "anthropic",
    "gemini": "gcp.gemini",
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
}
"""What the conventions call those whose APIs are known here."""
_PROCESS = str(uuid.uuid4())
"""Tells processes of one service apart: each counts for itself."""


class Spans:
    """Tells a collector about requests when they are over.

    A span is made whole from what is known at the end, with the times it had,
    so the path of a request holds nothing open. It continues the trace of the
    client's `traceparent`, which itself is forwarded unchanged.
    """

    def __init__(self, settings: Telemetry, exporter: "SpanExporter") -> None:
        try:
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
        except ImportError as error:
            raise MissingExtraError(__name__, "telemetry") from error
        self._provider = TracerProvider(
            resource=resource(settings),
            sampler=ParentBased(TraceIdRatioBased(settings.sample_ratio)),
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("agora.gateway", agora.__version__)

    def record(self, exchange: Exchange) -> None:
        """Hand over one finished request. It never waits for the collector."""
        from opentelemetry.trace import SpanKind, Status, StatusCode

        span = self._tracer.start_span(
            span_name(exchange),
            context=_parent(exchange.traceparent),
            kind=SpanKind.CLIENT,
            attributes=attributes(exchange),
            start_time=exchange.started_ns or None,
        )
        if exchange.error or exchange.status == 0 or exchange.status >= 400:
            span.set_status(Status(StatusCode.ERROR))
        span.end(exchange.ended_ns or None)

    def close(self) -> None:
        """Send what is left, and stop."""
        self._provider.shutdown()


def spans_for(settings: Telemetry) -> Spans | None:
    """Return what tells the configured collector, or None where none is configured.

    Raises:
        MissingExtraError: a collector is configured and the packages for it are not installed.
    """
    if settings.endpoint is None:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise MissingExtraError(__name__, "telemetry") from error
    return Spans(settings, OTLPSpanExporter(endpoint=f"{settings.endpoint}/v1/traces", timeout=5))


def resource(settings: Telemetry) -> "Resource":
    """Return who it is that tells."""
    from opentelemetry.sdk.resources import Resource

    # Not `Resource.create`: that also takes in what the environment and the command line say.
    return Resource(
        {
            "service.name": settings.service_name,
            "service.version": agora.__version__,
            "service.instance.id": _PROCESS,
        }
    )


def span_name(exchange: Exchange) -> str:
    """Return the operation and the model it was asked of.

    >>> span_name(Exchange(route="messages", tenant="t-1", model="claude-opus-5", status=200))
    'chat claude-opus-5'
    >>> span_name(Exchange(route="other", tenant="t-1"))
    'other'
    """
    operation = OPERATIONS.get(exchange.route, exchange.route)
    model = exchange.logged_model
    return f"{operation} {model}" if model and exchange.route in OPERATIONS else operation


def attributes(exchange: Exchange) -> dict[str, str | int | float | bool]:
    """Return what the span says: names, counts, outcomes. There is no option for content.

    The conventions count cached tokens among the input tokens, for every provider.
    """
    values: dict[str, str | int | float | bool] = {
        "agora.route": exchange.route,
        "agora.tenant": exchange.tenant,
        "agora.rung": exchange.rung,
        "agora.reason": exchange.reason,
        "agora.held_ms": exchange.held_ms,
    }
    if exchange.route in OPERATIONS:
        values["gen_ai.operation.name"] = OPERATIONS[exchange.route]
    if exchange.family:
        values["gen_ai.provider.name"] = PROVIDERS.get(exchange.family, exchange.family)
    if exchange.logged_model:
        values["gen_ai.request.model"] = exchange.logged_model
    if exchange.upstream:
        values["agora.upstream"] = exchange.upstream
    if exchange.server:
        values["server.address"], values["server.port"] = exchange.server, exchange.port
    if exchange.stream:
        values["gen_ai.request.stream"] = True
    if exchange.first_chunk_ms:
        values["gen_ai.response.time_to_first_chunk"] = exchange.first_chunk_ms / 1e3
    if exchange.status:
        values["http.response.status_code"] = exchange.status
    prompt = exchange.fresh + exchange.read + exchange.written
    if prompt or exchange.output:
        values["gen_ai.usage.input_tokens"] = prompt
        values["gen_ai.usage.output_tokens"] = exchange.output
        values["gen_ai.usage.cache_read.input_tokens"] = exchange.read
        values["gen_ai.usage.cache_creation.input_tokens"] = exchange.written
    if exchange.tokens_in:
        values["agora.tokens_in"] = exchange.tokens_in
        values["agora.tokens_out"] = exchange.tokens_out
    if exchange.dollars_saved:
        values["agora.dollars_saved"] = exchange.dollars_saved
    if exchange.rule:
        values["agora.rule"] = exchange.rule
    if exchange.resent:
        values["agora.resent"] = True
    if exchange.rereads:
        values["agora.rereads"] = exchange.rereads
    if error := error_type(exchange):
        values["error.type"] = error
    return values


def error_type(exchange: Exchange) -> str:
    """Return the kind of what went wrong: our own word, else the status; nothing if all went well.

    >>> error_type(Exchange(route="chat", tenant="t", status=429))
    '429'
    """
    if exchange.error:
        return exchange.error
    return str(exchange.status) if exchange.status >= 400 else ""


def _parent(traceparent: str) -> "Context | None":
    """Return the context a W3C `traceparent` names; None where it names none."""
    span_context = _span_context(traceparent)
    if span_context is None:
        return None
    from opentelemetry.trace import NonRecordingSpan, set_span_in_context

    return set_span_in_context(NonRecordingSpan(span_context))


def _span_context(traceparent: str) -> "SpanContext | None":
    parts = traceparent.strip().split("-")
    if [len(part) for part in parts[:4]] != [2, 32, 16, 2]:
        return None
    if any(c not in "0123456789abcdef" for part in parts[:4] for c in part):
        return None
    from opentelemetry.trace import SpanContext, TraceFlags

    trace_id, span_id = int(parts[1], 16), int(parts[2], 16)
    if not trace_id or not span_id:
        return None
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(int(parts[3], 16)))

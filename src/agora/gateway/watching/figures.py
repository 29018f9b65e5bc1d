"""Metrics of model calls by OpenTelemetry's GenAI conventions, never with content."""

from typing import TYPE_CHECKING

import agora
from agora.errors import MissingExtraError
from agora.gateway.config import Telemetry
from agora.gateway.watching.exchange import Exchange
from agora.gateway.watching.labels import OTHER, Names
from agora.gateway.watching.traces import OPERATIONS, PROVIDERS, error_type, resource

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricReader
    from opentelemetry.sdk.metrics.view import View

TOKENS = "gen_ai.client.token.usage"
DURATION = "gen_ai.client.operation.duration"
FIRST_CHUNK = "gen_ai.client.operation.time_to_first_chunk"
_TOKEN_BOUNDS = tuple(4.0**power for power in range(14))
_SECOND_BOUNDS = tuple(0.01 * 2**power for power in range(14))
"""As the conventions list them: 1 to 67,108,864 tokens, 0.01 to 81.92 seconds."""
_EVERY_MS = 60_000
_MOST_MODELS = 40

Attributes = dict[str, str | int]


class Figures:
    """Counts finished model calls for a collector, which gets the sums once a minute.

    The gateway is a client of the models, so these are the conventions' client metrics. Of one's
    own are the tokens that were elided, and what the steps after an edit say about it. Tenants are
    in spans and not here: their product with models has no useful bound.
    """

    def __init__(self, settings: Telemetry, reader: "MetricReader") -> None:
        try:
            from opentelemetry.sdk.metrics import MeterProvider
        except ImportError as error:
            raise MissingExtraError(__name__, "telemetry") from error
        self._provider = MeterProvider(
            metric_readers=[reader], resource=resource(settings), views=_views()
        )
        meter = self._provider.get_meter("agora.gateway", agora.__version__)
        self._models = Names(_MOST_MODELS)
        self._tokens = meter.create_histogram(
            TOKENS, "{token}", "Number of input and output tokens used."
        )
        self._duration = meter.create_histogram(DURATION, "s", "GenAI operation duration.")
        self._first_chunk = meter.create_histogram(
            FIRST_CHUNK, "s", "Time to receive the first chunk of a streamed answer."
        )
        self._came = meter.create_counter(
            "agora.tokens.received", "{token}", "Prompt tokens received, by our estimate."
        )
        self._removed = meter.create_counter(
            "agora.tokens.removed", "{token}", "Prompt tokens elided, by our estimate."
        )
        self._after_edit = meter.create_counter(
            "agora.steps.after_edit", "{step}", "Steps that came after an edit."
        )
        self._rereads = meter.create_counter(
            "agora.steps.reread", "{step}", "Of these, how many did again what an elided step did."
        )

    def record(self, exchange: Exchange) -> None:
        """Count one finished request; those that ask no model are not counted."""
        if exchange.route not in OPERATIONS:
            return
        told = self._attributes(exchange)
        if exchange.whole and exchange.ended_ns > exchange.started_ns > 0:
            error = error_type(exchange)
            self._duration.record(
                (exchange.ended_ns - exchange.started_ns) / 1e9,
                {**told, "error.type": error} if error else told,
            )
        if exchange.first_chunk_ms:
            self._first_chunk.record(exchange.first_chunk_ms / 1e3, told)
        # The conventions count cached tokens among the input tokens, for every provider.
        prompt = exchange.fresh + exchange.read + exchange.written
        if prompt or exchange.output:
            self._tokens.record(prompt, {**told, "gen_ai.token.type": "input"})
            self._tokens.record(exchange.output, {**told, "gen_ai.token.type": "output"})
        if exchange.tokens_in:
            self._came.add(exchange.tokens_in, told)
            self._removed.add(max(0, exchange.tokens_in - exchange.tokens_out), told)
        if exchange.after_edit:
            seen = {**told, "agora.mode": "shadow" if exchange.shadow else "edit"}
            self._after_edit.add(exchange.after_edit, seen)
            self._rereads.add(exchange.rereads, seen)

    def close(self) -> None:
        """Send what is left, and stop."""
        self._provider.shutdown()

    def _attributes(self, exchange: Exchange) -> Attributes:
        """Return what the conventions ask for: few values each, and none that a client made up."""
        told: Attributes = {"gen_ai.operation.name": OPERATIONS[exchange.route]}
        if exchange.family:
            told["gen_ai.provider.name"] = PROVIDERS.get(exchange.family, exchange.family)
        if exchange.logged_model and (model := self._models.of(exchange.logged_model)) != OTHER:
            told["gen_ai.request.model"] = model
        if exchange.server:
            told["server.address"], told["server.port"] = exchange.server, exchange.port
        return told


def figures_for(settings: Telemetry) -> Figures:
    """Return what counts for the configured collector.

    Raises:
        MissingExtraError: the packages for it are not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    except ImportError as error:
        raise MissingExtraError(__name__, "telemetry") from error
    exporter = OTLPMetricExporter(endpoint=f"{settings.endpoint}/v1/metrics", timeout=5)
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=_EVERY_MS)
    return Figures(settings, reader)


def _views() -> "list[View]":
    """Return the bucket bounds of the conventions; the SDK's own are meant for milliseconds."""
    from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View

    bounds = {TOKENS: _TOKEN_BOUNDS, DURATION: _SECOND_BOUNDS, FIRST_CHUNK: _SECOND_BOUNDS}
    return [
        View(instrument_name=name, aggregation=ExplicitBucketHistogramAggregation(bound))
        for name, bound in bounds.items()
    ]

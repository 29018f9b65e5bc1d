"""What an OpenTelemetry collector is told about a finished request."""

from dataclasses import dataclass

from agora.gateway.config import Telemetry
from agora.gateway.watching.exchange import Exchange
from agora.gateway.watching.figures import Figures, figures_for
from agora.gateway.watching.traces import Spans, spans_for


@dataclass(frozen=True, slots=True)
class Reporter:
    """Hands each request on to spans and, where they are wanted, to metrics."""

    spans: Spans
    figures: Figures | None = None

    def record(self, exchange: Exchange) -> None:
        """Hand over one finished request. It never waits for the collector."""
        self.spans.record(exchange)
        if self.figures is not None:
            self.figures.record(exchange)

    def close(self) -> None:
        """Send what is left, and stop."""
        self.spans.close()
        if self.figures is not None:
            self.figures.close()


def reporter_for(settings: Telemetry) -> Reporter | None:
    """Return what tells the configured collector, or None where none is configured.

    Raises:
        MissingExtraError: a collector is configured and the packages for it are not installed.
    """
    spans = spans_for(settings)
    if spans is None:
        return None
    return Reporter(spans, figures_for(settings) if settings.metrics else None)

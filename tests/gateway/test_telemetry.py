import json
import subprocess
import sys

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the extra telemetry is not installed")

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from agora.gateway.config import Telemetry
from agora.gateway.watching.exchange import Exchange
from agora.gateway.watching.traces import Spans, attributes, span_name, spans_for

CANARY = "sk-canary-7f3a9c1e5b2d8f60"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
EXCHANGE = Exchange(
    route="messages",
    tenant="t-1",
    upstream="anthropic",
    family="anthropic",
    model="claude-opus-5",
    status=200,
    rung=0,
    reason="compressed",
    tokens_in=9_000,
    tokens_out=3_000,
    fresh=10,
    read=2_900,
    written=100,
    output=55,
    dollars_saved=0.5,
    started_ns=1_700_000_000_000_000_000,
    ended_ns=1_700_000_002_000_000_000,
    traceparent=f"00-{TRACE}-{SPAN}-01",
    stream=True,
    first_chunk_ms=250.0,
    rereads=1,
    server="api.anthropic.com",
    port=443,
)


def record(*exchanges: Exchange, settings: Telemetry | None = None) -> list[ReadableSpan]:
    exporter = InMemorySpanExporter()
    spans = Spans(settings or Telemetry(), exporter)
    for exchange in exchanges:
        spans.record(exchange)
    spans.close()
    return list(exporter.get_finished_spans())


def test_a_request_becomes_a_span_in_the_words_of_the_conventions() -> None:
    [span] = record(EXCHANGE)
    said = dict(span.attributes or {})

    assert span.name == "chat claude-opus-5"
    assert span.kind.name == "CLIENT"
    assert said["gen_ai.operation.name"] == "chat"
    assert said["gen_ai.provider.name"] == "anthropic"
    assert said["gen_ai.request.model"] == "claude-opus-5"
    assert said["gen_ai.usage.input_tokens"] == 3_010
    assert said["gen_ai.usage.output_tokens"] == 55
    assert said["gen_ai.usage.cache_read.input_tokens"] == 2_900
    assert said["gen_ai.usage.cache_creation.input_tokens"] == 100
    assert said["gen_ai.request.stream"] is True
    assert said["gen_ai.response.time_to_first_chunk"] == 0.25
    assert (said["server.address"], said["server.port"]) == ("api.anthropic.com", 443)
    assert said["agora.tokens_in"] == 9_000
    assert said["agora.rereads"] == 1
    assert span.end_time is not None
    assert span.start_time is not None
    assert span.end_time - span.start_time == 2_000_000_000


def test_the_names_are_those_the_conventions_list() -> None:
    names = pytest.importorskip("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
    listed = {value for value in vars(names).values() if isinstance(value, str)}

    assert {name for name in attributes(EXCHANGE) if name.startswith("gen_ai.")} <= listed


def test_a_span_continues_the_clients_trace() -> None:
    [span] = record(EXCHANGE)

    assert span.context is not None
    assert format(span.context.trace_id, "032x") == TRACE
    assert span.parent is not None
    assert format(span.parent.span_id, "016x") == SPAN


@pytest.mark.parametrize(
    "parent",
    ["", "nonsense", f"00-{TRACE}", f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01",
     f"00-{TRACE.upper()}-{SPAN}-01", f"00-{TRACE}-{SPAN}-zz"],
)  # fmt: skip
def test_a_trace_that_cannot_be_read_is_begun_anew(parent: str) -> None:
    [span] = record(Exchange(route="chat", tenant="t-1", status=200, traceparent=parent))

    assert span.parent is None


def test_a_client_that_does_not_sample_is_not_sampled() -> None:
    silent = Exchange(route="chat", tenant="t-1", status=200, traceparent=f"00-{TRACE}-{SPAN}-00")

    assert record(silent) == []
    assert record(EXCHANGE, settings=Telemetry(sample_ratio=0.0)) != []
    fresh = Exchange(route="chat", tenant="t-1", status=200)
    assert record(fresh, settings=Telemetry(sample_ratio=0.0)) == []


def test_what_went_wrong_is_told_by_its_kind() -> None:
    refused, lost, fine = record(
        Exchange(route="chat", tenant="t", status=429),
        Exchange(route="chat", tenant="t", error="upstream_reset", resent=True),
        Exchange(route="chat", tenant="t", status=200),
    )

    assert (refused.attributes or {})["error.type"] == "429"
    assert (lost.attributes or {})["error.type"] == "upstream_reset"
    assert (lost.attributes or {})["agora.resent"] is True
    assert refused.status.status_code is lost.status.status_code is StatusCode.ERROR
    assert fine.status.status_code is StatusCode.UNSET
    assert "error.type" not in (fine.attributes or {})


def test_no_span_has_headers_or_content_and_a_refused_model_is_not_told() -> None:
    exchange = Exchange(
        route="chat",
        tenant="t",
        status=404,
        model=CANARY,
        headers=(("authorization", CANARY), ("user-agent", CANARY)),
    )
    [span] = record(exchange)

    assert span_name(exchange) == "chat"
    assert CANARY not in span.to_json()
    assert json.loads(span.to_json())["resource"]["attributes"].keys() == {
        "service.name",
        "service.version",
        "service.instance.id",
    }


def test_a_route_that_asks_no_model_has_no_operation() -> None:
    [span] = record(Exchange(route="other", tenant="t", status=200, model="gpt-5"))

    assert span.name == "other"
    assert "gen_ai.operation.name" not in (span.attributes or {})


def test_nothing_is_sent_or_loaded_where_no_collector_is_named() -> None:
    script = (
        "import sys\n"
        "from agora.gateway.config import Telemetry\n"
        "from agora.gateway.watching.report import reporter_for\n"
        "assert reporter_for(Telemetry()) is None\n"
        "assert not any(name.startswith('opentelemetry') for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_named_collector_gets_an_exporter() -> None:
    pytest.importorskip(
        "opentelemetry.exporter.otlp.proto.http", reason="the extra telemetry is not installed"
    )
    spans = spans_for(Telemetry(endpoint="http://127.0.0.1:9"))

    assert spans is not None
    spans.close()

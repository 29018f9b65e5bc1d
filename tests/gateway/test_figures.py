import json
import urllib.request
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the extra telemetry is not installed")
pytest.importorskip("prometheus_client", reason="the extra gateway is not installed")

from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agora.gateway.config import Telemetry, parse_config
from agora.gateway.watching.exchange import Exchange
from agora.gateway.watching.figures import DURATION, FIRST_CHUNK, TOKENS, Figures
from agora.gateway.watching.report import Reporter, reporter_for
from agora.gateway.watching.traces import Spans

CANARY = "sk-canary-7f3a9c1e5b2d8f60"
BEGAN = 1_700_000_000_000_000_000
CALL = Exchange(
    route="messages",
    tenant="t-1",
    upstream="anthropic",
    family="anthropic",
    model="claude-opus-5",
    status=200,
    reason="compressed",
    tokens_in=9_000,
    tokens_out=3_000,
    fresh=10,
    read=2_900,
    written=100,
    output=55,
    rereads=1,
    after_edit=4,
    stream=True,
    first_chunk_ms=250.0,
    started_ns=BEGAN,
    ended_ns=BEGAN + 2_000_000_000,
    server="api.anthropic.com",
    port=443,
    headers=(("authorization", CANARY),),
)
WHERE = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "anthropic",
    "gen_ai.request.model": "claude-opus-5",
    "server.address": "api.anthropic.com",
    "server.port": 443,
}


def counted(*exchanges: Exchange) -> tuple[dict[str, Any], str]:
    """Return what a collector would get, by name, and all of it as text."""
    reader = InMemoryMetricReader()
    figures = Figures(Telemetry(), reader)
    for exchange in exchanges:
        figures.record(exchange)
    data = reader.get_metrics_data()
    figures.close()
    if data is None:
        return {}, ""
    [resource] = data.resource_metrics
    [scope] = resource.scope_metrics
    return {metric.name: metric for metric in scope.metrics}, data.to_json()


def points(metric: Any) -> list[Any]:
    return list(metric.data.data_points)


def test_tokens_are_counted_as_the_conventions_say() -> None:
    metrics, _ = counted(CALL, CALL)
    by_type = {point.attributes["gen_ai.token.type"]: point for point in points(metrics[TOKENS])}

    assert metrics[TOKENS].unit == "{token}"
    assert set(by_type) == {"input", "output"}
    assert (by_type["input"].sum, by_type["input"].count) == (2 * 3_010, 2)
    assert (by_type["output"].sum, by_type["output"].count) == (2 * 55, 2)
    assert dict(by_type["input"].attributes) == {**WHERE, "gen_ai.token.type": "input"}
    assert by_type["input"].explicit_bounds[:3] == (1, 4, 16)
    assert by_type["input"].explicit_bounds[-1] == 67_108_864


def test_durations_are_seconds_in_the_buckets_of_the_conventions() -> None:
    metrics, _ = counted(CALL)
    [took], [first] = points(metrics[DURATION]), points(metrics[FIRST_CHUNK])

    assert metrics[DURATION].unit == metrics[FIRST_CHUNK].unit == "s"
    assert took.sum == pytest.approx(2.0)
    assert first.sum == pytest.approx(0.25)
    assert dict(took.attributes) == WHERE
    assert took.explicit_bounds == pytest.approx([0.01 * 2**n for n in range(14)])
    assert took.explicit_bounds[-1] == pytest.approx(81.92)


def test_the_names_are_those_the_conventions_list() -> None:
    names = pytest.importorskip("opentelemetry.semconv._incubating.metrics.gen_ai_metrics")
    listed = {value for value in vars(names).values() if isinstance(value, str)}
    metrics, _ = counted(CALL)
    said = {name for name in metrics if name.startswith("gen_ai.")}

    assert said == {TOKENS, DURATION, FIRST_CHUNK}
    assert said <= listed


def test_what_steps_after_an_edit_did_again_is_counted_apart_from_shadow() -> None:
    metrics, _ = counted(CALL, CALL._replace(shadow=True, after_edit=9, rereads=0))
    after = {p.attributes["agora.mode"]: p.value for p in points(metrics["agora.steps.after_edit"])}
    again = {p.attributes["agora.mode"]: p.value for p in points(metrics["agora.steps.reread"])}

    assert after == {"edit": 4, "shadow": 9}
    assert again == {"edit": 1, "shadow": 0}


def test_what_was_elided_is_counted_by_our_estimate() -> None:
    metrics, _ = counted(CALL, CALL._replace(tokens_out=9_000))

    assert [point.value for point in points(metrics["agora.tokens.received"])] == [18_000]
    assert [point.value for point in points(metrics["agora.tokens.removed"])] == [6_000]


def test_a_call_that_failed_has_its_kind_and_no_tokens_that_nobody_reported() -> None:
    refused = Exchange(route="chat", tenant="t", family="openai", status=429, started_ns=BEGAN)
    lost = refused._replace(status=0, error="upstream_reset")
    metrics, _ = counted(*(call._replace(ended_ns=BEGAN + 1) for call in (refused, lost)))

    kinds = {point.attributes["error.type"] for point in points(metrics[DURATION])}
    assert kinds == {"429", "upstream_reset"}
    assert TOKENS not in metrics
    assert FIRST_CHUNK not in metrics


def test_an_answer_not_seen_to_its_end_has_no_duration() -> None:
    metrics, _ = counted(CALL._replace(whole=False))

    assert DURATION not in metrics
    assert TOKENS in metrics


def test_what_asks_no_model_is_not_counted() -> None:
    assert counted(CALL._replace(route="other"), CALL._replace(route="count_tokens")) == ({}, "")


def test_no_metric_has_a_tenant_a_header_or_a_model_that_was_refused() -> None:
    _, text = counted(CALL, CALL._replace(status=404, model=CANARY))

    assert CANARY not in text
    assert "t-1" not in text


def test_models_beyond_the_most_are_counted_without_a_name() -> None:
    calls = [CALL._replace(model=f"model-{n}", first_chunk_ms=0.0) for n in range(200)]
    metrics, _ = counted(*calls)
    named = [point.attributes.get("gen_ai.request.model") for point in points(metrics[DURATION])]

    assert len(named) == 41
    assert named.count(None) == 1
    assert sum(point.count for point in points(metrics[DURATION])) == 200


@pytest.mark.parametrize(
    ("route", "family", "operation", "provider"),
    [("generate", "gemini", "generate_content", "gcp.gemini"),
     ("converse", "bedrock", "chat", "aws.bedrock"),
     ("chat", "azure", "chat", "azure.ai.openai")],
)  # fmt: skip
def test_providers_have_the_names_of_the_conventions(
    route: str, family: str, operation: str, provider: str
) -> None:
    metrics, _ = counted(CALL._replace(route=route, family=family))
    [point] = points(metrics[DURATION])

    assert point.attributes["gen_ai.operation.name"] == operation
    assert point.attributes["gen_ai.provider.name"] == provider


def test_metrics_can_be_left_out_where_a_collector_takes_traces_alone() -> None:
    pytest.importorskip(
        "opentelemetry.exporter.otlp.proto.http", reason="the extra telemetry is not installed"
    )
    told = 'upstreams = []\n[telemetry]\nendpoint = "http://127.0.0.1:9"\n'
    both = reporter_for(parse_config(told).telemetry)
    spans = reporter_for(parse_config(told + "metrics = false\n").telemetry)

    assert reporter_for(Telemetry()) is None
    assert both is not None
    assert both.figures is not None
    assert spans is not None
    assert spans.figures is None
    both.close()
    spans.close()


def test_a_real_call_is_counted_with_its_tokens_and_its_first_chunk() -> None:
    pytest.importorskip("uvicorn", reason="the extra gateway is not installed")
    from harness.gateway.histories import chat
    from harness.gateway.loopback import config_for, gateway, serving
    from harness.gateway.strict_upstream import StrictUpstream

    reader = InMemoryMetricReader()
    with serving(StrictUpstream()) as up, gateway(config_for(up)) as (url, app):
        exporter = InMemorySpanExporter()
        told = Reporter(Spans(Telemetry(), exporter), Figures(Telemetry(), reader))
        app.forwarder.reporter = told
        asked = {**chat(40), "stream": True, "stream_options": {"include_usage": True}}
        request = urllib.request.Request(  # noqa: S310 - loopback
            f"{url}/v1/chat/completions",
            json.dumps(asked).encode(),
            {"content-type": "application/json", "authorization": "Bearer sk-1"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            answer.read()
        port = int(up.rpartition(":")[2])
    # The gateway has stopped: what it had to tell is told.
    [span] = exporter.get_finished_spans()
    said = dict(span.attributes or {})
    assert said["gen_ai.request.stream"] is True
    assert float(str(said["gen_ai.response.time_to_first_chunk"])) > 0
    assert said["server.port"] == port
    assert int(str(said["gen_ai.usage.input_tokens"])) > 0
    data = reader.get_metrics_data()
    assert data is not None
    [scope] = data.resource_metrics[0].scope_metrics
    metrics = {metric.name: points(metric) for metric in scope.metrics}
    usage = {point.attributes["gen_ai.token.type"]: point.sum for point in metrics[TOKENS]}
    assert usage["input"] == said["gen_ai.usage.input_tokens"]
    assert [point.count for point in metrics[DURATION]] == [1]
    assert [point.count for point in metrics[FIRST_CHUNK]] == [1]
    [removed] = metrics["agora.tokens.removed"]
    assert removed.value == int(str(said["agora.tokens_in"])) - int(str(said["agora.tokens_out"]))

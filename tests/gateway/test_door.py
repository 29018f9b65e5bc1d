"""Who is let in, what goes on and what does not: headers, caps, hosts, paths, secrets."""

import asyncio
import gzip
import http.client
import io
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
import pytest

from agora.core.trajectory import Anchor, Step
from agora.gateway.app import App
from agora.gateway.config import Compression, Limits, Log, Telemetry, Tenants
from agora.gateway.watching.logs import configure
from harness.gateway.histories import chat, messages
from harness.gateway.loopback import config_for, gateway, serving
from harness.gateway.strict_upstream import Received, StrictUpstream

CANARY = "canary-Zq9x-7f3b"


@dataclass
class Door:
    url: str
    app: App
    upstream: StrictUpstream
    upstream_url: str

    @property
    def last(self) -> Received:
        return self.upstream.received[-1]

    def ask(
        self,
        path: str = "/v1/chat/completions",
        body: Any = None,
        method: str = "POST",
        **headers: str,
    ) -> tuple[int, dict[str, str], bytes]:
        host, port = self.url.removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=20)
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, data, named)
        answer = connection.getresponse()
        said = answer.read()
        connection.close()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, said

    def raw(self, text: bytes) -> bytes:
        host, port = self.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as link:
            link.sendall(text)
            link.settimeout(3)
            got = b""
            try:
                while piece := link.recv(65_536):
                    got += piece
            except TimeoutError:
                pass
            return got


@pytest.fixture(scope="module")
def door() -> Iterator[Door]:
    upstream = StrictUpstream()
    with serving(upstream) as upstream_url:
        limits = Limits(body_bytes=200_000, compress_deadline_ms=5_000)
        with gateway(config_for(upstream_url, limits=limits)) as (url, app):
            yield Door(url, app, upstream, upstream_url)


def test_headers_on_the_list_go_on_in_order_and_no_others(door: Door) -> None:
    door.raw(
        b"POST /v1/chat/completions?beta=a%20b&x=1 HTTP/1.1\r\nHost: localhost\r\n"
        b"Authorization: Bearer k\r\nanthropic-beta: one\r\nX-Unknown: 1\r\nanthropic-beta: two\r\n"
        b"Connection: close, x-stainless-hop\r\nX-Stainless-Hop: 1\r\nTE: trailers\r\n"
        b"Keep-Alive: 5\r\nCookie: sid=1\r\nX-Forwarded-For: 10.1.2.3\r\nX-Tenant: acme\r\n"
        b"Forwarded: for=10.1.2.3\r\nVia: 1.1 proxy\r\nX-Real-IP: 10.1.2.3\r\n"
        b"Traceparent: 00-1\r\nBaggage: a=1\r\nX-Stainless-OS: Linux\r\n"
        b"x-agora-bypass: 1\r\nX-Agora-Other: 1\r\nAccept-Encoding: zstd\r\n"
        b"Content-Length: 2\r\n\r\n{}"
    )
    names = [name.lower() for name, _ in door.last.headers]

    assert [
        (n.lower(), v)
        for n, v in door.last.headers
        if n.lower() not in (b"host", b"content-length")
    ] == [
        (b"authorization", b"Bearer k"),
        (b"anthropic-beta", b"one"),
        (b"anthropic-beta", b"two"),
        (b"x-stainless-os", b"Linux"),
        (b"accept-encoding", b"zstd"),
    ]
    assert not any(name.startswith(b"x-agora") for name in names)
    assert door.last.query == b"beta=a%20b&x=1"


def test_other_paths_pass_both_ways_as_they_come(door: Door) -> None:
    body = bytes(range(256)) * 100
    key = {"Authorization": "Bearer k"}
    status, _, said = door.ask(
        "/v1/files%2Fa?x=%2e", body, content_type="application/octet-stream", **key
    )

    assert status == 200
    assert json.loads(said)["path"] == "/v1/files%2Fa"
    assert door.last.body == body

    assert door.ask("/v1/models", method="GET", **key)[0] == 200
    assert door.ask("/v1/files/7", method="DELETE", **key)[0] == 200


def test_an_unexpected_status_and_its_headers_come_back_as_they_are(door: Door) -> None:
    door.upstream.answers["/v1/odd"] = (
        418,
        [(b"x-one", b"1"), (b"set-cookie", b"a=1")],
        b"\x00\xff",
    )
    status, headers, said = door.ask("/v1/odd", method="GET", Authorization="Bearer k")

    assert (status, headers["x-one"], said) == (418, "1", b"\x00\xff")
    assert headers["server"] == "uvicorn"  # the upstream says so; the gateway itself says nothing
    door.ask("/v1/models", method="GET", Authorization="Bearer k")
    assert door.last.header("cookie") is None


def test_a_redirect_is_handed_back_and_not_followed(door: Door) -> None:
    target = f"{door.upstream_url}/v1/elsewhere".encode()
    door.upstream.answers["/v1/responses"] = (307, [(b"location", target)], b"")
    before = len(door.upstream.received)
    status, headers, _ = door.ask("/v1/responses", {"input": "x"})
    del door.upstream.answers["/v1/responses"]

    assert status == 307
    assert headers["location"] == target.decode()
    assert len(door.upstream.received) == before + 1


def test_a_body_that_is_too_long_or_too_deep_is_refused_in_the_apis_own_words(door: Door) -> None:
    long = {"messages": [{"role": "user", "content": "x" * 300_000}]}
    deep: Any = "x"
    for _ in range(80):
        deep = [deep]
    before = len(door.upstream.received)

    assert door.ask(body=long)[0] == 413
    status, _, said = door.ask("/v1/messages", long)
    assert (status, json.loads(said)["error"]["type"]) == (413, "request_too_large")
    status, _, said = door.ask(body={"messages": deep})
    assert status == 400
    assert "64 deep" in json.loads(said)["error"]["message"]
    assert (
        door.ask(body={"messages": [{"role": "user", "content": "x" * 5_000}], "x": deep})[0] == 400
    )
    assert len(door.upstream.received) == before


def test_a_conflict_of_lengths_is_refused(door: Door) -> None:
    before = len(door.upstream.received)
    said = door.raw(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    )

    assert said.startswith(b"HTTP/1.1 400")
    assert len(door.upstream.received) == before


def test_only_known_hosts_are_served(door: Door) -> None:
    for host in ("evil.test", "localhost.evil.test", "169.254.169.254", "", "127.0.0.1.nip.io"):
        for path in ("/metrics", "/livez", "/v1/chat/completions"):
            assert door.ask(path, method="GET", Host=host)[0] == 421, host


def ssrf() -> list[tuple[str, dict[str, str]]]:
    """Return sixty ways to ask for another place: request targets, headers and bodies."""
    places = [
        "http://{e}/",
        "//{e}/",
        "/\\{e}/",
        "/@{e}/",
        "/v1/@{e}/x",
        "http://localhost@{e}/",
        "http://{e}#@localhost/",
        "/v1/http://{e}/",
        "/v1/..//{e}/",
        "/%2f%2f{e}/",
        "/;@{e}",
        "/?url=http://{e}/",
        "/v1/chat/completions?base_url=http://{e}",
        "/v1/%0d%0aHost:%20{e}",
        "/.{e}/",
        "/:80@{e}/",
    ]
    headers = [
        "x-forwarded-host",
        "x-forwarded-server",
        "x-original-url",
        "x-rewrite-url",
        "x-upstream",
        "x-base-url",
        "x-openai-base-url",
        "x-portkey-custom-host",
        "x-litellm-api-base",
        "x-agora-upstream",
        "x-agora-base-url",
        "forwarded",
        "referer",
        "origin",
        "proxy-authorization",
        "x-http-host-override",
    ]
    corpus: list[tuple[str, dict[str, str]]] = [(place, {}) for place in places]
    corpus += [("/v1/models", {name: "http://{e}/"}) for name in headers]
    corpus += [(place.replace("{e}", "169.254.169.254"), {}) for place in places]
    corpus += [("/v1/chat/completions", {name: "http://{e}/"}) for name in headers[:12]]
    return corpus


def test_no_target_header_or_body_leads_anywhere_but_to_the_upstream(door: Door) -> None:
    corpus = ssrf()
    assert len(corpus) == 60
    with socket.socket() as trap:
        trap.bind(("127.0.0.1", 0))
        trap.listen(64)
        trap.settimeout(0.05)
        elsewhere = f"127.0.0.1:{trap.getsockname()[1]}"
        for target, headers in corpus:
            lines = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
            body = json.dumps({"model": f"http://{elsewhere}/m", "base_url": f"http://{elsewhere}"})
            text = (
                f"POST {target} HTTP/1.1\r\nHost: localhost\r\n{lines}Connection: close\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}"
            )
            said = door.raw(text.replace("{e}", elsewhere).encode())
            assert said.startswith(b"HTTP/1.1 "), target
        with pytest.raises(TimeoutError):
            trap.accept()


def test_a_path_cannot_climb_out_of_the_upstreams_base(door: Door) -> None:
    before = len(door.upstream.received)
    out = ("/v1/../admin", "/v1/%2e%2e/admin", "/v1/./x", "/v1/..", "/v1/..;/x", "/v1/%252e%252e/x")
    for path in (*out, "/../x"):
        expected = b"HTTP/1.1 400" if path in out else b"HTTP/1.1 404"
        said = door.raw(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer k\r\n"
            "Connection: close\r\n\r\n".encode()
        )
        assert said.startswith(expected), path
    assert len(door.upstream.received) == before


def test_no_secret_is_told_anywhere(door: Door) -> None:
    stream = io.StringIO()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure(Log(level="debug"), stream)
    try:
        config = config_for(door.upstream_url, log=Log(level="debug"))
        with gateway(config) as (url, app):
            inner = replace(door, url=url, app=app)
            secret = f"sk-{CANARY}"
            for path in (f"/v1/chat/completions?key={secret}", f"/v1/{secret}", f"/{CANARY}/../x"):
                inner.ask(
                    path,
                    {"model": secret, "messages": [{"role": "user", "content": secret}]},
                    Authorization=f"Bearer {secret}",
                    x_api_key=secret,
                    Cookie=secret,
                )
            inner.ask(body=b'{"' + secret.encode(), Authorization=f"Bearer {secret}")
            long = chat(40)
            long["messages"][1]["content"] += secret
            inner.ask(body=long, Authorization=f"Bearer {secret}")
            dead = replace(config.upstreams[0], base_url="http://127.0.0.1:9", connect_timeout_s=1)
            with gateway(replace(config, upstreams=(dead,))) as (other, app_2):
                failing = replace(inner, url=other, app=app_2)
                status, _, said = failing.ask(f"/v1/chat/completions?k={secret}", long)
                assert status == 502
                assert CANARY.encode() not in said
            metrics = inner.ask("/metrics", method="GET")[2].decode()
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)

    assert CANARY not in stream.getvalue()
    assert CANARY not in metrics
    assert "agora_requests_total" in metrics
    assert stream.getvalue().count("\n") >= 5


def test_the_model_of_a_request_that_is_not_read_is_in_its_line_all_the_same(door: Door) -> None:
    stream = io.StringIO()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure(Log(), stream)
    asked = chat(30)
    asked["messages"][2]["tool_calls"][0]["function"]["arguments"] = '{"model": "not-this-one"}'
    model = asked.pop("model")
    try:
        with gateway(config_for(door.upstream_url, log=Log())) as (url, app):
            inner = replace(door, url=url, app=app)
            inner.ask(body={"model": model, **asked}, x_agora_bypass="1")
            inner.ask(body={**asked, "model": model}, x_agora_bypass="1")
            inner.ask(body=asked, x_agora_bypass="1")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    reported = [line for line in lines if line["message"] == "request"]
    assert [line["reason"] for line in reported] == ["bypass"] * 3
    assert [line.get("model") for line in reported] == [model, model, None]


def test_a_prompt_beyond_the_window_goes_by_the_rule_where_there_is_no_time(door: Door) -> None:
    release = threading.Event()

    class Hanging:
        def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
            release.wait(20)
            return [0.5] * len(steps)

    limits = Limits(compress_deadline_ms=50)
    config = config_for(door.upstream_url, limits=limits)
    reasons = {}
    try:
        with gateway(config, scorer=Hanging()) as (url, app):
            inner = replace(door, url=url, app=app)
            # 8,192 tokens are the window of one of them, 128,000 that of the other.
            for model in ("gpt-4", "gpt-4o"):
                status, headers, _ = inner.ask(body={**chat(40, 1_500), "model": model})
                assert status == 200
                reasons[model] = headers.get("x-agora-untouched", "compressed")
                sent = len(json.loads(door.last.body)["messages"])
                assert (sent < 82) == (model == "gpt-4")
            rungs = app.forwarder.meter.snapshot().by("agora_requests_total", "rung")
    finally:
        release.set()

    assert reasons["gpt-4"] == "compressed"
    assert reasons["gpt-4o"] in ("deadline", "saturated")
    assert rungs == {"1": 1.0, "2": 1.0}


def test_what_came_too_late_for_one_call_is_there_for_the_next(door: Door) -> None:
    release = threading.Event()

    class Gate:
        def score(self, anchor: Anchor, steps: Sequence[Step]) -> Sequence[float]:
            assert release.wait(20)
            return [0.5] * len(steps)

    config = config_for(
        door.upstream_url, limits=Limits(compress_deadline_ms=1_000, restore_deadline_ms=1_000)
    )
    release.set()  # threads warm up at the start
    with gateway(config, scorer=Gate()) as (url, app):
        release.clear()
        inner = replace(door, url=url, app=app)

        def untouched(steps: int) -> str | None:
            _, headers, _ = inner.ask("/v1/messages", messages(steps, 1_500), x_api_key="sk-1")
            return headers.get("x-agora-untouched")

        late = untouched(29)
        release.set()
        pool, until = app.forwarder.pool, time.monotonic() + 20
        while pool._under_way:
            assert time.monotonic() < until
            time.sleep(0.005)
        pool.deadline_seconds = 20
        assert (late, untouched(30)) == ("deadline", None)


def test_a_tenant_that_compressing_costs_money_is_left_alone_for_a_while(door: Door) -> None:
    now = [1_000.0]
    tenants = Tenants(window_requests=10, rest_seconds=60)
    # Edited at every call, and all of it written to the cache each time: what costs most.
    compression = Compression(min_tokens=200, schedule="every_call")
    usage = {"input_tokens": 0, "cache_creation_input_tokens": 9_000, "output_tokens": 1}
    answer = json.dumps({"type": "message", "content": [], "usage": usage}).encode()
    kind = [(b"content-type", b"application/json")]
    upstream = StrictUpstream(answers={"/v1/messages": (200, kind, answer)})
    with (
        serving(upstream) as upstream_url,
        gateway(
            config_for(upstream_url, tenants=tenants, compression=compression),
            clock=lambda: now[0],
        ) as (url, app),
    ):
        inner = replace(door, url=url, app=app, upstream=upstream)

        def outcome(number: int, key: str) -> str:
            asked = messages(26, 1_500)
            asked["messages"][0]["content"] += f" {number}"
            body = json.dumps(asked).encode()
            status, headers, _ = inner.ask("/v1/messages", body, x_api_key=key)
            assert status == 200
            reason = headers.get("x-agora-untouched", "compressed")
            assert (inner.last.body == body) == (reason != "compressed")
            return reason

        first = [outcome(n, "sk-1") for n in range(10)]
        rests = [outcome(n, "sk-1") for n in range(10, 13)]
        other = outcome(13, "sk-2")
        reported = app.forwarder.meter.snapshot()
        metrics = inner.ask("/metrics", method="GET")[2]
        now[0] += 61
        later = outcome(14, "sk-1")

    assert first == ["compressed"] * 10
    assert rests == ["stand_down"] * 3
    assert other == later == "compressed"
    assert reported.total("agora_stand_downs_total") == 1
    assert reported.net_dollars() < 0
    assert b"agora_tenants_resting 1.0" in metrics


def test_no_secret_is_told_to_the_collector_of_traces(door: Door) -> None:
    pytest.importorskip(
        "opentelemetry.exporter.otlp.proto.http", reason="the extra telemetry is not installed"
    )
    collector = StrictUpstream()
    secret = f"sk-{CANARY}"
    with serving(collector) as collector_url:
        config = config_for(door.upstream_url, telemetry=Telemetry(endpoint=collector_url))
        with gateway(config) as (url, app):
            inner = replace(door, url=url, app=app)
            long = chat(40)
            long["messages"][1]["content"] += secret
            for path in ("/v1/chat/completions", f"/v1/chat/completions?k={secret}", f"/{secret}"):
                inner.ask(
                    path,
                    long,
                    Authorization=f"Bearer {secret}",
                    x_api_key=secret,
                    User_Agent=secret,
                    x_request_id=secret,
                    tracestate=f"vendor={secret}",
                    baggage=f"key={secret}",
                )
            # Refused by the upstream: then the model's name is what the client wrote, no model.
            inner.ask(
                body={"model": secret, "messages": [{"role": secret}]},
                Authorization=f"Bearer {secret}",
            )
            inner.ask(
                body=b'{"model": "' + secret.encode() + b'"', Authorization=f"Bearer {secret}"
            )
        sent = [
            gzip.decompress(r.body) if r.header("content-encoding") == "gzip" else r.body
            for r in collector.received
        ]

    assert sent
    assert any(b"gpt-4o" in body for body in sent)
    assert all(CANARY.encode() not in body for body in sent)
    assert all(CANARY.encode() not in b"".join((*n, r.query)) for r in collector.received
               for n in r.headers)  # fmt: skip


def test_health_is_told_and_draining_too(door: Door) -> None:
    assert door.ask("/livez", method="GET")[0] == 200
    assert door.ask("/readyz", method="GET")[0] == 200
    with gateway(config_for(door.upstream_url)) as (url, app):
        app.drain()
        inner = replace(door, url=url, app=app)
        assert inner.ask("/readyz", method="GET")[0] == 503
        assert inner.ask("/livez", method="GET")[0] == 200
        assert inner.ask(body=chat(1))[0] == 200


def test_a_piece_is_delivered_before_the_next_is_sent() -> None:
    async def run() -> None:
        gate = asyncio.Queue[bytes]()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                return
            await receive()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while piece := await gate.get():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

        import uvicorn

        from harness.gateway.loopback import free_port

        port = free_port()
        server = uvicorn.Server(
            uvicorn.Config(app, port=port, log_config=None, lifespan="off", access_log=False)
        )
        serving_task = asyncio.ensure_future(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        opened = gateway(config_for(f"http://127.0.0.1:{port}"))
        url, _ = await asyncio.to_thread(opened.__enter__)
        async with (
            aiohttp.ClientSession() as client,
            client.post(f"{url}/v1/chat/completions", json={}) as answer,
        ):
            for n in range(20):
                gate.put_nowait(b"piece %d" % n)
                assert await asyncio.wait_for(answer.content.readany(), 5) == b"piece %d" % n
            gate.put_nowait(b"")
            assert await answer.read() == b""
        await asyncio.to_thread(opened.__exit__, None, None, None)
        server.should_exit = True
        await serving_task

    asyncio.run(run())


def test_compression_is_off_when_the_configuration_says_so(door: Door) -> None:
    config = config_for(door.upstream_url, compression=Compression(enabled=False))
    with gateway(config) as (url, app):
        body = json.dumps(chat(40)).encode()
        _, headers, _ = replace(door, url=url, app=app).ask(body=body)

    assert headers["x-agora-untouched"] == "disabled"
    assert door.last.body == body


def test_a_long_talk_without_steps_is_told_in_a_header_and_in_the_metrics(door: Door) -> None:
    talk = [
        {"role": role, "content": "well, well " * 300}
        for _ in range(12)
        for role in ("user", "assistant")
    ]
    body = json.dumps({"model": "gpt-4o", "messages": [*talk, talk[0]]}).encode()
    _, headers, _ = door.ask(body=body)
    metrics = door.ask("/metrics", method="GET")[2].decode()

    assert headers["x-agora-untouched"] == "nothing_to_elide"
    assert headers["x-agora-hint"] == "acts by text? 0 steps seen; pass observations=user"
    assert "agora_no_steps_total{" in metrics


def test_an_illegal_request_names_its_rule_in_the_header_and_in_the_metrics(door: Door) -> None:
    asked = chat(40)
    # A result without its call.
    del asked["messages"][2]
    _, headers, _ = door.ask(body=json.dumps(asked).encode())
    metrics = door.ask("/metrics", method="GET")[2].decode()

    assert headers["x-agora-untouched"] == "illegal_input:O2"
    assert 'rule="O2"' in metrics

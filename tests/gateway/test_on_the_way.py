"""Faults between the gateway and its upstream: the answer is whole, or it is loud."""

import asyncio
import io
import json
import logging
import time
from collections.abc import Iterator
from dataclasses import replace

import aiohttp
import pytest

from agora.gateway.config import Log
from agora.gateway.watching.logs import configure
from harness.gateway.fault_proxy import Fault, FaultProxy
from harness.gateway.histories import chat
from harness.gateway.loopback import config_for, gateway, in_loop, serving
from harness.gateway.strict_upstream import StrictUpstream, events

PATH = "/v1/chat/completions"


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    with serving(StrictUpstream()) as url:
        yield url


@pytest.fixture
def parts(upstream: str) -> Iterator[tuple[FaultProxy, str]]:
    with (
        in_loop(lambda: FaultProxy(upstream).start()) as proxy,
        gateway(config_for(proxy.url)) as (url, _),
    ):
        yield proxy, url


def ask(url: str, *, stream: bool = True) -> tuple[int, bytes]:
    async def run() -> tuple[int, bytes]:
        body = {**chat(2), "stream": stream}
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as client,
            client.post(url + PATH, json=body, headers={"connection": "close"}) as answer,
        ):
            return answer.status, await answer.read()

    return asyncio.run(run())


@pytest.mark.parametrize(
    "fault",
    [
        Fault(),
        Fault(delay_seconds=0.3),
        Fault(every_byte=True),
        Fault(split_at=(1, 15, 16, 17, 100, 101, 300), gap_seconds=0.005),
        Fault(slow_read_bytes=512),
    ],
)
def test_a_slow_or_broken_up_answer_arrives_whole(
    parts: tuple[FaultProxy, str], fault: Fault
) -> None:
    proxy, url = parts
    proxy.fault = fault

    status, said = ask(url)

    assert status == 200
    assert said.count(b"data: ") == len(events("openai", chat(2)))
    assert said.endswith(b"data: [DONE]\n\n")
    assert json.loads(ask(url, stream=False)[1])["choices"]


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("cut_after", [0, 10, 120, 400, 1_500])
def test_an_answer_that_is_cut_is_loud(
    parts: tuple[FaultProxy, str], cut_after: int, reset: bool
) -> None:
    proxy, url = parts
    proxy.fault = Fault(cut_after=cut_after, reset=reset)

    try:
        status, said = ask(url)
    except aiohttp.ClientError:
        return
    assert status == 502
    assert "upstream" in json.loads(said)["error"]["message"]


def test_an_upstream_that_closes_at_once_is_asked_twice_and_then_told(
    parts: tuple[FaultProxy, str],
) -> None:
    proxy, url = parts
    proxy.fault = Fault(refuse=True)
    before = proxy.connections

    status, _ = ask(url)

    assert status == 502
    assert proxy.connections == before + 2


def test_the_first_byte_may_take_as_long_as_is_set_and_connecting_does_not_add_to_it(
    upstream: str,
) -> None:
    with in_loop(lambda: FaultProxy(upstream, Fault(hang=True)).start()) as proxy:
        config = config_for(proxy.url)
        limit = replace(
            config.upstreams[0], connect_timeout_s=10, first_byte_timeout_s=1, idle_timeout_s=600
        )
        with gateway(replace(config, upstreams=(limit,))) as (url, _):
            began = time.monotonic()
            status, said = ask(url)
            took = time.monotonic() - began

    assert status == 504
    assert "first_byte_timeout" in json.loads(said)["error"]["message"]
    assert 0.9 <= took < 4


def test_an_answer_that_has_begun_may_pause_longer_than_its_first_byte_may_take(
    upstream: str,
) -> None:
    pauses = Fault(split_at=(400,), gap_seconds=1.5)
    with in_loop(lambda: FaultProxy(upstream, pauses).start()) as proxy:
        config = config_for(proxy.url)
        limit = replace(config.upstreams[0], first_byte_timeout_s=1, idle_timeout_s=10)
        with gateway(replace(config, upstreams=(limit,))) as (url, _):
            status, said = ask(url)

    assert status == 200
    assert said.endswith(b"data: [DONE]\n\n")


def test_an_answer_may_not_pause_longer_than_is_set(upstream: str) -> None:
    pauses = Fault(split_at=(400,), gap_seconds=5)
    with in_loop(lambda: FaultProxy(upstream, pauses).start()) as proxy:
        config = config_for(proxy.url)
        limit = replace(config.upstreams[0], first_byte_timeout_s=30, idle_timeout_s=1)
        with gateway(replace(config, upstreams=(limit,))) as (url, _):
            began = time.monotonic()
            with pytest.raises(aiohttp.ClientError):
                ask(url)

    assert time.monotonic() - began < 5


def test_a_stream_that_breaks_off_is_one_line_that_says_so_and_no_exception(
    upstream: str,
) -> None:
    stream = io.StringIO()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure(Log(), stream)
    try:
        with (
            in_loop(lambda: FaultProxy(upstream, Fault(cut_after=400)).start()) as proxy,
            gateway(config_for(proxy.url, log=Log())) as (url, app),
        ):
            with pytest.raises(aiohttp.ClientError):
                ask(url)
            metrics = app.forwarder.meter.snapshot()
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert not [line for line in lines if line["level"] == "error"]
    [line] = [line for line in lines if line["message"] == "request"]
    assert (line["level"], line["status"], line["error"]) == (
        "warning",
        200,
        "truncated",
    )
    assert metrics.total("agora_errors_total", error="truncated", upstream="test") == 1

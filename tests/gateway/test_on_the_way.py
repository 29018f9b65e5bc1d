"""Faults between the gateway and its upstream: the answer is whole, or it is loud."""

import asyncio
import json
from collections.abc import Iterator

import aiohttp
import pytest

from tests.gateway.fault_proxy import Fault, FaultProxy
from tests.gateway.histories import chat
from tests.gateway.loopback import config_for, gateway, in_loop, serving
from tests.gateway.strict_upstream import StrictUpstream, events

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
